#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws docs/pictures/ring.svg: a queue's ring and its three pages, and a packet's life.

usage: make-ring.py            write the picture
       make-ring.py --check    fail if the picture is not what the lists give

Each field is one of the header's; a missing one is an error.
"""
import sys

from svg import FILL, INK, box, line, main, svg, text

ISA = "uapi/openreg_isa.h"
WIDTH, SLOT = 800, 42
SLOTS, HEAD, TAIL = 16, 5, 11
PAGES = [  # page, its one writer, fields
    ("user page", "process writes", ["tail"]),
    ("card page", "card writes", ["head", "completed", "asleep", "state"]),
    ("kernel page", "driver writes", ["armed"]),
]
LIFE = [
    "1. The process writes the packet into slots from tail on.",
    "2. It stores tail, executes a full barrier and loads asleep; if 1, it rings the doorbell.",
    "3. The card sees head < tail, copies the packet and checks the copy.",
    "4. An engine runs the packet. Its results are visible before the next step.",
    "5. The card stores head and completed, executes a full barrier and loads armed.",
    "6. If a thread sleeps for this number, the card raises the queue's vector.",
]


def ring() -> list[str]:
    out, left, top = [], (WIDTH - SLOTS * SLOT) // 2, 60
    for i in range(SLOTS):
        used = HEAD <= i < TAIL
        out.append(f'<rect x="{left + i * SLOT}" y="{top}" width="{SLOT}" height="34" '
                   f'fill="{FILL if used else "white"}" stroke="{INK}"/>')
        out.append(text(left + i * SLOT + SLOT // 2, top + 22, str(i),
                        ' text-anchor="middle" font-size="11"'))
    for name, slot in (("head", HEAD), ("tail", TAIL)):
        x = left + slot * SLOT
        out.append(text(x, top - 30, name, ' text-anchor="middle" font-weight="bold"'))
        out.append(line((x, top - 26), (x, top - 2),
                        'stroke-width="1.5" marker-end="url(#head)"'))
    middle = left + (HEAD + TAIL) * SLOT // 2
    out.append(text(middle, top + 52, "published, not yet read: tail - head slots",
                    ' text-anchor="middle" font-size="11"'))
    out.append(text(left, top + 52, "free", ' font-size="11"'))
    out.append(text(left + SLOTS * SLOT, top + 52, "free", ' text-anchor="end" font-size="11"'))
    return out


def pages() -> list[str]:
    out = []
    for i, (name, writer, fields) in enumerate(PAGES):
        x = 60 + i * 240
        out += [box(x, 140, 200, 110), text(x + 100, 160, name,
                                            ' text-anchor="middle" font-weight="bold"'),
                text(x + 100, 176, writer, f' text-anchor="middle" font-size="11" fill="{INK}"')]
        out += [text(x + 60, 194 + 16 * j, field) for j, field in enumerate(fields)]
    return out


def picture() -> str:
    life = [text(60, 284 + 20 * i, step, ' font-size="11.5"') for i, step in enumerate(LIFE)]
    return svg(WIDTH, 284 + 20 * len(LIFE), "docs/pictures/make-ring.py",
               ring() + pages() + life)


if __name__ == "__main__":
    sys.exit(main("docs/pictures/make-ring.py", __doc__, "ring.svg", picture(),
                  [(ISA, field) for _, _, fields in PAGES for field in fields]))
