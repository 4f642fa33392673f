#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws docs/pictures/layers.svg from the lists below.

usage: make-layers.py            write the picture
       make-layers.py --check    fail if the picture is not what the lists give

Each box and each arrow names a file or folder of the checkout; a missing one is an error.
"""
import sys

from svg import INK, box, line, main, svg, text

WIDTH, HEIGHT = 800, 440

# x, y, width, height; folder; what the folder is; what that layer does
BOXES = [
    (20, 46, 440, 70, "plugin/csrc", "PyTorch backend, C++ and Python",
     ["picks the kernel, builds one command packet"]),
    (20, 158, 440, 88, "libopenreg/src", "C library",
     ["writes the packet into a ring in shared memory;",
      "rings the doorbell only if the card sleeps"]),
    (550, 158, 230, 88, "kmod", "Linux driver",
     ["memory, queues, interrupts,", "faults; no launch enters it"]),
    (20, 334, 760, 88, "qemu-device/card", "virtual PCI card, C",
     ["fetches the packet by DMA, checks every address, executes the packet in slices,",
      "writes the completion counter; raises an interrupt only if a thread sleeps"]),
]
# from, to; place of the label and its anchor; what crosses; the header that defines it
ARROWS = [
    ((255, 116), (255, 158), (265, 141), "start", "calls", "libopenreg/include/openreg.h"),
    ((460, 202), (550, 202), (505, 146), "middle", "ioctls", "uapi/openreg_accel.h"),
    ((255, 246), (255, 334), (265, 270), "start", "packets", "uapi/openreg_isa.h"),
    ((675, 246), (675, 334), (665, 270), "end", "registers, commands", "uapi/openreg_regs.h"),
]
BUS = (294, "PCI: BARs, DMA, MSI-X")


def picture() -> str:
    head = 'stroke-width="1.5" marker-end="url(#head)"'
    small = ' font-size="11"'
    y, bus = BUS
    out = [
        text(255, 20, "torch.add(a, b)", ' text-anchor="middle" font-weight="bold"'),
        line((255, 26), (255, 46), head),
        line((20, y), (WIDTH - 20, y), 'stroke-dasharray="6,5"'),
        text(20, y - 6, bus, small),
    ]
    for x, y, width, height, path, title, lines in BOXES:
        out += [
            box(x, y, width, height),
            text(x + 12, y + 23, path + "/", ' font-weight="bold"'),
            text(x + width - 12, y + 23, title, f' text-anchor="end" fill="{INK}"'),
        ]
        out += [text(x + 12, y + 50 + 18 * i, words) for i, words in enumerate(lines)]
    for begin, end, (x, y), anchor, words, path in ARROWS:
        out += [
            line(begin, end, head),
            text(x, y, f"{words}: {path.rsplit('/', 1)[1]}", f'{small} text-anchor="{anchor}"'),
        ]
    return svg(WIDTH, HEIGHT, "docs/pictures/make-layers.py", out)


if __name__ == "__main__":
    sys.exit(main("docs/pictures/make-layers.py", __doc__, "layers.svg", picture(),
                  [(box[4], "") for box in BOXES] + [(arrow[5], "") for arrow in ARROWS]))
