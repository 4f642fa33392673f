# SPDX-License-Identifier: MIT
"""Writes timelines and the driver's events as one file for Perfetto or chrome://tracing."""
import json
import pathlib
from typing import Any, TextIO

from clock import Clock, clocks_of
from ftrace import Event
from timeline import Queue, Record, Span, Timeline

OPCODES = ("NOP COPY FILL VECTOR MATMUL SOFTMAX WAIT SIGNAL TIMESTAMP INDEX CONV POOL SORT "
           "SCAN PLACES LIST TRACE PACK NOTE").split()
CARD_PID = 1 << 22  # above every process
CPU_PID = CARD_PID - 1
MISSING_SHOWN = 20  # marks of a queue; the others are only counted
encode = json.JSONEncoder(separators=(",", ":")).encode


class Writer:
    """Events of the JSON format, one after the other."""

    def __init__(self, file: TextIO, base: int) -> None:
        self.file = file
        self.base = base
        self.first = True
        file.write('{"displayTimeUnit":"ns","traceEvents":[\n')

    def put(self, **event: Any) -> None:
        self.file.write(("" if self.first else ",\n") + encode(event))
        self.first = False

    def us(self, ns: int) -> float:
        return round((ns - self.base) / 1000, 3)

    def name(self, what: str, pid: int, tid: int, name: str, order: int) -> None:
        self.put(name=f"{what}_name", ph="M", pid=pid, tid=tid, args={"name": name})
        self.put(name=f"{what}_sort_index", ph="M", pid=pid, tid=tid,
                 args={"sort_index": order})

    def span(self, name: str, category: str, pid: int, tid: int, begin: int, end: int,
             args: dict) -> None:
        self.put(name=name, cat=category, ph="X", pid=pid, tid=tid, ts=self.us(begin),
                 dur=round((end - begin) / 1000, 3), args=args)

    def mark(self, name: str, pid: int, tid: int, ns: int, args: dict, scope: str = "t") -> None:
        self.put(name=name, cat="mark", ph="i", s=scope, pid=pid, tid=tid, ts=self.us(ns),
                 args=args)

    def arrow(self, number: int, pid: int, tid: int, ns: int, end: bool) -> None:
        more = {"bp": "e"} if end else {}
        self.put(name="launch", cat="launch", ph="f" if end else "s", id=number, pid=pid,
                 tid=tid, ts=self.us(ns), **more)

    def finish(self, facts: dict) -> None:
        self.file.write("\n]")
        for key, value in facts.items():
            self.file.write(f",\n{json.dumps(key)}:{json.dumps(value)}")
        self.file.write("}\n")


class Merge:
    """One trace. facts says of the whole trace what its top level says."""

    def __init__(self, file: TextIO, timelines: list[Timeline], events: list[Event],
                 lost_events: int) -> None:
        self.timelines = timelines
        self.clocks = clocks_of(self._moments())
        begins = [t.begin for t in timelines] + [e.ns for e in events[:1]]
        self.out = Writer(file, min(begins, default=0))
        self.facts = {
            "openreg_clock_error_ns": round(max((c.error for c in self.clocks.values()),
                                                default=0)),
            "openreg_base_monotonic_ns": self.out.base,
            # CLOCK and CLOCK_MONOTONIC at the same moments, by card
            "openreg_clocks": {name: [[card, round(ns)] for card, ns in zip(c.cards, c.times)]
                               for name, c in self.clocks.items()},
            "openreg_packets": 0, "openreg_lost_records": 0, "openreg_bad_records": 0,
            "openreg_packets_without_record": 0, "openreg_moved_to_launch": 0,
            "openreg_dropped_events": sum(t.dropped for t in timelines),
            "openreg_lost_driver_events": lost_events, "openreg_faults": 0, "openreg_resets": 0,
            "openreg_unfinished_processes": sum(not t.end for t in timelines),
        }
        self.cards: dict[str, int] = {}
        self.rows: dict[str, int] = {}
        self.arrows = 0
        self.faults: set[tuple] = set()
        for t in timelines:
            self._process(t)
        self._driver(events)
        self.facts["openreg_faults"] = len(self.faults)
        self.out.finish(self.facts)

    def _moments(self) -> dict[str, list]:
        """The clock's moments of each card. One in a process is another one in each."""
        found: dict[str, list] = {}
        for t in self.timelines:
            for d in t.devices.values():
                found.setdefault(self._card_name(t, d), []).extend(d.clocks)
        return found

    @staticmethod
    def _card_name(t: Timeline, device) -> str:
        return f"{device.path} in process {t.pid}" if device.inside else device.path

    def _process(self, t: Timeline) -> None:
        out = self.out
        out.name("process", t.pid, t.pid, f"{t.program} ({t.pid})", 1)
        for thread, name in t.threads.items():
            out.name("thread", t.pid, thread, f"{name} ({thread})", thread)
        for span in sorted(t.spans, key=lambda s: (s.begin, -(s.end or t.last))):
            self._host_span(t, span)
        for ns, thread, name, args in t.marks:
            if name == "fault":
                self.faults.add((t.pid, args["queue"], args["packet"]))
            else:
                self.facts["openreg_resets"] += 1
            out.mark(name, t.pid, thread, ns, args, "p")
        if t.error:
            out.mark("the recording ended here", t.pid, t.pid, t.last,
                     {"errno": t.error, "missing events": t.dropped}, "p")
        if not t.end:
            out.mark("the process ended without its exit handlers", t.pid, t.pid, t.last,
                     {"why": "a signal killed it, or it called _exit() or exec()"}, "p")
        for queue in t.queues.values():
            self._queue(t, queue)

    def _host_span(self, t: Timeline, span: Span) -> None:
        end = span.end
        if end is None:
            end = t.last
            span.args["unfinished"] = "the process ended here"
        self.out.span(span.name, span.category, t.pid, span.thread, span.begin, end, span.args)

    def _queue(self, t: Timeline, queue: Queue) -> None:
        card = self._card_name(t, queue.device)
        pid = self.cards.setdefault(card, CARD_PID + len(self.cards))
        row = self.rows[card] = self.rows.get(card, 0) + 1
        self.out.name("process", pid, 0, f"card {card}", 2)
        self.out.name("thread", pid, row, f"queue {queue.number} of {t.program} ({t.pid})", row)
        self.facts["openreg_lost_records"] += queue.lost
        if queue.untraced or card not in self.clocks:
            self.out.mark("no records of this queue", pid, row, t.begin,
                          {"why": queue.untraced or "the card's clock was never read"})
            return
        Row(self, t, queue, pid, row, self.clocks[card]).put()

    def arrow(self) -> int:
        self.arrows += 1
        return self.arrows

    def _driver(self, events: list[Event]) -> None:
        """Waits are spans of their threads, all else is a mark of the thread or the CPU."""
        out, waits, handlers = self.out, {}, {}
        process_of = {thread: t.pid for t in self.timelines for thread in t.threads}
        for cpu in sorted({e.cpu for e in events}):
            out.name("thread", CPU_PID, cpu, f"CPU {cpu}", cpu)
        if events:
            out.name("process", CPU_PID, 0, "interrupts and driver", 3)
        for e in events:
            pid = process_of.get(e.thread, CPU_PID)
            tid = e.thread if e.thread in process_of else e.cpu
            if e.name == "openreg_wait_begin":
                waits[e.thread] = e
            elif e.name == "openreg_wait_end" and e.thread in waits:
                begin = waits.pop(e.thread)
                out.span("driver: wait", "driver", pid, tid, begin.ns, e.ns, e.fields)
            elif e.name == "irq_handler_entry":
                handlers[e.cpu] = e
            elif e.name == "irq_handler_exit" and e.cpu in handlers:
                begin = handlers.pop(e.cpu)
                if "name=openreg" in begin.text:
                    out.span("interrupt", "driver", CPU_PID, e.cpu, begin.ns, e.ns,
                             begin.fields)
            elif e.name == "openreg_irq":
                out.mark("openreg_irq", CPU_PID, e.cpu, e.ns, e.fields)
            elif e.name in ("openreg_fault", "openreg_reset"):
                self.facts["openreg_resets"] += e.name == "openreg_reset"
                out.mark(e.name, pid, tid, e.ns, {"text": e.text}, "g")
            elif e.name.startswith("openreg_"):
                out.mark(e.name, pid, tid, e.ns, e.fields)


class Row:
    """The packets of one queue."""

    def __init__(self, merge: Merge, t: Timeline, queue: Queue, pid: int, row: int,
                 clock: Clock) -> None:
        self.merge, self.t, self.queue = merge, t, queue
        self.pid, self.row, self.clock = pid, row, clock
        self.at = 0  # in queue.submits
        self.seen = 0  # packet of the last good record
        self.end = 0  # its end, on the card's clock
        self.marks = 0

    def put(self) -> None:
        for read, record in self.queue.records:
            if why := self._bad(read, record):
                self.merge.facts["openreg_bad_records"] += 1
                self._mark("a record that cannot be true", read, {"why": why})
                continue
            self._gap(record)
            if record.opcode or record.cookie or record.fault:
                self._packet(record)
            self.seen = max(self.seen, record.seq)
            self.end = record.end
        self._finish()

    def _mark(self, name: str, ns: int, args: dict) -> None:
        self.marks += 1
        if self.marks <= MISSING_SHOWN:
            self.merge.out.mark(name, self.pid, self.row, ns, args)

    def _launch(self, seq: int) -> tuple[int, int, int, int] | None:
        submits = self.queue.submits
        while self.at < len(submits) and submits[self.at][3] < seq:
            self.at += 1
        return submits[self.at] if self.at < len(submits) else None

    def _bad(self, read: int, r: Record) -> str:
        """Why a card that keeps to its manual cannot have written this."""
        error = self.clock.error
        if r.begin > r.end:
            return "it ends before it begins"
        if r.seq < self.seen or r.seq > self.queue.last:
            return f"packet {r.seq} after packet {self.seen} of {self.queue.last}"
        if r.begin < self.end:
            return "it begins before the packet before it ends"
        if self.clock.ns(r.end) > read + error:
            return "it ends after it was read"
        launch = self._launch(r.seq)
        if launch and self.clock.ns(r.begin) < launch[0] - 2 * error:
            return "it begins before its launch"
        if r.opcode >= len(OPCODES) or r.stall_ns > r.end - r.begin:
            return "a field has a value that does not exist"
        return ""

    def _gap(self, r: Record) -> None:
        """Packets between two records that have none. TRACE packets never have one."""
        missing = r.seq - self.seen - 1
        if self.seen and missing > 0:
            self._missing(missing, self.clock.ns(r.begin))

    def _missing(self, count: int, ns: int) -> None:
        self.merge.facts["openreg_packets_without_record"] += count
        self._mark("packets without a record", ns, {"packets": count})

    def _finish(self) -> None:
        for ns, count in self.queue.losses:
            self._mark("the ring had no room for records", ns, {"records": count})
        missing = self.queue.last - max(self.seen, 1)
        if missing > 0:
            self._missing(missing, self.t.last)
        if self.queue.ended:
            self.merge.out.mark("end of the queue", self.pid, self.row, self.t.last,
                                {"last packet": self.queue.last, "busy ns": self.queue.busy_ns,
                                 "records": len(self.queue.records)})

    def _packet(self, r: Record) -> None:
        out, queue = self.merge.out, self.queue
        begin, end = self.clock.ns(r.begin), self.clock.ns(r.end)
        opcode = OPCODES[r.opcode]
        name = self.t.cookies.get(r.cookie, f"cookie {r.cookie:#x}" if r.cookie else "")
        args = {"operator": name, "packet": opcode, "sequence": r.seq, "bytes": r.bytes,
                "slices": r.slices, "workers": r.workers, "busy ns": r.busy_ns}
        for key, value in (("stall ns", r.stall_ns), ("number in LIST", r.in_list),
                           ("fault", r.fault)):
            if value:
                args[key] = value
        launch = self._launch(r.seq)
        if launch and begin < launch[0]:
            # Within the error of the clock: _bad() has refused all else.
            self.merge.facts["openreg_moved_to_launch"] += 1
            begin, end = launch[0], max(end, launch[0])
        self.merge.facts["openreg_packets"] += 1
        out.span(f"{opcode} ({name})" if name else opcode, "card", self.pid, self.row, begin,
                 end, args)
        if launch:
            number = self.merge.arrow()
            out.arrow(number, self.t.pid, launch[2], launch[0], False)
            out.arrow(number, self.pid, self.row, begin, True)
        if r.fault:
            self.merge.faults.add((self.t.pid, self.queue.number, r.seq))
            out.mark("fault", self.pid, self.row, end, {"code": r.fault, "packet": r.seq}, "g")


def write(path: pathlib.Path, timelines: list[Timeline], events: list[Event],
          lost_events: int) -> dict:
    with path.open("w", encoding="utf-8") as file:
        return Merge(file, timelines, events, lost_events).facts
