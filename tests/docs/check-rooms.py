#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that the card's files keep to their rooms: a file includes headers of its own room
and of earlier rooms only. The order is that of the table in qemu-device/card/README.md.

usage: check-rooms.py"""
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
CARD = TOP / "qemu-device/card"
README = CARD / "README.md"
ROW = re.compile(r"^\| \[(\w+)\]\(\1\) \|", re.M)
INCLUDE = re.compile(r'^\s*#\s*include "(?:(.*)/)?([\w.-]+)"', re.M)
# Headers beside the rooms, and those of uapi/.
COMMON = {"card.h"} | {path.name for path in (TOP / "uapi").glob("*.h")}


def check_include(rooms, file, room, name):
    """Returns why a file of a room must not include this header, or None."""
    room = room or file.parent.name
    if room not in rooms or not (CARD / room / name).exists():
        return f"{room}/{name} does not exist: an include names the room and the header"
    if rooms.index(room) > rooms.index(file.parent.name):
        return (f"a file of the room '{file.parent.name}' includes a header of '{room}', a "
                f"later room in {README.relative_to(TOP)}: move what it needs")
    return None


def check_file(rooms, file):
    text = file.read_text()
    for match in INCLUDE.finditer(text):
        room, name = match.groups()
        if not room and name in COMMON:
            continue
        message = check_include(rooms, file, room, name)
        if message:
            line = text.count("\n", 0, match.start()) + 1
            yield f"{file.relative_to(TOP)}:{line}: {message}"


def main():
    rooms = ROW.findall(README.read_text())
    errors = []
    for folder in sorted({path.parent.name for path in CARD.glob("*/*.[ch]")} ^ set(rooms)):
        errors.append(f"{README.relative_to(TOP)}:1: '{folder}' is a folder or a row, not both")
    for file in sorted(CARD.glob("*/*.[ch]")):
        if file.parent.name in rooms:
            errors += check_file(rooms, file)
    if errors:
        print(*errors, sep="\n")
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main())
