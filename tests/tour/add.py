# SPDX-License-Identifier: MIT
"""Traces one `c = a + b`, with the card in this process, and prints each call as a line of
JSON, then the times of the whole. Every part was compiled with -finstrument-functions.

Of many tries it takes the fastest. A thread of the card also polls its queues: what it
calls counts if it reaches a function that no poll of an idle card reaches.

usage: add.py TRACE-LIBRARY    (in the root, with the traced build)
"""
import bisect
import ctypes
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

import torch

TOP = str(pathlib.Path(__file__).resolve().parents[2]) + "/"
TRIES = 1000
ASLEEP_S = 0.05  # then the card sleeps
POLLS_NS = 30000  # then a packet is complete, and the card still polls
PACKET_NS = 200000  # then a packet is complete, however slow the trace is


MANY, THREADS = 1 << 16, 16  # as in trace.c


class Record(ctypes.Structure):
    _fields_ = [("ns", ctypes.c_uint64), ("function", ctypes.c_void_p),
                ("enters", ctypes.c_uint64)]


class Buffer(ctypes.Structure):
    _fields_ = [("record", Record * MANY), ("used", ctypes.c_uint64 * 8)]


class Call:
    def __init__(self, record, thread, depth):
        self.begin = record.ns
        self.end = 0
        self.function = record.function
        self.thread = thread
        self.depth = depth


library = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
library.trace_now.restype = ctypes.c_uint64
buffers = (Buffer * THREADS).in_dll(library, "trace_buffers")


def calls():
    """The calls of the last trace, by thread. A call that was cut off has no end."""
    found = []
    for thread, buffer in enumerate(buffers, 1):
        stack = []
        for record in buffer.record[:buffer.used[0]]:
            if record.enters:
                stack.append(Call(record, thread, len(stack)))
                found.append(stack[-1])
            elif stack and stack[-1].function == record.function:
                stack.pop().end = record.ns
    return found


def separate():
    """Keeps this thread and those of the card on different processors: this one is never
    idle while it waits."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) > 1:
        for task in os.listdir("/proc/self/task"):
            mine = int(task) == threading.get_native_id()
            os.sched_setaffinity(int(task), cpus[:1] if mine else cpus[1:])


def idle_for(ns):
    """Keeps this thread busy. It must not wait for the card: it would run the packet."""
    until = library.trace_now() + ns
    while library.trace_now() < until:
        pass


def run(a, b, asleep):
    """One try: its thread, and when the launch began and returned."""
    for _ in range(10):
        c = a + b
        idle_for(POLLS_NS)
        del c
    time.sleep(ASLEEP_S if asleep else 0)
    thread = library.trace_start()
    begin = library.trace_now()
    c = a + b
    launched = library.trace_now()
    idle_for(PACKET_NS)
    library.trace_stop()
    torch.openreg.synchronize()
    del c
    return thread, begin, launched


def polls(a, b):
    """The functions that the card calls while it has no packet, until it sleeps."""
    found = set()
    for _ in range(TRIES // 10):
        c = a + b
        torch.openreg.synchronize()
        thread = library.trace_start()
        idle_for(PACKET_NS)
        library.trace_stop()
        found |= {call.function for call in calls() if call.thread != thread}
        del c
    return found


def groups(of_thread):
    """The calls of one thread, as lists that begin with a call from outside."""
    found = []
    for call in of_thread:
        if call.depth == 0:
            found.append([])
        if found:
            found[-1].append(call)
    return [group for group in found if all(call.end for call in group)]


def kept(found, thread, polling):
    """The calls of the launching thread, and those of the card that are for the packet."""
    keep = []
    for other in {call.thread for call in found}:
        for group in groups([call for call in found if call.thread == other]):
            if other == thread or any(call.function not in polling for call in group):
                keep += group
    return sorted(keep, key=lambda call: call.begin)


def mappings():
    """(begin, end, file, offset in the file) of this process's mapped files."""
    found = []
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        fields = line.split(None, 5)
        if len(fields) == 6 and fields[5].startswith("/"):
            begin, end = (int(x, 16) for x in fields[0].split("-"))
            found.append((begin, end, fields[5], int(fields[2], 16)))
    return sorted(found)


# Brackets that belong to an operator's name, while template arguments are removed.
KEPT = str.maketrans("<>()", "\1\2\3\4")
BACK = str.maketrans("\1\2\3\4", "<>()")


def short(name):
    """A demangled name without namespace, template arguments and parameters."""
    name = name.replace("(anonymous namespace)::", "")
    name = re.sub(r"\{lambda\(.*?\)#\d+\}", "lambda", name)
    name = re.sub(r"operator(<<|>>|<=|>=|<|>|\(\))", lambda m: m[0].translate(KEPT), name)
    while (new := re.sub(r"<[^<>]*>", "", name)) != name:
        name = new
    while (new := re.sub(r"\([^()]*\)( const)?", "", name)) != name:
        name = new
    name = re.sub(r" ?\[.*?\]|\.(constprop|part|isra|cold)(\.\d+)?", "", name)
    return name.split()[-1].removeprefix("openreg::").translate(BACK)


def names(addresses):
    """{address: (function, file)}, from the debug information."""
    maps = mappings()
    begins = [m[0] for m in maps]
    by_file = {}
    for address in addresses:
        begin, end, file, offset = maps[bisect.bisect(begins, address) - 1]
        assert begin <= address < end
        by_file.setdefault(file, {})[address] = address - begin + offset
    found = {}
    for file, offsets in by_file.items():
        out = subprocess.run(["addr2line", "-fC", "-e", file, *map(hex, offsets.values())],
                             check=True, capture_output=True, text=True).stdout.splitlines()
        for address, function, place in zip(offsets, out[::2], out[1::2]):
            found[address] = short(function), os.path.normpath(place.split(":")[0])
    return found


def ignore_others(a, b):
    """Records no more functions of torch and of the C++ library."""
    for asleep in True, False:
        run(a, b, asleep)
        for address, (_, file) in names({call.function for call in calls()}).items():
            if not file.startswith(TOP):
                library.trace_ignore(ctypes.c_void_p(address))


def trace(where, a, b, asleep, polling):
    runs = []
    for _ in range(TRIES // 10 if asleep else TRIES):
        thread, begin, launched = run(a, b, asleep)
        found = kept(calls(), thread, polling)
        done = [call.end for call in found if call.thread != thread]
        if done:
            runs.append((max(done) - begin, launched - begin, begin, thread, found))
    # A run with more calls has rung the doorbell, or has had two packets.
    fewest = min(len(found) for *_, found in runs)
    total, launch, begin, thread, found = min(
        (r for r in runs if asleep or len(r[-1]) == fewest), key=lambda r: r[0])
    known = names({call.function for call in found})
    for call in found:
        function, file = known[call.function]
        print(json.dumps({"where": where, "at_ns": call.begin - begin, "ns": call.end - call.begin,
                          "depth": call.depth, "file": file.removeprefix(TOP),
                          "function": function,
                          "step": "launch" if call.thread == thread else "card"}), flush=True)
    print(json.dumps({"where": where, "step": "all", "launch_ns": launch, "ns": total}),
          flush=True)


a = torch.rand(16, device="openreg")
b = torch.rand(16, device="openreg")
for _ in range(3000):
    c = a + b
    torch.openreg.synchronize()
    del c
separate()
ignore_others(a, b)
polling = polls(a, b)
trace("awake", a, b, False, polling)
trace("asleep", a, b, True, polling)
