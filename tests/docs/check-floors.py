#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that the driver's files keep to their floors: a file uses functions and variables
of its own floor and of lower floors only, and includes only their headers. Calls to a higher
floor go through the pointers of struct openreg_upcalls, which probe sets.

usage: check-floors.py"""

import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
SELF = pathlib.Path(__file__).resolve().relative_to(TOP)
KMOD = TOP / "kmod"

# From below: the floor, its C files, and its headers. The files of "extra" are in a folder
# of that name. Every floor has tracepoints, so their header is on the lowest; the structures
# that it copies from are known to extra/openreg_trace.c alone.
FLOORS = [
    ("device", "hw irq admin watchdog", "compat admin device trace"),
    ("objects", "gem vram sysmem mmap ctx unbind queue wait", "ctx gem queue"),
    ("extra", "prime import syncobj dump fdinfo debugfs trace", "prime extra"),
    ("recovery", "fault reset power stuck", "reset"),
    ("front", "drv ioctl node", "drv"),
]

DEFINITION = re.compile(
    r"^(?!static|extern|return|typedef)(?:[A-Za-z_][\w \t*]*[ \t*])?(openreg_\w+)"
    r"(?:\([^;]*?\)\s*\{|(?:\[[^;]*?\])?\s*[=;])",
    re.M,
)
INCLUDE = re.compile(r'^#include "(?:\w+/)?(openreg_\w+\.h)"', re.M)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
STRING = re.compile(r"\"(?:\\.|[^\"\\\n])*\"")


def path(file, floor):
    """Returns where a file of a floor is."""
    folder = KMOD / "extra" if FLOORS[floor][0] == "extra" else KMOD
    return (folder / file).relative_to(TOP)


def floors():
    """Returns the number of the floor of each file."""
    files = {}
    for i, (_, sources, headers) in enumerate(FLOORS):
        files |= {f"openreg_{name}.c": i for name in sources.split()}
        files |= {f"openreg_{name}.h": i for name in headers.split()}
    return files


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


def check_file(floor, owner, file, text):
    """Yields (position, message) for each use of a higher floor."""
    name = FLOORS[floor[file]][0]
    for m in INCLUDE.finditer(text):
        other = m.group(1)
        if other not in floor or not upward(floor, file, other):
            continue
        yield m.start(), (
            f"a file of the floor '{name}' includes {other} of '{FLOORS[floor[other]][0]}': "
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
            f"a file of the floor '{name}' uses {m.group()} of '{FLOORS[floor[other]][0]}' "
            f"({other}): {hint}"
        )


def check_places(floor, found):
    """Yields a message for each file that is on no floor, is missing or is elsewhere."""
    for file, at in found.items():
        if file not in floor:
            yield f"{at}:1: the file is on no floor: add it to FLOORS in {SELF}"
        elif at != path(file, floor[file]):
            yield f"{at}:1: move the file to {path(file, floor[file])}"
    for file in floor.keys() - found.keys():
        yield f"{SELF}:1: {file} does not exist: take it out of FLOORS"


def main():
    floor = floors()
    found = {p.name: p.relative_to(TOP) for p in sorted(KMOD.rglob("openreg_*.[ch]"))}
    errors = list(check_places(floor, found))
    texts = {
        file: blank(COMMENT, (TOP / at).read_text())
        for file, at in found.items()
        if file in floor
    }
    owner = definitions(texts)
    for file, text in texts.items():
        for at, message in check_file(floor, owner, file, text):
            errors.append(f"{found[file]}:{text.count(chr(10), 0, at) + 1}: {message}")
    if errors:
        print(*errors, sep="\n")
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main())
