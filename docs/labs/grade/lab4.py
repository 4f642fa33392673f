# SPDX-License-Identifier: MIT
"""Lab 4: interrupts. The card ignores tails for a while, so that threads must sleep."""
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
SECONDS = 40  # for a thread that may sleep for LAB_SLEEP_SECONDS


# Ends when the thread $1 has been seen asleep three times in turn, or does not exist.
SETTLE = """
for i in {1..200}; do
    read -r _ _ state _ < /proc/$1/stat || exit 0
    if [[ $state == [SD] ]]; then ((++calm < 3)) || exit 0; else calm=0; fi
    sleep 0.02
done 2>/dev/null
"""


class Sleeper:
    """A thread of the guest that waits for the packet of this number"""

    def __init__(self, bench, number: int) -> None:
        self.machine, self.number = bench.machine, number
        self.job = self.machine.start(f"echo $$ > /tmp/sleeper.{number}; "
                                      f"echo 1 {number} > {FILES}sleep", SECONDS)

    def asleep(self, card: Card, queue: Queue) -> None:
        """Waits until the thread has published its packet and sleeps, or has ended."""
        self.machine.wait(lambda: card.word(queue.user_page) >= self.number or
                          self.machine.ended(self.job))
        self.settle()

    def settle(self) -> None:
        self.machine.run(f"set -- $(cat /tmp/sleeper.{self.number})\n{SETTLE}", 20)

    def switches(self) -> int | None:
        """How often the thread runs within half a second"""
        count = f"grep ^voluntary /proc/$(cat /tmp/sleeper.{self.number})/status"
        words = self.machine.run(f"{count}; sleep 0.5; {count}")[1].split()
        return int(words[3]) - int(words[1]) if len(words) == 4 else None

    def end(self) -> str:
        status, text = self.machine.finish(self.job, SECONDS)
        if status == 124:
            return "no return"
        return text.strip().rpartition("write error: ")[2] or text.strip()


def let_run(bench, card: Card, queue: Queue) -> None:
    """The card takes tails again. It may sleep, and the doorbell was rung before."""
    bench.machine.monitor.set("x-inject-stall", 0)
    bench.poke(queue.doorbell * C["DOORBELL_STRIDE"], 1, C["BAR_DOORBELL"])


def one(bench, card: Card, queue: Queue, tally) -> bool:
    machine = bench.machine
    number = card.page(queue)["completed"] + 1
    before = card.page(queue)["interrupts"]
    machine.monitor.set("x-inject-stall", 1)
    sleeper = Sleeper(bench, number)
    sleeper.asleep(card, queue)
    have = card.word(queue.kernel_page)
    tally.set("armed", have == number, f"armed is 0x{have:x}, the thread waits for {number}")
    polls = sleeper.switches()
    let_run(bench, card, queue)
    error = sleeper.end()
    raised = card.page(queue)["interrupts"] - before
    tally.set("sleep", not error and raised >= 1 and polls in (0, 1),
              f"'{error}', the packet raised {raised} vectors, the thread "
              + ("was not there" if polls is None else f"ran {polls} times meanwhile"))
    have = card.word(queue.kernel_page)
    tally.set("disarmed", not error and have == NONE, f"'{error}', armed is 0x{have:x}")
    return tally.checks["armed"].good


def two(bench, card: Card, queue: Queue) -> tuple[bool, str]:
    number = card.page(queue)["completed"] + 1
    bench.machine.monitor.set("x-inject-stall", 1)
    first = Sleeper(bench, number)
    first.asleep(card, queue)
    second = Sleeper(bench, number + 1)
    second.asleep(card, queue)
    have = card.word(queue.kernel_page)
    let_run(bench, card, queue)
    errors = [first.end(), second.end()]
    return have == number and errors == ["", ""], (
        f"armed is 0x{have:x} of {number} and {number + 1}; the threads return {errors}")


def spurious(bench, card: Card, queue: Queue) -> tuple[bool, str]:
    """All vectors are raised, and the packet does not run."""
    number = card.page(queue)["completed"] + 1
    machine = bench.machine
    machine.monitor.set("x-inject-stall", 1)
    sleeper = Sleeper(bench, number)
    sleeper.asleep(card, queue)
    have = card.word(queue.kernel_page)
    machine.trace()
    machine.monitor.set("x-inject-irq", 2)
    machine.wait(lambda: any("openreg_raise" in line for line in machine.trace()))
    machine.monitor.set("x-inject-irq", 0)
    sleeper.settle()
    still = card.word(queue.kernel_page)
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
        sleeper = Sleeper(bench, number)
        stop = gdb.go(sleeper.job)
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
    if one(bench, card, queue, tally):
        tally.set("two", *two(bench, card, queue))
        tally.set("spurious", *spurious(bench, card, queue))
        tally.set("race", *race(bench, card, queue))
    bench.rmmod()
    irqs = bench.machine.run(r"grep -w lab /proc/interrupts; "
                             f"ls /sys/bus/pci/devices/{bench.machine.pci}/msi_irqs")[1].strip()
    left = bench.dma_left()
    gone = "cannot access" in irqs or not irqs
    tally.set("leaves", gone and not left, f"{left} allocations for DMA are left; {irqs}")
