#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws docs/pictures/address.svg: how an address reaches memory through the segment table.

usage: make-address.py            write the picture
       make-address.py --check    fail if the picture is not what the header gives

The widths of the fields come from uapi/openreg_isa.h.
"""
import re
import sys

from svg import INK, TOP, box, line, main, svg, text

ISA, REGS = "uapi/openreg_isa.h", "uapi/openreg_regs.h"
WIDTH = 800
ARROW = 'stroke-width="1.5" marker-end="url(#head)"'


def constant(name: str) -> int:
    source = (TOP / ISA).read_text(encoding="utf-8")
    return int(re.search(rf"#define OPENREG_ADDR_{name}\s+(0x\w+?|\d+)(?:ULL)?\s", source)[1], 0)


def fields() -> list[tuple[str, int]]:
    """Name and bits, from the highest"""
    return [(f"tag 0x{constant('TAG'):x}", 64 - constant("TAG_SHIFT")), ("1", 1),
            ("card", constant("CARD_BITS")), ("segment", constant("SEG_BITS")),
            ("offset", constant("OFFSET_BITS"))]


def address() -> list[str]:
    out, x, bit = [], 40, 64
    widths = {"1": 40, "card": 100, "segment": 160, "offset": 260}
    for name, bits in fields():
        width = widths.get(name, 140)
        out += [box(x, 40, width, 34), text(x + width // 2, 62, name, ' text-anchor="middle"'),
                text(x + width // 2, 32, f"{bit - 1}..{bit - bits}" if bits > 1 else str(bit - 1),
                     ' text-anchor="middle" font-size="10"')]
        x, bit = x + width, bit - bits
    return out


def table() -> list[str]:
    out = [text(40, 130, "segment table of the queue's context", ' font-weight="bold"')]
    rows = [("1", "VRAM", "read, write", "length", "base"),
            ("2", "SYSTEM", "read, write", "length", "page list"),
            ("3", "unbound: the packet faults", "", "", "")]
    for i, row in enumerate(rows):
        y = 140 + 30 * i
        out.append(box(40, y, 440, 28))
        out += [text(x, y + 19, word, ' font-size="11"')
                for x, word in zip((52, 90, 170, 290, 370), row) if word]
    out += [box(600, 130, 160, 40), text(680, 155, "VRAM: base + offset",
                                         ' text-anchor="middle" font-size="11"'),
            line((480, 154), (598, 152), ARROW)]
    for i, name in enumerate(("page 0", "page 1", "page 2")):
        y = 190 + 34 * i
        out += [box(600, y, 160, 26), text(680, y + 18, f"system memory, {name}",
                                           ' text-anchor="middle" font-size="11"'),
                line((480, 184), (598, y + 13), ARROW)]
    out.append(line((360, 76), (200, 118), ARROW))
    return out


def words() -> list[str]:
    steps = ["1. The card field must be this card's CARD_ID, else the packet faults with ADDRESS.",
             "2. The segment number selects a row of the table; no row: ADDRESS.",
             "3. The row must allow the access, else PERMISSION.",
             "4. Every byte of the operand must be below length, else BOUNDS.",
             "5. The offset leads into VRAM, or through the page list into system memory."]
    return [text(40, 320 + 20 * i, step, f' font-size="11.5" fill="{INK}"')
            for i, step in enumerate(steps)]


if __name__ == "__main__":
    sys.exit(main("docs/pictures/make-address.py", __doc__, "address.svg",
                  svg(WIDTH, 420, "docs/pictures/make-address.py",
                      address() + table() + words()),
                  [(ISA, "OPENREG_FAULT_ADDRESS"), (ISA, "OPENREG_FAULT_PERMISSION"),
                   (ISA, "OPENREG_FAULT_BOUNDS"), (REGS, "OPENREG_SEG_VRAM"),
                   (REGS, "OPENREG_SEG_SYSTEM"), (REGS, "OPENREG_REG_CARD_ID")]))
