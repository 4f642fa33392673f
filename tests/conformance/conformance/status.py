# SPDX-License-Identifier: MIT
"""What can be said of an entry, the gravest first."""

MEANING = {
    "crash": "the process died",
    "hang": "did not end in time",
    "wrong": "the result is not the CPU's",
    "missing": "raises where the CPU works",
    "fallback": "right, and the backend ran some of it on the CPU",
    "native": "right, and nothing ran on the CPU",
    "unknown": "right; the backend does not say where it ran",
    "extra": "works where the CPU raises; not compared",
    "refused": "raises where the CPU raises too",
    "untested": "there is no reference: no inputs, or the CPU crashed or hung",
}
ORDER = list(MEANING)
RIGHT = ("fallback", "native", "unknown")
# What makes a run fail.
FATAL = ("wrong", "missing", "crash", "hang")


def gravest(statuses) -> str:
    return min(statuses, key=ORDER.index, default="untested")
