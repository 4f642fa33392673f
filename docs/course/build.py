#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Renders the course: replaces each directive of a chapter by the code that it names.

A directive is a line of its own:

    <!-- quote PATH function NAME -->      a C++ or Python function, NAME or Class::NAME
    <!-- quote PATH type NAME -->          a struct, class or enum
    <!-- quote PATH line /REGEXP/ -->      the one line that matches
    <!-- quote PATH from /RE/ to /RE/ -->  from one line to the next that matches the other
    <!-- quote PATH whole -->              the file

A quote that is missing, not unique, empty or longer than 60 lines is an error.
Commands for the reader are in blocks "```console run"; tests/plugin/test_course.py
runs them.

usage: build.py DIRECTORY
"""
import pathlib
import re
import shlex
import sys
import textwrap
from typing import NamedTuple, Optional

TOP = pathlib.Path(__file__).resolve().parents[2]
COURSE = TOP / "docs/course"
LONGEST = 60
LANGUAGES = {".cpp": "cpp", ".h": "cpp", ".c": "c", ".py": "python", ".txt": "cmake"}

DIRECTIVE = re.compile(r"^<!-- quote (?P<path>\S+) (?P<what>.+?) -->$")
MARKS = re.compile(r"^from /(?P<begin>.+)/ to /(?P<end>.+)/$")
LINE = re.compile(r"^line /(?P<line>.+)/$")
NAMED = re.compile(r"^(?P<kind>function|type) (?P<name>[\w:~]+)$")
NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.S)
WILDCARDS = {
    "<N>": r"-?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?",
    "<X>": r"(?:0x)?[0-9a-f]+",
    "...": r".*?",
}
QUALIFIERS = re.compile(r"(?:\s|const\b|noexcept\b|override\b|final\b)*")


class Problem(Exception):
    """An error of the course: usually the quoted code has changed."""


def only(found: list, what: str):
    if len(found) != 1:
        raise Problem(f"{what} is there {len(found)} times, not once")
    return found[0]


def matching(text: str, begin: int) -> int:
    """Returns the position after the bracket that closes the one at begin."""
    pairs = {"(": ")", "{": "}"}
    depth = 0
    for at in range(begin, len(text)):
        depth += (text[at] == text[begin]) - (text[at] == pairs[text[begin]])
        if depth == 0:
            return at + 1
    raise Problem("a bracket is never closed")


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position)


def statement_begin(plain: str, position: int) -> int:
    """Returns where the declaration begins that has its name at position."""
    begin = max(plain.rfind(c, 0, position) for c in ";{}") + 1
    access = [m.end() for m in re.finditer(r"(?:public|private|protected):|#[^\n]*\n",
                                           plain[begin:position])]
    begin += access[-1] if access else 0
    return begin + len(plain[begin:]) - len(plain[begin:].lstrip())


def cpp_ranges(text: str, kind: str, name: str) -> list[tuple[int, int]]:
    """Returns the first and last line of each definition, with the comments above it."""
    plain = NOISE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    lines = text.splitlines()
    if kind == "function":
        pattern = rf"(?<![\w.>:~]){re.escape(name)}\s*\("
    else:
        pattern = rf"\b(?:struct|class|enum|enum class) {re.escape(name)}\b[^;{{()]*{{"
    found = []
    for m in re.finditer(pattern, plain):
        if kind == "function":
            body = QUALIFIERS.match(plain, matching(plain, m.end() - 1)).end()
            if plain[body:body + 1] != "{":
                continue
        else:
            body = m.end() - 1
        begin = line_of(plain, statement_begin(plain, m.start()))
        while begin > 0 and lines[begin - 1].lstrip().startswith("//"):
            begin -= 1
        found.append((begin, line_of(plain, matching(plain, body) - 1)))
    return found


def python_ranges(text: str, kind: str, name: str) -> list[tuple[int, int]]:
    lines = text.splitlines()
    word = "def" if kind == "function" else "class"
    found = []
    for begin, line in enumerate(lines):
        m = re.match(rf"( *){word} {re.escape(name)}\b", line)
        if not m:
            continue
        inside = re.compile(rf"{m[1]}\s+\S|{m[1]}\)|\s*$")
        end = begin
        while end + 1 < len(lines) and inside.match(lines[end + 1]):
            end += 1
        while not lines[end].strip():
            end -= 1
        found.append((begin, end))
    return found


def marked_range(lines: list[str], begin: str, end: str) -> tuple[int, int]:
    first = only([i for i, line in enumerate(lines) if re.search(begin, line)], f"/{begin}/")
    for last in range(first + 1, len(lines)):
        if re.search(end, lines[last]):
            return first, last
    raise Problem(f"/{end}/ does not come after /{begin}/")


def find(text: str, what: str, is_python: bool) -> tuple[int, int]:
    """Returns the first and last line of the quote."""
    lines = text.splitlines()
    if what == "whole":
        return 0, len(lines) - 1
    if m := LINE.match(what):
        line = only([i for i, s in enumerate(lines) if re.search(m["line"], s)], what)
        return line, line
    if m := MARKS.match(what):
        return marked_range(lines, m["begin"], m["end"])
    if m := NAMED.match(what):
        ranges = python_ranges if is_python else cpp_ranges
        return only(ranges(text, m["kind"], m["name"]), what)
    raise Problem(f"'{what}' is no way to quote")


def quote(path: str, what: str, top: pathlib.Path = TOP) -> str:
    """Returns the quoted lines, without their common indentation."""
    file = top / path
    if not file.is_file():
        raise Problem("there is no such file")
    text = file.read_text()
    first, last = find(text, what, file.suffix == ".py")
    lines = text.splitlines()[first:last + 1]
    if what == "whole":
        lines = [line for line in lines if "SPDX-License-Identifier" not in line]
    if not any(line.strip() for line in lines):
        raise Problem("the quote is empty")
    if len(lines) > LONGEST:
        raise Problem(f"the quote has {len(lines)} lines, more than {LONGEST}")
    return textwrap.dedent("\n".join(lines)).strip("\n")


def rendered_quote(path: str, what: str, top: pathlib.Path) -> str:
    try:
        code = quote(path, what, top)
    except Problem as problem:
        raise Problem(f"{path}, {what}: {problem}") from None
    language = LANGUAGES.get(pathlib.Path(path).suffix, "")
    return f"`{path}`:\n\n```{language}\n{code}\n```"


def render(source: str, top: pathlib.Path = TOP) -> str:
    out = []
    for number, line in enumerate(source.splitlines(), 1):
        if m := DIRECTIVE.match(line):
            try:
                line = rendered_quote(m["path"], m["what"], top)
            except Problem as problem:
                raise Problem(f"line {number}: {problem}") from None
        elif line.startswith("<!-- quote"):
            raise Problem(f"line {number}: this directive is not understood: {line}")
        out.append("```console" if line == "```console run" else line)
    return "\n".join(out) + "\n"


class Command(NamedTuple):
    line: int
    environment: dict[str, str]
    cards: Optional[int]  # --cards
    arguments: list[str]
    output: list[str]
    status: int

    def matches(self, text: str) -> bool:
        """<N> stands for a number, <X> for a hexadecimal number, ... for any text."""
        return re.fullmatch(self.pattern(), text.rstrip("\n") + "\n") is not None

    def pattern(self) -> str:
        return "".join(
            r"(?:.*\n)*?" if line == "..." else line_pattern(line) + r"\n"
            for line in self.output
        )


def line_pattern(line: str) -> str:
    parts = re.split("(" + "|".join(map(re.escape, WILDCARDS)) + ")", line)
    return "".join(WILDCARDS.get(part, re.escape(part)) for part in parts)


def parse_command(text: str, line: int, output: list[str]) -> Command:
    """[NAME=VALUE...] scripts/sim [--cards N] COMMAND ARGUMENT..."""
    words = shlex.split(text)
    environment = {}
    while words and re.match(r"\w+=", words[0]):
        name, value = words.pop(0).split("=", 1)
        environment[name] = value
    if not words or words.pop(0) != "scripts/sim":
        raise Problem(f"line {line}: a command to run begins with scripts/sim")
    cards = None
    if words[:1] == ["--cards"]:
        cards = int(words[1])
        words = words[2:]
    status = 0
    if output and (m := re.fullmatch(r"\[exit status (\d+)\]", output[-1])):
        status = int(m[1])
        output = output[:-1]
    return Command(line, environment, cards, words, output, status)


def commands(source: str) -> list[Command]:
    """Returns each command of the blocks to run, with its output."""
    found = []
    for m in re.finditer(r"^```console run\n(.*?)^```$", source, flags=re.M | re.S):
        line = source.count("\n", 0, m.start()) + 2
        parts = re.split(r"^\$ (.*)\n", m[1], flags=re.M)
        if parts[0] or len(parts) < 3:
            raise Problem(f"line {line}: a block to run begins with '$ '")
        for command, output in zip(parts[1::2], parts[2::2]):
            found.append(parse_command(command, line, output.splitlines()))
    return found


def chapters() -> list[pathlib.Path]:
    return sorted(COURSE.glob("*.md"))


def render_all(directory: pathlib.Path) -> int:
    """Writes every page; returns their number."""
    pages = {}
    for chapter in chapters():
        source = chapter.read_text()
        try:
            pages[chapter.name] = render(source)
            commands(source)
        except Problem as problem:
            raise Problem(f"{chapter.relative_to(TOP)}: {problem}") from None
    directory.mkdir(parents=True, exist_ok=True)
    for name, page in pages.items():
        (directory / name).write_text(page)
    return len(pages)


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        print(f"course: {render_all(pathlib.Path(sys.argv[1]))} pages")
    except Problem as problem:
        print(f"course: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
