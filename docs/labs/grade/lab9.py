# SPDX-License-Identifier: MIT
"""Lab 9: hot-unplug. The program lab9_client.py in the guest has the device open meanwhile."""
import json

from lab3 import begin
from machine import SLOW
from tally import tail

TITLE = "hot-unplug, and a card that lies"
CHECKS = [
    ("packet", 1, "a packet from /dev/lab9 fills the page that the process has mapped"),
    ("silent", 1, "without a vector a thread returns before LAB_SLEEP_SECONDS"),
    ("gone", 2, "the card goes away: a thread that sleeps gets -ENODEV before LAB_SLEEP_SECONDS"),
    ("commands", 1, "lab_admin() returns -ENODEV for a card that has gone"),
    ("unplug", 2, "with an open file, a mapped page and a sleeping thread, remove ends and frees "
                  "all DMA memory; then -ENODEV from write() and mmap()"),
    ("page", 1, "after remove, the process gets SIGBUS from the page"),
    ("again", 1, "a card that is plugged in again works, also when the old file is closed"),
    ("leaves", 1, "rmmod removes /dev/lab9 first; then the card is not enabled, and no DMA memory "
                  "is left"),
]
PROGRAM = "docs/labs/grade/lab9_client.py"
FIRST, SECOND, GO = "/tmp/lab9.first", "/tmp/lab9.second", "/tmp/lab9.go"
NODEV = "ENODEV"


def answer(text: str) -> dict:
    try:
        return json.loads(text.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return {"failed": tail(text, 200)}


def client(bench, what: str) -> dict:
    return answer(bench.machine.program(PROGRAM, bench.machine.pci, what, str(bench.sleep_seconds),
                                        seconds=bench.sleep_seconds + 10)[1])


def early(seen: dict, error: str) -> bool:
    return seen.get("error") == error and seen.get("early") is True


def unplug(bench, tally) -> None:
    """The program goes on after the card is plugged in again."""
    machine = bench.machine
    machine.do(*(["remove", path] for path in (FIRST, SECOND, GO)), ["mkfifo", GO])
    job = machine.start(["/openreg/" + PROGRAM, [machine.pci, "unplug", str(bench.sleep_seconds)],
                         ""], 60, "python")
    machine.do(["await", FIRST, 40 * SLOW], seconds=40)
    seen = answer(machine.read(FIRST))
    left = bench.dma_left()
    wanted = {"thread": NODEV, "write": NODEV, "mmap": NODEV}
    good = tally.set("unplug", not left and {name: seen.get(name) for name in wanted} == wanted,
                     f"{seen}, {left} allocations for DMA are left")
    tally.set("page", seen.get("page") == "SIGBUS", seen.get("page", seen))
    bench.calm()
    machine.attempt(["write", "/sys/bus/pci/rescan", "1"], seconds=20)
    machine.bars = machine.monitor.bars()
    bound = bench.bound()
    if "failed" not in seen:
        machine.attempt(["write", GO, "go"])
    machine.finish(job, 60)
    seen = answer(machine.read(SECOND))
    tally.set("again", good and bound and seen.get("packets") == ["done", "done"],
              seen if bound else "the driver does not bind")


def run(bench, tally, rng) -> None:
    card, queue = begin(bench, tally, "packet")
    if not queue:
        return
    value = rng.randrange(1, 256)
    seen = client(bench, f"packet-{value}")
    if not tally.set("packet", seen.get("page") == value, seen):
        return tally.end("the program cannot use /dev/lab9")
    seen = client(bench, "silent")
    tally.set("silent", early(seen, "none"), seen)
    bench.calm()
    seen = client(bench, "gone")
    tally.set("gone", early(seen, NODEV), seen)
    tally.set("commands", seen.get("admin") == NODEV, seen)
    bench.calm()
    bench.rmmod()
    if "lab9" in bench.device_files():
        tally.set("leaves", False, "/dev/lab9 is still there")
        return tally.end("/dev/lab9 is still there after rmmod, so the driver cannot bind again")
    bench.count_dma()
    bench.insmod()
    unplug(bench, tally)
    bench.watch_removal()
    bench.rmmod()
    removal, left = bench.removal()
    late, status = bench.open_late(removal, "lab9"), card.reg("STATUS")
    tally.set("leaves", not status and not left and not late,
              late or f"STATUS is {status}, {left} allocations for DMA are left")
