#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Renders the course from the present code, and tests the renderer.

usage: check-course.py    (in the checkout)
"""
import pathlib
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(TOP / "docs/course"))
import build  # noqa: E402

CODE = """\
#include <x>
// Says "{" and why.
template <class T>
int first(T value) const {
  if (first(value)) { return second("}"); }  // {
  return 0;
}
void second();
struct Third : Base {
  void second() override { first(1); }
  int a;
};
int many() { return 1; }
int many(int) { return 2; }

"""
LONG = "begin\n" + "line\n" * 60 + "end\n"


def refused(action, reason) -> list[str]:
    """Errors, unless action fails with this reason."""
    try:
        action()
    except build.Problem as problem:
        return [] if reason in str(problem) else [f"'{reason}' is not in '{problem}'"]
    return [f"not refused: {reason}"]


def check_quotes(top: pathlib.Path) -> list[str]:
    (top / "a.cpp").write_text(CODE)
    (top / "long.txt").write_text(LONG)
    lines = CODE.splitlines()
    wrong = []
    for what, begin, end in [
        ("function first", 1, 7),
        ("function second", 9, 10),
        ("type Third", 8, 12),
        ("line /int a/", 10, 11),
        ("from /^struct/ to /^}/", 8, 12),
    ]:
        have = build.quote("a.cpp", what, top)
        want = "\n".join(lines[begin:end])
        if have.split() != want.split():
            wrong.append(f"{what} gives\n{have}")
    for file, what, reason in [
        ("b.cpp", "whole", "no such file"),
        ("a.cpp", "function none", "0 times"),
        ("a.cpp", "function many", "2 times"),
        ("a.cpp", "line /int/", "times"),
        ("a.cpp", "line /^$/", "empty"),
        ("a.cpp", "from /^struct/ to /nowhere/", "does not come after"),
        ("long.txt", "from /begin/ to /end/", "62 lines"),
        ("a.cpp", "everything", "no way to quote"),
    ]:
        wrong += refused(lambda: build.quote(file, what, top), reason)
    wrong += refused(lambda: build.render("<!-- quote a.cpp>\n", top), "not understood")
    return wrong


def check_commands() -> list[str]:
    block = "```console run\n$ A=1 scripts/sim --cards 2 python3 x\na <N>...\n...\nb\n[exit status 3]\n```\n"
    command = build.commands(block)[0]
    wrong = []
    if command[1:] != ({"A": "1"}, 2, ["python3", "x"], ["a <N>...", "...", "b"], 3):
        wrong.append(f"parsed as {command}")
    for text, good in [("a 1.5 etc\nx\ny\nb\n", True), ("a 7\n\nb", True), ("a x\n\nb", False)]:
        if command.matches(text) != good:
            wrong.append(f"'{text}' matches: {not good}")
    wrong += refused(lambda: build.commands("```console run\nls\n```\n"), "begins with '$ '")
    wrong += refused(lambda: build.commands("```console run\n$ ls\n```\n"), "scripts/sim")
    return wrong


def check_pages(directory: pathlib.Path) -> list[str]:
    """Errors, unless every chapter renders, has a command, and is in the contents."""
    wrong = []
    try:
        build.render_all(directory)
    except build.Problem as problem:
        return [str(problem)]
    for page in build.chapters():
        if page.name != "README.md" and not build.commands(page.read_text()):
            wrong.append(f"{page.name} has no command to run")
        if page.name not in (build.COURSE / "README.md").read_text() + "README.md":
            wrong.append(f"{page.name} is not in the table of contents")
    return wrong


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        top = pathlib.Path(name)
        wrong = check_quotes(top) + check_commands() + check_pages(top / "out")
    for text in wrong:
        print("error:", text)
    print(f"course: {len(build.chapters())} pages, {len(wrong)} errors")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
