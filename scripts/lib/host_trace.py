# SPDX-License-Identifier: MIT
"""Adds what scripts/vm --host-trace recorded of QEMU to a trace of openreg-trace.

QEMU logs each read of CLOCK with the host's time. So the host's time becomes that of CLOCK,
and by the trace's own table of clocks CLOCK_MONOTONIC of the VM. The clock stops while the VM
is stopped.

usage: host_trace.py DIRECTORY TRACE
"""

import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "libopenreg/trace"))
from clock import Clock  # noqa: E402

LINE = re.compile(r"^(?P<thread>\d+)@(?P<s>\d+)\.(?P<us>\d{6}):(?P<name>openreg_\w+) ?(?P<text>.*)$")
READ = re.compile(r"register 0x058 size 8 is 0x(?P<value>[0-9a-f]+)")
LOGGED_LATE_NS = 20_000  # the host may stop QEMU between the read and the line of the log
MIGRATION = {"openreg_save": "migration: the card is saved here",
             "openreg_load": "migration: the card is loaded here"}


def lines(path: pathlib.Path):
    for line in path.read_text("utf-8", "replace").splitlines():
        if match := LINE.match(line):
            ns = int(match["s"]) * 1_000_000_000 + int(match["us"]) * 1000
            yield int(match["thread"]), ns, match["name"], match["text"]


class Qemu:
    """The log of one QEMU process."""

    def __init__(self, path: pathlib.Path) -> None:
        self.pid = int(path.suffix[1:])
        self.events, moments = [], []
        for thread, ns, name, text in lines(path):
            if name != "openreg_reg_read":
                self.events.append((thread, ns, name, text))
            elif match := READ.match(text):
                moments.append((ns - LOGGED_LATE_NS, ns, int(match["value"], 16)))
        # host to CLOCK: the class converts its third field to the middle of the others
        self.clock = Clock([(card, card + after - before, after)
                            for before, after, card in moments]) if moments else None

        self._move_into_stop()

    def _move_into_stop(self) -> None:
        """CLOCK stands still while the card is saved and loaded: such an event has the time
        of the stop before it, or of the start after it."""
        stops = [ns for _, ns, name, _ in self.events if name == "openreg_pause"]
        starts = [ns for _, ns, name, _ in self.events if name == "openreg_unpause"]
        self.events = [
            (thread, max((s for s in stops if s <= ns), default=ns) if name == "openreg_save" else
             min((s for s in starts if s >= ns), default=ns) if name == "openreg_load" else ns,
             name, text)
            for thread, ns, name, text in self.events]

    def card(self, host: int) -> int:
        return self.clock.ns(host)


class Merge:
    def __init__(self, where: pathlib.Path, trace: dict) -> None:
        self.trace = trace
        self.base = trace["openreg_base_monotonic_ns"]
        table = next(iter(trace["openreg_clocks"].values()), None)
        if not table:
            raise SystemExit("host-trace: the trace has no card, and so no common clock")
        self.guest = Clock([(ns, ns, card) for card, ns in table])
        self.qemus = [q for q in map(Qemu, sorted(
            where.glob("qemu.*"), key=lambda p: p.stat().st_ctime_ns)) if q.clock or q.events]
        known = [q for q in self.qemus if q.clock]
        if not known:
            raise SystemExit(f"host-trace: QEMU's log in {where} has no read of the clock")
        for q in self.qemus:
            q.clock = q.clock or known[0].clock
        self.error = max(q.clock.error for q in known) + trace["openreg_clock_error_ns"]
        names = self._threads(where / "threads")
        for q in self.qemus:
            self._qemu(q, names)
        trace["openreg_host_clock_error_ns"] = round(self.error)

    def put(self, **event) -> None:
        """Leaves out what was before the command, such as the start of the VM."""
        if event.get("ts", 0) >= 0:
            self.trace["traceEvents"].append(event)

    def us(self, q: Qemu, host: int) -> float:
        return round((self.guest.ns(q.card(host)) - self.base) / 1000, 3)

    @staticmethod
    def pid(q: Qemu) -> int:
        return (1 << 23) + q.pid  # a process of the guest may have the number

    def _threads(self, path: pathlib.Path) -> dict[int, str]:
        names, of = {}, {q.pid: q for q in self.qemus}
        for line in path.read_text("utf-8", "replace").splitlines() if path.exists() else ():
            pid, thread, begin, end, ran, name = line.split(" ", 5)
            q = of.get(int(pid))
            if not q:
                continue
            names[int(thread)] = name
            begin, end, ran = int(begin), int(end), int(ran)
            share = min(100, round(100 * ran / (end - begin))) if end > begin else 0
            for at, value in ((begin, share), (end, 0)):
                self.put(name=f"{name} ({thread}) on a processor, %", ph="C", pid=self.pid(q),
                         tid=0, ts=self.us(q, at), args={"share": value})
        return names

    def _qemu(self, q: Qemu, names: dict[int, str]) -> None:
        self.put(name="process_name", ph="M", pid=self.pid(q), tid=0,
                 args={"name": f"QEMU on the host ({q.pid})"})
        for thread in {thread for thread, *_ in q.events}:
            self.put(name="thread_name", ph="M", pid=self.pid(q), tid=thread,
                     args={"name": f"{names.get(thread, 'QEMU')} ({thread})"})
        for thread, ns, name, text in q.events:
            mark = MIGRATION.get(name)
            self.put(name=mark or name, cat="mark" if mark else "host", ph="i",
                     s="g" if mark else "t", pid=self.pid(q), tid=thread, ts=self.us(q, ns),
                     args={"text": text})


def main() -> None:
    where, path = map(pathlib.Path, sys.argv[1:])
    trace = json.loads(path.read_text(encoding="utf-8"))
    merge = Merge(where, trace)
    path.write_text(json.dumps(trace, separators=(",", ":")), encoding="utf-8")
    events = sum(len(q.events) for q in merge.qemus)
    print(f"host-trace: {path.name}: {events} events of {len(merge.qemus)} QEMU, "
          f"clock error {merge.error / 1000:.1f} us")


main()
