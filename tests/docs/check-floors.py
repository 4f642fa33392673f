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

# From below: the floor, its C files, and its headers.
FLOORS = [
    ("device", "hw irq admin watchdog trace", "compat admin device trace"),
    ("objects", "gem vram sysmem mmap ctx unbind queue wait", "ctx gem queue"),
    ("extra", "prime import syncobj dump fdinfo debugfs", "prime extra"),
    ("recovery", "fault reset power stuck", "reset"),
    ("front", "drv ioctl node", "drv"),
]
# This file reads fields of all floors' structures for the tracepoints, and calls nothing.
SEES_ALL = {"openreg_trace.c"}

DEFINITION = re.compile(
    r"^(?!static|extern|return|typedef)(?:[A-Za-z_][\w \t*]*[ \t*])?(openreg_\w+)"
    r"(?:\([^;]*?\)\s*\{|\[?[^;(]*=\s*\{)",
    re.M,
)
INCLUDE = re.compile(r'^#include "(openreg_\w+\.h)"', re.M)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
STRING = re.compile(r"\"(?:\\.|[^\"\\\n])*\"")


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
        if file in SEES_ALL or other not in floor or not upward(floor, file, other):
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


def main():
    floor = floors()
    texts = {
        p.name: blank(COMMENT, p.read_text()) for p in sorted(KMOD.glob("openreg_*.[ch]"))
    }
    errors = [
        f"kmod/{file}:1: the file is on no floor: add it to FLOORS in {SELF}"
        for file in texts
        if file not in floor
    ]
    errors += [
        f"{SELF}:1: kmod/{file} does not exist: take it out of FLOORS"
        for file in floor
        if file not in texts
    ]
    known = {file: text for file, text in texts.items() if file in floor}
    owner = definitions(known)
    for file, text in known.items():
        for at, message in check_file(floor, owner, file, text):
            errors.append(f"kmod/{file}:{text.count(chr(10), 0, at) + 1}: {message}")
    if errors:
        print(*errors, sep="\n")
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main())
