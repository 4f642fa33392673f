# SPDX-License-Identifier: MIT
"""Lab 12: streams. Held streams make each race happen every time."""
from native import grade

TITLE = "a stream race"
CHECKS = [
    ("runs", 1, "the function runs with `side` as its current stream; the caller's stays current"),
    ("input", 2, "the function's packets wait for the caller's packets before it"),
    ("output", 2, "result() makes the caller's stream wait for the function's packets"),
    ("overlap", 1, "before result(), the caller's stream does not wait for `side`"),
    ("no wait", 1, "the host does not wait for a stream"),
    ("input memory", 1, "an input that the caller drops keeps its memory"),
    ("output memory", 2, "a result that the caller drops keeps its memory, and gives it back"),
]
NATIVE = True  # needs no VM


def run(bench, tally, rng) -> None:
    grade(bench, tally, "lab12_client", rng.randrange(1 << 30), {"all": {}})
