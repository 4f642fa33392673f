#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the tables of docs/tour.md: each hop of `c = a + b` with its file, its function and
its time in the trace of docs/results/tour.json, which scripts/tour measures.

usage: make-tour.py            write the tables
       make-tour.py --check    fail if a function is not in its file any more, if the trace
                               does not call it, or if the page has other tables
       make-tour.py --count    print the calls, functions, files and lines of the trace
"""
import json
import pathlib
import re
import sys
from typing import NamedTuple, Optional

from generated import TOP, table, update

sys.path.insert(0, str(TOP / "docs/course"))
import build  # noqa: E402

PAGE = "docs/tour.md"
RESULTS = "docs/results/tour.json"
MAKER = "tests/docs/make-tour.py"
LAYERS = ["plugin", "libopenreg", "uapi", "qemu-device", "kmod"]


class Hop(NamedTuple):
    file: str
    function: str
    does: str
    trace: str = "awake"  # the part of the results, or "" if no trace has the function


HOPS = {
    "plugin": [
        Hop("plugin/csrc/aten/structured.h", "Forms::FunctionalForm::call",
            "torch's dispatcher calls it for `aten::add.Tensor`"),
        Hop("plugin/csrc/runtime/allocator.cpp", "DeviceAllocator::allocate",
            "takes a block of VRAM for the result"),
        Hop("plugin/csrc/aten/pointwise.h", "pointwise",
            "runs the formula, which builds a program: two loads, one add, one store"),
        Hop("plugin/csrc/aten/binary.cpp", "add_scaled", "is the formula"),
        Hop("plugin/csrc/aten/pointwise.cpp", "put_iter",
            "puts shape, addresses and strides into the packet"),
        Hop("plugin/csrc/runtime/launch.cpp", "submit_locked",
            "copies the packet into the stream's ring"),
    ],
    "library": [
        Hop("libopenreg/src/queue.c", "openreg_queue_begin",
            "gives the next free slots of the ring, and a sequence number"),
        Hop("libopenreg/src/queue.c", "openreg_queue_submit",
            "stores the tail, executes `mfence`, loads `asleep`"),
    ],
    "doorbell": [
        Hop("libopenreg/src/queue.c", "ring_if_asleep",
            "writes to the doorbell page, once for each sleep of the card", "asleep"),
        Hop("qemu-device/card/core/regs.c", "openreg_card_doorbell",
            "sets the bit of the page and wakes a worker", "asleep"),
    ],
    "card": [
        Hop("qemu-device/card/core/worker.c", "poll_queues",
            "is the body of the worker's loop: picks a queue, executes its packets"),
        Hop("qemu-device/card/core/sched.c", "sched_pick",
            "loads the tails and picks the queue of the context with the least time"),
        Hop("qemu-device/card/core/exec.c", "fetch", "copies the packet out of the ring"),
        Hop("qemu-device/card/core/decode.c", "decode_body", "checks counts and lengths"),
        Hop("qemu-device/card/vector/vector_check.c", "openreg_vector_check",
            "checks the program and marks operands as read or written"),
        Hop("qemu-device/card/core/address.c", "address_check",
            "finds each operand's segment, checks every byte in reach, takes a reference"),
        Hop("qemu-device/card/vector/vector_plan.c", "openreg_plan_make",
            "merges dimensions, picks kernels, cuts the space into tiles"),
        Hop("qemu-device/card/vector/vector.c", "openreg_tile_run", "adds"),
        Hop("qemu-device/card/core/queue.c", "queue_publish",
            "stores `head` and `completed`, loads `armed`"),
    ],
    "wait": [
        Hop("plugin/csrc/runtime/wait.cpp", "synchronize_stream",
            "takes the last packet's number", ""),
        Hop("libopenreg/src/wait.c", "openreg_queue_wait",
            "polls for 100 us, then asks the kernel", ""),
        Hop("libopenreg/src/wait.c", "openreg_queue_completed", "loads `completed`", ""),
    ],
    "kernel": [
        Hop("kmod/openreg_wait.c", "openreg_queue_wait",
            "stores `armed`, executes `mb()`, loads `completed`, sleeps", ""),
        Hop("qemu-device/openreg-host.c", "openreg_raise",
            "hands the vector to QEMU's main loop, which calls `msix_notify()`", ""),
        Hop("kmod/openreg_irq.c", "openreg_vector_irq",
            "handles the interrupt of all queues of the vector", ""),
        Hop("kmod/openreg_wait.c", "openreg_queue_notify",
            "wakes the threads whose packets are complete, arms for the others", ""),
    ],
}


def definition(file: pathlib.Path, function: str) -> Optional[int]:
    """The line of the function's first definition in the file."""
    text = file.read_text(encoding="utf-8")
    names = [function, function.rsplit("::", 1)[-1]]
    found = next((r for name in names if (r := build.cpp_ranges(text, "function", name))), [])
    return found[0][0] + 1 if found else None


def moved(function: str) -> str:
    """Where else the function is defined."""
    for layer in LAYERS:
        for file in sorted((TOP / layer).rglob("*.*")):
            if file.suffix not in (".c", ".cpp", ".h"):
                continue
            if re.search(rf"\b{function.rsplit('::', 1)[-1]}\b", file.read_text(encoding="utf-8")):
                if line := definition(file, function):
                    return f"; {file.relative_to(TOP)}:{line} has one"
    return ""


def line_of(hop: Hop) -> int:
    source = (TOP / MAKER).read_text(encoding="utf-8").splitlines()
    return 1 + next(i for i, line in enumerate(source)
                    if f'"{hop.file}", "{hop.function}"' in line)


def call_of(results: dict, hop: Hop) -> Optional[dict]:
    return next((f for f in results[hop.trace]["figures"]
                 if (f.get("file"), f.get("function")) == (hop.file, hop.function)), None)


def errors(results: dict) -> list[str]:
    found = []
    for hop in (hop for hops in HOPS.values() for hop in hops):
        file = TOP / hop.file
        if not file.exists():
            found.append(f"{MAKER}:{line_of(hop)}: there is no {hop.file}{moved(hop.function)}")
        elif not definition(file, hop.function):
            found.append(f"{MAKER}:{line_of(hop)}: {hop.file} has no function {hop.function}"
                         f"{moved(hop.function)}")
        elif hop.trace and not call_of(results, hop):
            found.append(f"{MAKER}:{line_of(hop)}: the trace does not call {hop.function}; run "
                         "scripts/tour")
    return found


def us(ns: int) -> str:
    return f"{ns / 1000:.2f}"


def hop_rows(results: dict, hops: list[Hop]) -> list[str]:
    rows = []
    for hop in hops:
        call = call_of(results, hop) if hop.trace else None
        times = [us(call["at_ns"]), us(call["ns"])] if call else []
        rows.append([*times, f"`{hop.function}`", f"[{hop.file}](../{hop.file})", hop.does])
    heads = ["at us:", "takes us:"] if len(rows[0]) == 5 else []
    return table([*heads, "function", "file", "what it does"], rows)


def whole(results: dict, where: str) -> dict:
    return next(f for f in results[where]["figures"] if "launch_ns" in f)


def total_rows(results: dict) -> list[str]:
    rows = []
    for where, what in [("untraced", "in the process"), ("vm, awake", "in a VM"),
                        ("vm, asleep", "in a VM, the card sleeps"),
                        ("vm, long", "in a VM, a product of 2048 x 2048")]:
        if where in results:
            f = whole(results, where)
            rows.append([what, us(f["launch_ns"]), us(f["ns"]),
                         *(str(f.get(name, "")) for name in ("doorbells", "interrupts"))])
    return table(["run", "the call returns, us:", "the result is there, us:", "doorbells:",
                  "interrupts:"], rows)


def event_rows(results: dict) -> list[str]:
    if "vm, long" not in results:
        return ["Not measured yet."]
    rows = [[str(f["at_us"]), f"`{f['event']}`", f"`{f['text']}`"]
            for f in results["vm, long"]["figures"] if f["step"] == "event"]
    return table(["at us:", "tracepoint", "what it prints"], rows)


def counts(results: dict) -> list[list[str]]:
    """The calls of one launch that finds the card awake, by layer."""
    calls = [f for f in results["awake"]["figures"] if "function" in f]
    rows = []
    for layer in [*LAYERS, ""]:
        mine = [f for f in calls if f["file"].startswith(layer)]
        files = {f["file"] for f in mine}
        functions = {(f["file"], f["function"]) for f in mine}
        lines = sum(len((TOP / name).read_text(encoding="utf-8").splitlines())
                    for name in files if (TOP / name).exists())
        if mine:
            rows.append([layer or "all", str(len(mine)), str(len(functions)), str(len(files)),
                         f"{lines:,}"])
    return rows


def parts(results: dict) -> dict[str, list[str]]:
    return {
        **{name: hop_rows(results, hops) for name, hops in HOPS.items()},
        "totals": total_rows(results),
        "events": event_rows(results),
        # Without the lines: each change of a file on the path would make the page wrong.
        "counts": table(["layer", "calls:", "functions:", "files:"],
                        [row[:-1] for row in counts(results)]),
    }


def main() -> int:
    if sys.argv[1:] not in ([], ["--check"], ["--count"]):
        print(__doc__, file=sys.stderr)
        return 2
    results = json.loads((TOP / RESULTS).read_text(encoding="utf-8"))
    if sys.argv[1:] == ["--count"]:
        print(f"{'layer':12}{'calls':>8}{'functions':>11}{'files':>7}{'lines':>9}")
        for layer, calls, functions, files, lines in counts(results):
            print(f"{layer:12}{calls:>8}{functions:>11}{files:>7}{lines:>9}")
        return 0
    wrong = errors(results)
    for error in wrong:
        print(error, file=sys.stderr)
    return 1 if wrong or not update(PAGE, parts(results), "--check" in sys.argv, MAKER) else 0


if __name__ == "__main__":
    sys.exit(main())
