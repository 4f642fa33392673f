# SPDX-License-Identifier: MIT
"""Lab 11: a caching allocator. Seen in the card's free memory and in what tensors hold."""
from native import grade

TITLE = "an allocator"
CHECKS = [
    ("blocks", 2, "blocks at multiples of 512 that do not overlap, and that packets can use"),
    ("reuse", 2, "a freed block serves its stream again, at once and without the driver"),
    ("share", 1, "small blocks share segments"),
    ("streams", 1, "a freed block serves no other stream"),
    ("record", 2, "a recorded block waits for the other stream, and serves again afterwards"),
    ("empty", 1, "empty() returns all segments without a block in use, and no packet faults"),
    ("full", 1, "if the card is full, cached segments go back; else c10::OutOfMemoryError"),
]
NATIVE = True  # needs no VM


def run(bench, tally, rng) -> None:
    grade(bench, tally, "lab11_client", rng.randrange(1 << 30),
          {"cache": {}, "full": {"OPENREG_SIM_VRAM": "64M"}})
