# SPDX-License-Identifier: MIT
"""Shows the progress of a run on one line."""

import collections
import sys
import time


class Progress:
    def __init__(self, total: int, done: list) -> None:
        self.total = total
        self.counts = collections.Counter(r["status"] for r in done)
        self.before = len(done)
        self.began = self.shown = time.monotonic()
        self.on_terminal = sys.stderr.isatty()

    def add(self, record: dict) -> None:
        self.counts[record["status"]] += 1
        now = time.monotonic()
        done = sum(self.counts.values())
        if now - self.shown > (0.2 if self.on_terminal else 60) or done == self.total:
            self.shown = now
            self._show(record["key"], done, now)

    def _show(self, key: str, done: int, now: float) -> None:
        rate = (now - self.began) / max(done - self.before, 1)
        left = int(rate * (self.total - done))
        counts = " ".join(f"{n} {status}" for status, n in self.counts.most_common())
        text = f"{done}/{self.total} {counts}, {left // 60} min left: {key}"
        if self.on_terminal:
            print(f"\r\033[K{text[:150]}", end="", file=sys.stderr, flush=True)
        else:
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        if self.on_terminal:
            print(file=sys.stderr)
