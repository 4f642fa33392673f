# SPDX-License-Identifier: MIT
"""
Runs in the guest: forces the race of lab 4 between two threads. One waits for packet NUMBER, and
armed has its number. The other waits for the next packet. Packet NUMBER completes, but a busy
thread of higher priority keeps the first thread from running, so armed stays. The next packet
completes: the card raises nothing. When the first thread runs at last, it must have the other
look again.
usage: lab4_client.py PCI NUMBER LAB_SLEEP_SECONDS
"""
import contextlib
import json
import os
import signal
import sys
import time

PCI, NUMBER, SLEEP_SECONDS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
FILES = "/sys/kernel/debug/lab/"
# The kernel would give the first thread a share of the processor all the same.
SHARES = ("/proc/sys/kernel/sched_rt_runtime_us", "/sys/kernel/debug/sched/fair_server/cpu0/runtime")
FIRST, OTHER = {0}, {1}  # processors
SECONDS = 5  # the other thread needs milliseconds


def write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    os.write(fd, text.encode())
    os.close(fd)


def read(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read()


def child(processors: set[int], work) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os.sched_setaffinity(0, processors)
        work()
    except OSError as error:
        os._exit(error.errno)
    finally:
        os._exit(0)


def state(pid: int) -> str:
    return read(f"/proc/{pid}/stat").rpartition(")")[2].split()[0]


def settles(pid: int) -> bool:
    """Waits until the thread has been seen asleep three times in turn."""
    calm, end = 0, time.monotonic() + SECONDS
    while calm < 3 and time.monotonic() < end:
        now = state(pid)
        if now == "Z":  # it has ended
            return False
        calm = calm + 1 if now in "SD" else 0
        time.sleep(0.02)
    return calm == 3


def interrupts(numbers: list[str]) -> int:
    lines = [line.split() for line in read("/proc/interrupts").splitlines()]
    return sum(int(word) for line in lines if line and line[0].rstrip(":") in numbers
               for word in line[1:3])


def busy(pipe: int) -> None:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(40))
    os.write(pipe, b"b")
    while True:
        pass


def ends(pid: int, end: float) -> bool:
    while not os.waitpid(pid, os.WNOHANG)[0]:
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def race(numbers: list[str]) -> dict:
    """
    raised: an interrupt came for the first packet. early: the other thread did not sleep on.
    forced: the first thread could not run meanwhile. first, other: the thread has returned.
    """
    begin = time.monotonic()
    first, other = (child(at, lambda number=number: write(FILES + "await", str(number)))
                    for at, number in ((FIRST, NUMBER), (OTHER, NUMBER + 1)))
    forced = settles(first) and settles(other)
    before = interrupts(numbers)
    out, into = os.pipe()
    hog = child(FIRST, lambda: busy(into))
    os.read(out, 1)
    write(FILES + "nop", "1 0")
    end = time.monotonic() + SECONDS
    while interrupts(numbers) == before and time.monotonic() < end:
        time.sleep(0.02)
    raised = interrupts(numbers) > before
    early = not settles(other)
    forced = forced and not early and state(first) == "R"
    write(FILES + "nop", "1 0")
    forced = forced and state(first) == "R" and state(other) in "SD"
    os.kill(hog, signal.SIGKILL)
    os.waitpid(hog, 0)
    # A second before the end of lab_sleep(), at which the other thread returns in any case.
    end = min(time.monotonic() + SECONDS, begin + SLEEP_SECONDS - 1)
    forced = forced and end > time.monotonic() + 1
    return {"raised": raised, "early": early, "forced": forced, "first": ends(first, end),
            "other": ends(other, end)}


def main() -> None:
    numbers = os.listdir(f"/sys/bus/pci/devices/{PCI}/msi_irqs")
    for number in numbers:
        with contextlib.suppress(OSError):  # a vector that the driver did not request
            write(f"/proc/irq/{number}/smp_affinity", "2")
    os.sched_setaffinity(0, OTHER)
    there = {path: read(path) for path in SHARES if os.path.exists(path)}
    for path in there:
        write(path, "-1" if path.endswith("_us") else "0")
    try:
        print(json.dumps(race(numbers)))
    finally:
        for path, value in there.items():
            write(path, value)


main()
