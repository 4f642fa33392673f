# SPDX-License-Identifier: MIT
"""The driver's tracepoints and the card's interrupts, from an instance of tracefs."""
import os
import pathlib
import re

TRACING = pathlib.Path("/sys/kernel/tracing")
LINE = re.compile(r"^\s*(?P<task>.+)-(?P<tid>\d+)\s+\[(?P<cpu>\d+)\]\s+\S+\s+"
                  r"(?P<s>\d+)\.(?P<us>\d{6}): (?P<event>\w+): (?P<text>.*)$")
ENTRIES = re.compile(r"entries-in-buffer/entries-written: (\d+)/(\d+)")
FIELD = re.compile(r"(\w+)=(\S+)")


class Driver:
    """Records in an instance of its own, so that other users of tracefs are not disturbed."""

    def __init__(self, kib: int) -> None:
        self.why = ""  # why there are no events
        self.dir = TRACING / "instances" / f"openreg-trace-{os.getpid()}"
        try:
            if not (TRACING / "events/openreg").exists():
                raise OSError("the driver is not loaded, or tracefs is not mounted")
            self.dir.mkdir()
        except OSError as e:
            self.why = str(e)
            return
        try:
            self._write("trace_clock", "mono")
            self._write("buffer_size_kb", str(kib))
            self._write("events/openreg/enable", "1")
            for event in ("entry", "exit"):
                self._write(f"events/irq/irq_handler_{event}/enable", "1")
        except OSError as e:
            self.why = str(e)
            self.stop()

    def _write(self, name: str, text: str) -> None:
        (self.dir / name).write_text(text, encoding="ascii")

    def stop(self) -> list[str]:
        """The lines recorded so far."""
        if not self.dir.exists():
            return []
        try:
            self._write("tracing_on", "0")
            return (self.dir / "trace").read_text("utf-8", "replace").splitlines()
        finally:
            self.dir.rmdir()


class Event:
    def __init__(self, match: re.Match) -> None:
        self.task = match["task"]
        self.thread = int(match["tid"])
        self.cpu = int(match["cpu"])
        self.ns = int(match["s"]) * 1_000_000_000 + int(match["us"]) * 1000
        self.name = match["event"]
        self.text = match["text"]
        self.fields = dict(FIELD.findall(match["text"]))


def parse(lines: list[str]) -> tuple[list[Event], int]:
    """The events in order, and how many were overwritten."""
    events, lost = [], 0
    for line in lines:
        if match := LINE.match(line):
            events.append(Event(match))
        elif match := ENTRIES.search(line):
            lost += int(match[2]) - int(match[1])
    events.sort(key=lambda e: e.ns)
    return events, lost
