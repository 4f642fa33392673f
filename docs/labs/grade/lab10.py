# SPDX-License-Identifier: MIT
"""Lab 10: an operator of a backend. Seen in its results and the card's counters."""
from native import grade

TITLE = "an operator"
CHECKS = [
    ("values", 2, "x / (1 + |x| / limit) of random tensors, by one packet that is named lab10::soft_clip"),
    ("layouts", 2, "transposed, stepped and broadcast tensors, by one packet each"),
    ("types", 1, "the result has the common type of the inputs, and float32 of integers"),
    ("empty", 1, "no packet for tensors without elements; tensors without dimensions work"),
    ("card", 1, "the packet goes to the card of the tensors, whatever the current card is"),
    ("stream", 2, "the packet goes to the current stream, and the call does not wait for it"),
    ("refuses", 1, "an error for tensors of two devices, and no packet"),
]
NATIVE = True  # needs no VM


def run(bench, tally, rng) -> None:
    grade(bench, tally, "lab10_client", rng.randrange(1 << 30), {"all": {}})
