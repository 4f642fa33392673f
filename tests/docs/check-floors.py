#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that the driver's files keep to their floors: a file uses functions and variables
of its own floor and of lower floors only, and includes only their headers. Calls to a higher
floor go through the pointers of struct openreg_upcalls, which probe sets. The floors are the
table in kmod/README.md.

usage: check-floors.py"""

import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
KMOD = TOP / "kmod"

README = KMOD / "README.md"
ROW = re.compile(r"^\| (\w+) \|[^|\n]*\| ([\w ]+) \| ([\w ]+) \|$", re.M)

DEFINITION = re.compile(
    r"^(?!static|extern|return|typedef)(?:[A-Za-z_][\w \t*]*[ \t*])?(openreg_\w+)"
    r"(?:\([^;]*?\)\s*\{|(?:\[[^;]*?\])?\s*[=;])",
    re.M,
)
INCLUDE = re.compile(r'^#include "(?:\w+/)?(openreg_\w+\.h)"', re.M)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
STRING = re.compile(r"\"(?:\\.|[^\"\\\n])*\"")


def read_floors():
    """Returns the names of the floors, the lowest first, and the floor's number by file."""
    table = [m.groups() for m in ROW.finditer(README.read_text())]
    rows = table[:0:-1]  # without the heading
    files = {}
    for i, (_, sources, headers) in enumerate(rows):
        files |= {f"openreg_{name}.c": i for name in sources.split()}
        files |= {f"openreg_{name}.h": i for name in headers.split()}
    return [row[0] for row in rows], files


def blank(pattern, text):
    """Replaces what matches by blanks, and keeps the lines."""
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def definitions(texts):
    """Returns the C file of each function and variable that is not static."""
    return {
        m.group(1): file
        for file, text in texts.items()
        if file.endswith(".c")
        for m in DEFINITION.finditer(text)
    }


def upward(floor, file, other):
    return floor[other] > floor[file]


def check_file(names, floor, owner, file, text):
    """Yields (position, message) for each use of a higher floor."""
    name = names[floor[file]]
    for m in INCLUDE.finditer(text):
        other = m.group(1)
        if other not in floor or not upward(floor, file, other):
            continue
        yield m.start(), (
            f"a file of the floor '{name}' includes {other} of '{names[floor[other]]}': "
            f"declare what it needs in a header of '{name}'"
        )
    # In a header only declarations: a tracepoint may have the name of a function.
    name_pattern = r"\bopenreg_\w+(?=[;(\[])" if file.endswith(".h") else r"\bopenreg_\w+"
    for m in re.finditer(name_pattern, blank(STRING, text)):
        other = owner.get(m.group())
        if other is None or not upward(floor, file, other):
            continue
        if file.endswith(".h"):
            hint = "declare it in a header of that floor"
        else:
            hint = "move this code up, or call it through struct openreg_upcalls"
        yield m.start(), (
            f"a file of the floor '{name}' uses {m.group()} of '{names[floor[other]]}' "
            f"({other}): {hint}"
        )


def check_places(names, floor, found):
    """Yields a message for each file that is on no floor, is missing or is elsewhere."""
    table = README.relative_to(TOP)
    for file, at in found.items():
        if file not in floor:
            yield f"{at}:1: the file is on no floor: add it to the table in {table}"
        elif (at.parent.name == "extra") != (names[floor[file]] == "extra"):
            yield f"{at}:1: the floor '{names[floor[file]]}' is in another folder: move the file"
    for file in sorted(floor.keys() - found.keys()):
        yield f"{table}:1: {file} does not exist: take it out of the table"


def main():
    names, floor = read_floors()
    found = {p.name: p.relative_to(TOP) for p in sorted(KMOD.rglob("openreg_*.[ch]"))}
    errors = list(check_places(names, floor, found))
    texts = {
        file: blank(COMMENT, (TOP / at).read_text())
        for file, at in found.items()
        if file in floor
    }
    owner = definitions(texts)
    for file, text in texts.items():
        for at, message in check_file(names, floor, owner, file, text):
            errors.append(f"{found[file]}:{text.count(chr(10), 0, at) + 1}: {message}")
    if errors:
        print(*errors, sep="\n")
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main())
