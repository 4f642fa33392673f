#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws docs/pictures/memory.svg, which side writes which memory, from the list below.

usage: make-memory.py            write the picture
       make-memory.py --check    fail if the picture is not what the list gives

Each arrow names a struct or constant and its header; a missing one is an error.
"""
import sys

from svg import INK, box, line, main, svg, text

WIDTH = 800
LANES = {"process": 110, "card": 430, "driver": 700}
NAMES = {"process": "process (libopenreg)", "card": "card", "driver": "driver (kmod)"}
ISA, REGS = "uapi/openreg_isa.h", "uapi/openreg_regs.h"

# writer, reader; what the memory holds; where it lies; header and name
ROWS = [
    "every launch",
    ("process", "card", "ring: packets", "RAM", ISA, "openreg_packet"),
    ("process", "card", "user page: tail", "RAM", ISA, "openreg_user_page"),
    ("process", "card", "VRAM: operands", "BAR 4", REGS, "OPENREG_BAR_VRAM"),
    ("card", "process", "VRAM: results", "BAR 4", REGS, "OPENREG_BAR_VRAM"),
    ("card", "process", "card page: completed, head, state", "RAM", ISA, "openreg_card_page"),
    "only if the card sleeps",
    ("card", "process", "card page: asleep, wakes", "RAM", ISA, "openreg_card_page"),
    ("process", "card", "doorbell page", "BAR 2", REGS, "OPENREG_BAR_DOORBELL"),
    "only if a thread sleeps",
    ("driver", "card", "kernel page: armed", "RAM", ISA, "openreg_kernel_page"),
    ("card", "driver", "MSI-X vector of the queue", "", REGS, "OPENREG_REG_VECTORS"),
    "only between streams",
    ("card", "card", "fence word, SIGNAL to WAIT", "VRAM or RAM", ISA,
     "OPENREG_OP_SIGNAL"),
    "when memory or queues come and go",
    ("driver", "card", "admin ring: commands", "RAM", REGS, "openreg_admin_cmd"),
    ("driver", "card", "register: tail of that ring", "BAR 0", REGS, "OPENREG_REG_ADMIN_TAIL"),
    ("card", "driver", "admin ring: completions", "RAM", REGS, "openreg_admin_cpl"),
    ("card", "driver", "released page", "RAM", REGS, "openreg_released_page"),
    "when a packet is bad",
    ("card", "process", "card page: fault summary", "RAM", ISA, "openreg_fault_summary"),
    ("card", "driver", "fault ring: records", "RAM", REGS, "openreg_fault_record"),
]
TITLE, ROW, GAP = 40, 35, 10
HALO = ' stroke="white" stroke-width="4" paint-order="stroke"'  # keeps lines out of words


def arrow(writer: str, reader: str, y: int) -> str:
    head = 'stroke-width="1.5" marker-end="url(#head)"'
    x = LANES[writer]
    if writer == reader:
        return (f'<path d="M{x},{y - 8} h40 v12 h-40" fill="none" stroke="{INK}" {head}/>')
    return line((x, y), (LANES[reader], y), head)


def picture() -> str:
    out, y = [], TITLE + 26
    for row in ROWS:
        if isinstance(row, str):
            y += GAP + 8
            out.append(text(14, y, row, f'{HALO} font-weight="bold" fill="{INK}"'))
            y += 30
            continue
        writer, reader, what, where, _, name = row
        x, how = (LANES[writer] + LANES[reader]) // 2, ' text-anchor="middle"'
        if writer == reader:
            x, how = x + 50, HALO
        out += [
            arrow(writer, reader, y),
            text(x, y - 6, f"{what} ({where})" if where else what,
                 f'{how} font-size="11"'),
            text(x, y + 12, name, f'{how} font-size="10" fill="{INK}"'),
        ]
        y += ROW
    height = y
    lanes = []
    for lane, x in LANES.items():
        lanes += [
            line((x, TITLE), (x, height - 14), 'stroke-dasharray="3,4"'),
            box(x - 90, 10, 180, 30),
            text(x, 30, NAMES[lane], ' text-anchor="middle" font-weight="bold"'),
        ]
    return svg(WIDTH, height, "docs/pictures/make-memory.py", lanes + out)


if __name__ == "__main__":
    sys.exit(main("docs/pictures/make-memory.py", __doc__, "memory.svg", picture(),
                  [row[4:] for row in ROWS if not isinstance(row, str)]))
