# SPDX-License-Identifier: MIT
"""The statuses of an entry, the most severe first."""

MEANING = {
    "crash": "the process died",
    "hang": "did not end in time",
    "wrong": "the result differs from the CPU's",
    "missing": "raises where the CPU works",
    "fallback": "right, and the backend ran some of it on the CPU",
    "native": "right, and nothing ran on the CPU",
    "unknown": "right; the backend does not report where it ran",
    "extra": "works where the CPU raises; not compared",
    "refused": "raises where the CPU raises too",
    "untested": "no reference: no inputs, or the CPU crashed or hung",
}
ORDER = list(MEANING)
RIGHT = ("fallback", "native", "unknown")
# Statuses that make the run fail.
FATAL = ("wrong", "missing", "crash", "hang")


def gravest(statuses) -> str:
    return min(statuses, key=ORDER.index, default="untested")
