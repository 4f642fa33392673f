# SPDX-License-Identifier: MIT
"""Reads the files that libopenreg writes with OPENREG_TRACE (libopenreg/src/timeline.h)."""
import dataclasses
import pathlib
import struct

HEADER = struct.Struct("<QIIQQQ64s")
EVENT = struct.Struct("<QQIIIHH")
RECORD = struct.Struct("<QQQQQQIHHIHH")
MAGIC = 0x3130656D69746F72
EVENTS_AT = 4096

(END, PAD, THREAD, NAME, COOKIE, DEVICE, QUEUE, CLOCK, RANGE_BEGIN, RANGE_END, WAIT_BEGIN,
 SLEEP_BEGIN, FULL_BEGIN, CALL_END, SUBMIT, DOORBELL, CARD_RECORD, LOST, FAULT, RESET,
 UNTRACED, QUEUE_END, BUSY) = range(23)

CALLS = {WAIT_BEGIN: "wait", SLEEP_BEGIN: "sleep", FULL_BEGIN: "full ring"}


@dataclasses.dataclass
class Device:
    path: str
    inside: bool  # the card is in this process
    clocks: list = dataclasses.field(default_factory=list)  # (before, after, CLOCK)


@dataclasses.dataclass
class Queue:
    device: Device
    number: int
    submits: list = dataclasses.field(default_factory=list)  # (time, ns, thread, last packet)
    records: list = dataclasses.field(default_factory=list)  # (time of reading, Record)
    lost: int = 0
    losses: list = dataclasses.field(default_factory=list)  # (time, records)
    last: int = 0  # last packet
    busy_ns: int | None = None
    ended: bool = False
    untraced: str = ""


@dataclasses.dataclass
class Record:
    seq: int
    begin: int
    end: int
    stall_ns: int
    busy_ns: int
    bytes: int
    cookie: int
    opcode: int
    in_list: int
    slices: int
    workers: int
    fault: int


@dataclasses.dataclass
class Span:
    thread: int
    begin: int
    end: int | None  # None: the process ended before
    name: str
    category: str
    args: dict


class Timeline:
    """What one process did."""

    def __init__(self, path: pathlib.Path) -> None:
        with path.open("rb") as file:
            data = file.read()
        if len(data) < EVENTS_AT:
            raise ValueError("the header is incomplete")
        magic, self.pid, self.error, self.dropped, self.begin, self.end, name = \
            HEADER.unpack_from(data)
        if magic != MAGIC:
            raise ValueError("no timeline, or one of another libopenreg")
        self.program = name.split(b"\0")[0].decode("utf-8", "replace")
        self.threads: dict[int, str] = {}
        self.names: dict[int, str] = {}
        self.cookies: dict[int, str] = {}
        self.devices: dict[int, Device] = {}
        self.queues: dict[int, Queue] = {}
        self.spans: list[Span] = []
        self.marks: list[tuple[int, int, str, dict]] = []  # time, thread, name, arguments
        self.last = self.begin
        self._open: dict[int, list[Span]] = {}
        self._read(data)
        for spans in self._open.values():
            self.spans += spans

    def _read(self, data: bytes) -> None:
        at = EVENTS_AT
        while at + EVENT.size <= len(data):
            time, value, ns, number, thread, kind, more = EVENT.unpack_from(data, at)
            rest = at + EVENT.size
            at = rest + more * EVENT.size
            if kind == END or at > len(data):
                return
            if kind > BUSY:
                raise ValueError(f"event {kind} at byte {rest - EVENT.size} is of no known kind")
            if kind != PAD:
                self.last = max(self.last, time)
                self._event(kind, time, value, ns, number, thread, data[rest:rest + ns]
                            if more else b"")

    def _event(self, kind, time, value, ns, number, thread, rest) -> None:
        if kind == THREAD:
            self.threads[thread] = rest.decode("utf-8", "replace")
        elif kind == NAME:
            self.names[number] = rest.decode("utf-8", "replace")
        elif kind == COOKIE:
            self.cookies[number] = self.names.get(value, "?")
        elif kind == DEVICE:
            self.devices[number] = Device(rest.decode("utf-8", "replace"), bool(value))
        elif kind == QUEUE:
            self.queues[number] = Queue(self.devices[value & 0xFFFFFFFF], value >> 32)
        elif kind == CLOCK:
            self.devices[number].clocks.append((time, time + ns, value))
        elif kind == RANGE_BEGIN:
            self._push(thread, time, self.names.get(number, "?"), "operator", {})
        elif kind == RANGE_END:
            self._pop(thread, time, "operator")
        elif kind in CALLS:
            self._push(thread, time, CALLS[kind], "library",
                       {"queue": self.queues[number].number, "packet": value})
        elif kind == CALL_END:
            self._pop(thread, time, "library", value)
        else:
            self._queue_event(kind, time, value, ns, self.queues[number], thread, rest)

    def _queue_event(self, kind, time, value, ns, queue, thread, rest) -> None:
        if kind == SUBMIT:
            first = min(queue.last + 1, value)  # no new packet: only a doorbell
            queue.last = value
            queue.submits.append((time, ns, thread, value))
            self.spans.append(Span(thread, time, time + ns, "submit", "library", {
                "queue": queue.number, "first packet": first, "last packet": value}))
        elif kind == DOORBELL:
            self.spans.append(Span(thread, time, time + ns, "doorbell", "library",
                                   {"queue": queue.number}))
        elif kind == CARD_RECORD:
            queue.records.append((time, Record(*RECORD.unpack(rest))))
        elif kind == LOST:
            queue.losses.append((time, value - queue.lost))
            queue.lost = value
        elif kind == FAULT:
            self.marks.append((time, thread, "fault", {
                "queue": queue.number, "packet": value, "text": rest.decode("utf-8", "replace")}))
        elif kind == RESET:
            self.marks.append((time, thread, "reset of the queue", {"queue": queue.number}))
        elif kind == UNTRACED:
            queue.untraced = rest.decode("utf-8", "replace")
        elif kind == QUEUE_END:
            queue.ended = True
            queue.last = value
        elif kind == BUSY:
            queue.busy_ns = value

    def _push(self, thread, time, name, category, args) -> None:
        self._open.setdefault(thread, []).append(
            Span(thread, time, None, name, category, args))

    def _pop(self, thread, time, category, result=0) -> None:
        """Ends the innermost span of the category. A range may begin before the recording."""
        spans = self._open.get(thread, [])
        for i in range(len(spans) - 1, -1, -1):
            if spans[i].category == category:
                span = spans.pop(i)
                span.end = time
                if result:
                    span.args["errno"] = result
                self.spans.append(span)
                return
