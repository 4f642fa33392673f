# SPDX-License-Identifier: MIT
"""Lab 7: what several open files see. The program lab7_client.py runs in the guest."""
import json
import re
from collections import Counter

from card import MAP
from lab3 import begin
from tally import tail

TITLE = "two processes that must not see each other"
CHECKS = [
    ("own", 3, "two open files each see their own data at the same address"),
    ("clear", 2, "a new open file sees no data of one that was closed"),
    ("fault", 2, "a fault of one leaves the queue of the other running"),
    ("many", 1, "forty more open files, one after the other"),
    ("killed", 1, "a process can be killed while its packet waits, and its context goes away"),
    ("leaves", 1, "after rmmod the card is not enabled, and no DMA memory and no /dev/lab7 is left"),
]
PROGRAM = "docs/labs/grade/lab7_client.py"
SIZE = 64
UNMAP = re.compile(r"openreg_unmap bus 0x(\w+)")


def killed(bench, words: list[str]) -> tuple[bool, str]:
    """The card ignores tails while a process waits for its packet."""
    machine, trace = bench.machine, []
    machine.trace()
    machine.monitor.set("x-inject-stall", 1)
    waits = machine.program(PROGRAM, *words, "stay", until="waits", seconds=40)[1]
    bench.calm()

    def mapped() -> Counter:
        """What the card still maps of the memory that the process had"""
        trace.extend(machine.trace())
        maps = Counter(found[1] for found in map(MAP.search, trace) if found)
        maps.subtract(found[1] for found in map(UNMAP.search, trace) if found)
        return +maps

    gone = machine.wait(lambda: not mapped(), 10)
    made = sum(bool(MAP.search(line)) for line in trace)
    status, text = machine.program(PROGRAM, *words, seconds=40)
    return "waits" in waits.split() and not status and made and gone, (
        f"the card has mapped {made} pieces of memory, {sum(mapped().values())} are left; "
        f"exit status {status} of a program afterwards: {tail(text, 120)}")


def run(bench, tally, rng) -> None:
    card, queue = begin(bench, tally, "own")
    if not queue:
        return
    data = [rng.randbytes(SIZE).hex() for _ in range(2)]
    status, text = bench.machine.program(PROGRAM, *data, seconds=40)
    try:
        seen = json.loads(text.strip().splitlines()[-1])
    except (ValueError, IndexError):
        tally.set("own", False, f"exit status {status}: {tail(text, 160)}")
        return tally.end("the program does not run")
    tally.set("own", seen["put"] == ["done", "done"] and seen["get"] == data and
              seen["buffers"] == data, {name: seen[name] for name in ("put", "get")})
    tally.set("clear", seen["old"] == seen["old buffer"] == "00" * SIZE,
              f"VRAM {seen['old']}, buffer {seen['old buffer']}")
    tally.set("fault", seen["fault"] == "state 2" and seen["other"] == data[1],
              f"one: {seen['fault']}, the other: {seen['other']}")
    tally.set("many", seen["many"] == "done", seen["many"])
    tally.set("killed", *killed(bench, data))
    bench.rmmod()
    status, left = card.reg("STATUS"), bench.dma_left()
    files = bench.device_files()
    tally.set("leaves", not status and not left and "lab7" not in files,
              f"STATUS is {status}, {left} allocations for DMA are left, device files: {files}")
