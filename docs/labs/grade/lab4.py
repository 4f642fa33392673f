# SPDX-License-Identifier: MIT
"""Lab 4: interrupts. The card ignores tails for a while, so that threads must sleep."""
import time

from card import Card, Queue
from gdb import WRITE, Gdb, direct_map
from lab3 import FILES, begin, press
from regs import C

TITLE = "MSI-X and the armed race"
CHECKS = [
    ("sleep", 2, "a thread sleeps, without polling, until the vector of its packet"),
    ("armed", 1, "while a thread sleeps for packet n, armed is n"),
    ("disarmed", 1, "afterwards armed is OPENREG_ARMED_NONE"),
    ("race", 2, "store of armed, then mfence, then the load of completed"),
    ("two", 2, "of two threads armed has the lesser number, and each wakes for its packet"),
    ("spurious", 1, "a vector without a reason does not end the wait"),
    ("leaves", 1, "after rmmod no interrupt and no DMA memory is left"),
]
NONE = (1 << 64) - 1


def switches(bench) -> int | None:
    """How often the thread in the file "sleep" runs within a fifth of a second"""
    count = "for name in $(grep -lx sleeper /proc/[0-9]*/comm); do " \
            "grep ^voluntary ${name%comm}status; done 2>/dev/null"
    words = bench.machine.run(f"{count}; sleep 0.2; {count}")[1].split()
    return int(words[3]) - int(words[1]) if len(words) == 4 else None


class Sleeper:
    """A thread of the guest that waits for a packet"""

    def __init__(self, bench, cookie: int) -> None:
        self.machine = bench.machine
        self.job = self.machine.start(
            f"exec -a sleeper bash -c 'echo sleeper > /proc/$$/comm; "
            f"echo 1 {cookie} > {FILES}sleep'", 15)

    def end(self) -> str:
        status, text = self.machine.finish(self.job, 15)
        if status == 124:
            return "no return within 15 s"
        return text.strip().rpartition("write error: ")[2] or text.strip()


def armed(card: Card, queue: Queue, want: int, seconds: float = 1.0) -> int:
    """The value of armed, once it is the wanted one or after some time"""
    end = time.monotonic() + seconds
    while True:
        have = card.word(queue.kernel_page)
        if have == want or time.monotonic() > end:
            return have
        time.sleep(0.05)


def let_run(bench, card: Card, queue: Queue) -> None:
    """The card takes tails again. It may sleep, and the doorbell was rung before."""
    bench.machine.monitor.set("x-inject-stall", 0)
    bench.poke(queue.doorbell * C["DOORBELL_STRIDE"], 1, C["BAR_DOORBELL"])


def one(bench, card: Card, queue: Queue, tally) -> None:
    machine = bench.machine
    number = card.page(queue)["completed"] + 1
    before = card.page(queue)["interrupts"]
    machine.monitor.set("x-inject-stall", 1)
    sleeper = Sleeper(bench, 5)
    have = armed(card, queue, number)
    tally.set("armed", have == number, f"armed is 0x{have:x}, the thread waits for {number}")
    polls = switches(bench)
    let_run(bench, card, queue)
    error = sleeper.end()
    raised = card.page(queue)["interrupts"] - before
    tally.set("sleep", not error and raised >= 1 and polls == 0,
              f"'{error}', the packet raised {raised} vectors, the thread "
              + ("was not there" if polls is None else f"ran {polls} times meanwhile"))
    have = armed(card, queue, NONE)
    tally.set("disarmed", not error and have == NONE, f"'{error}', armed is 0x{have:x}")


def two(bench, card: Card, queue: Queue) -> tuple[bool, str]:
    number = card.page(queue)["completed"] + 1
    bench.machine.monitor.set("x-inject-stall", 1)
    first = Sleeper(bench, 6)
    if armed(card, queue, number) != number:
        first.end()
        return False, "the first thread does not arm"
    second = Sleeper(bench, 7)
    end = time.monotonic() + 1
    while card.word(queue.user_page) < number + 1 and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.2)
    have = card.word(queue.kernel_page)
    let_run(bench, card, queue)
    errors = [first.end(), second.end()]
    return have == number and errors == ["", ""], (
        f"armed is 0x{have:x} of {number} and {number + 1}; the threads return {errors}")


def spurious(bench, card: Card, queue: Queue) -> tuple[bool, str]:
    """All vectors are raised all the time, and the packet does not run."""
    number = card.page(queue)["completed"] + 1
    bench.machine.monitor.set("x-inject-stall", 1)
    bench.machine.monitor.set("x-inject-irq", 2)
    sleeper = Sleeper(bench, 8)
    have = armed(card, queue, number)
    time.sleep(0.3)
    still = card.word(queue.kernel_page)
    bench.machine.monitor.set("x-inject-irq", 0)
    let_run(bench, card, queue)
    error = sleeper.end()
    return have == still == number and not error, (
        "the thread did not wait" if still != number else f"'{error}'")


def race(bench, card: Card, queue: Queue) -> tuple[bool, str]:
    """Stops the guest when it stores armed, and looks at what it does next."""
    machine = bench.machine
    base, number = int(direct_map(machine), 16), card.page(queue)["completed"] + 1
    machine.monitor.set("x-inject-stall", 1)
    gdb = Gdb(machine)
    try:
        base = int.from_bytes(gdb.read(base, 8), "little")
        gdb.watch(WRITE, base + queue.kernel_page, 8)
        sleeper = Sleeper(bench, 9)
        stop = gdb.go(15)
        gdb.unwatch(WRITE, base + queue.kernel_page, 8)
        loads = fence = False
        have = card.word(queue.kernel_page)
        if stop:
            gdb.thread(stop)
            loads, fence = gdb.fence_before(base + queue.card_page + 8, 8)
    finally:
        gdb.close()
    let_run(bench, card, queue)
    sleeper.end()
    if not stop or have != number:
        return False, f"armed is 0x{have:x}, and the thread waits for {number}"
    if not loads:
        return False, "after the store of armed, completed is not loaded"
    return fence, "between the store of armed and the load of completed is no mfence (use mb())"


def run(bench, tally, rng) -> None:
    card, queue = begin(bench, tally, "sleep")
    if not queue:
        return
    press(bench, "nop", rng.randrange(1, 9))
    one(bench, card, queue, tally)
    tally.set("two", *two(bench, card, queue))
    tally.set("spurious", *spurious(bench, card, queue))
    tally.set("race", *race(bench, card, queue))
    bench.rmmod()
    irqs = bench.machine.run(r"grep -w lab /proc/interrupts; "
                             f"ls /sys/bus/pci/devices/{bench.machine.pci}/msi_irqs")[1].strip()
    left = bench.dma_left()
    gone = "cannot access" in irqs or not irqs
    tally.set("leaves", gone and not left, f"{left} allocations for DMA are left; {irqs}")
