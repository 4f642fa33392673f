#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws docs/pictures/races.svg, the two races of a queue on a time line, from the list below.

usage: make-races.py            write the picture
       make-races.py --check    fail if the picture is not what the list gives

Each race names fields of the pages and their header; a missing one is an error.
"""
import sys

from svg import INK, box, line, main, svg, text

ISA = "uapi/openreg_isa.h"
WIDTH, LEFT, RIGHT, ROW = 800, 160, 500, 30

# title; the name of the left side; the steps in time: side, what it does, whether it is a barrier
RACES = [
    ("the doorbell: the load overtakes the store, and the packet waits for ever", "producer", [
        ("left", "load asleep: 0, so no doorbell", False),
        ("right", "store asleep = 1", False),
        ("right", "load tail: 0, so sleep", False),
        ("left", "store tail = 1 (too late)", False)]),
    ("the doorbell, with both barriers: one side sees the other's store", "producer", [
        ("left", "store tail = 1", False),
        ("left", "mb()", True),
        ("right", "store asleep = 1", False),
        ("right", "full barrier", True),
        ("right", "load tail: 1, so run the packet", False),
        ("left", "load asleep: 1, so ring", False)]),
    ("armed: the thread looks, then arms, and sleeps for ever", "thread", [
        ("left", "load completed: n - 1", False),
        ("right", "store completed = n", False),
        ("right", "load armed: none, so no vector", False),
        ("left", "store armed = n (too late)", False),
        ("left", "sleep", False)]),
    ("armed, then look: the thread sees n, or the card sees armed", "thread", [
        ("left", "store armed = n", False),
        ("left", "mb()", True),
        ("right", "store completed = n", False),
        ("right", "full barrier", True),
        ("right", "load armed: n, so raise the vector", False),
        ("left", "load completed: n, so do not sleep", False)]),
]
FIELDS = ["asleep", "tail", "completed", "armed"]


def race(y: int, title: str, producer: str, steps: list) -> tuple[list[str], int]:
    out = [text(14, y + 14, title, f' font-weight="bold" fill="{INK}"')]
    top = y + 26
    for x, name in ((LEFT, producer), (RIGHT, "card")):
        out += [box(x - 70, top, 140, 24), text(x, top + 16, name, ' text-anchor="middle"')]
    y = top + 24
    for side, what, barrier in steps:
        y += ROW
        x = LEFT if side == "left" else RIGHT
        if barrier:
            out.append(line((x - 60, y - 4), (x + 60, y - 4), 'stroke-width="3"'))
            out.append(text(x + 68, y, what, ' font-size="11"'))
        else:
            out.append(f'<circle cx="{x}" cy="{y - 4}" r="4" fill="{INK}"/>')
            out.append(text(x + 12, y, what, ' font-size="11"'))
    lanes = [line((x, top + 24), (x, y + 10), 'stroke-dasharray="3,4"') for x in (LEFT, RIGHT)]
    return lanes + out, y + 28


def picture() -> str:
    out, y = [], 10
    for title, producer, steps in RACES:
        more, y = race(y, title, producer, steps)
        out += more
    return svg(WIDTH, y, "docs/pictures/make-races.py", out)


if __name__ == "__main__":
    sys.exit(main("docs/pictures/make-races.py", __doc__, "races.svg", picture(),
                  [(ISA, field) for field in FIELDS]))
