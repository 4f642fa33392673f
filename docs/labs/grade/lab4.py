# SPDX-License-Identifier: MIT
"""Lab 4: interrupts. The card ignores tails for a while, so that threads must sleep."""
import json
from itertools import takewhile

from card import Card, Queue
from gdb import WRITE, Gdb
from lab3 import FILES, begin, press, said
from regs import C
from tally import tail

TITLE = "MSI-X and the armed race"
CHECKS = [
    ("sleep", 2, "a thread sleeps, without polling, until the vector of its packet"),
    ("armed", 1, "while a thread sleeps for packet n, armed is n"),
    ("disarmed", 1, "afterwards armed is OPENREG_ARMED_NONE"),
    ("race", 2, "store of armed, then mfence, then the load of completed"),
    ("two", 1, "of two threads armed has the lesser number, and each wakes for its packet"),
    ("rest", 1, "a thread that returns late has the rest look again, if their packets have completed"),
    ("spurious", 1, "a vector without a reason does not end the wait"),
    ("leaves", 1, "after rmmod no interrupt and no DMA memory is left"),
]
NONE = (1 << 64) - 1
LAB_DOORBELL = 1
CLIENT = "docs/labs/grade/lab4_client.py"


class Sleeper:
    """A thread of the guest that waits for the packet of this number"""

    def __init__(self, bench, number: int) -> None:
        self.machine, self.number = bench.machine, number
        self.longest = bench.sleep_seconds + 10
        self.job = self.machine.begin(["write", FILES + "sleep", f"1 {number}"],
                                      seconds=self.longest)

    def asleep(self, card: Card, queue: Queue) -> bool:
        """Waits until the thread has published its packet and sleeps. False: it does not sleep."""
        self.machine.wait(lambda: card.word(queue.user_page) >= self.number or
                          self.machine.ended(self.job))
        return self.settle()

    def settle(self) -> bool:
        return not self.machine.ended(self.job) and self.machine.do(["asleep", self.job], seconds=20)

    def polls(self) -> str:
        """What the thread does within half a second, if it does more than to sleep"""
        steps = [["runs", self.job], ["sleep", 0.5], ["runs", self.job]]
        done = self.machine.end(self.machine.start(steps, kind="steps"))
        if done[-1].error:
            return "was not there"
        switches, ticks = (after - before for before, after in zip(done[0].result, done[2].result))
        return "" if max(switches, ticks) < 2 else f"ran {switches} times, for {ticks} ticks"

    def end(self) -> str:
        return self.machine.end(self.job, self.longest)[-1].error


def let_run(bench) -> None:
    """The card takes tails again. It may sleep, and the doorbell was rung before."""
    bench.machine.monitor.set("x-inject-stall", 0)
    bench.poke(LAB_DOORBELL * C["DOORBELL_STRIDE"], 1, C["BAR_DOORBELL"])


def vectors(bench) -> list[str]:
    """The numbers of the card's vectors in the guest"""
    return bench.machine.names(bench.sysfs("msi_irqs"))


def interrupts(bench) -> int:
    """How many interrupts of the card's vectors the guest has had"""
    mine = vectors(bench)
    lines = [line.split() for line in bench.machine.read("/proc/interrupts").splitlines()]
    return sum(int(word) for line in lines if line and line[0].rstrip(":") in mine
               for word in takewhile(str.isdigit, line[1:]))


def one(bench, card: Card, queue: Queue, tally) -> bool:
    machine = bench.machine
    number = card.page(queue)["completed"] + 1
    machine.monitor.set("x-inject-stall", 1)
    sleeper = Sleeper(bench, number)
    asleep = sleeper.asleep(card, queue)
    have = card.word(queue.kernel_page)
    tally.set("armed", have == number, f"armed is 0x{have:x}, the thread waits for {number}")
    polls, before = sleeper.polls(), interrupts(bench)
    let_run(bench)
    error = sleeper.end()
    raised = interrupts(bench) - before
    tally.set("sleep", not error and raised > 0 and asleep and not polls,
              f"{said(error)}, {raised} interrupts in /proc/interrupts, meanwhile the thread "
              f"{polls or ('slept' if asleep else 'never slept')}")
    have = card.word(queue.kernel_page)
    tally.set("disarmed", not error and have == NONE, f"{said(error)}, armed is 0x{have:x}")
    return asleep


def two(bench, card: Card, queue: Queue) -> tuple[bool, str]:
    number = card.page(queue)["completed"] + 1
    bench.machine.monitor.set("x-inject-stall", 1)
    first = Sleeper(bench, number)
    asleep = first.asleep(card, queue)
    second = Sleeper(bench, number + 1)
    asleep = second.asleep(card, queue) and asleep
    have = card.word(queue.kernel_page)
    let_run(bench)
    errors = [first.end(), second.end()]
    return have == number and errors == ["", ""] and asleep, (
        f"armed is 0x{have:x} of {number} and {number + 1}; the threads "
        f"{'slept' if asleep else 'did not both sleep'} and return {errors}")


def spurious(bench, card: Card, queue: Queue) -> tuple[bool, str]:
    """All vectors are raised, and the packet does not run."""
    number = card.page(queue)["completed"] + 1
    machine = bench.machine
    machine.monitor.set("x-inject-stall", 1)
    sleeper = Sleeper(bench, number)
    asleep = sleeper.asleep(card, queue)
    have = card.word(queue.kernel_page)
    machine.trace()
    machine.monitor.set("x-inject-irq", 2)
    machine.wait(lambda: any("openreg_raise" in line for line in machine.trace()))
    machine.monitor.set("x-inject-irq", 0)
    asleep = sleeper.settle() and asleep
    still = card.word(queue.kernel_page)
    let_run(bench)
    error = sleeper.end()
    return have == still == number and asleep and not error, (
        said(error) if still == number and asleep else "the thread did not sleep on")


def rest(bench, card: Card, queue: Queue) -> tuple[bool, str]:
    """The program forces the race. On a busy host it may fail to."""
    machine, seen = bench.machine, {}
    for _ in range(3):
        number = card.page(queue)["completed"] + 1
        text = machine.program(CLIENT, machine.pci, str(number), str(bench.sleep_seconds),
                               seconds=40)[1]
        try:
            seen = json.loads(text)
        except ValueError:
            return False, tail(text, 200)
        if not seen["other"]:  # so that rmmod does not wait for it
            machine.monitor.set("x-inject-irq", 2)
            machine.do(["sleep", 0.5])
            machine.monitor.set("x-inject-irq", 0)
        if not seen["raised"]:
            return False, "no interrupt for the packet of the first thread"
        if seen["early"]:
            return False, "after the interrupt for the first packet, the other thread does not sleep"
        if seen["forced"]:
            return seen["other"], "the other thread sleeps on, although its packet has completed"
    return False, f"the race was not forced, so grade once more: {seen}"


def race(bench, card: Card, queue: Queue) -> tuple[bool, str]:
    """Stops the guest when it stores armed, and looks at what it does next."""
    machine = bench.machine
    number = card.page(queue)["completed"] + 1
    machine.monitor.set("x-inject-stall", 1)
    gdb = Gdb(machine)
    try:
        base = gdb.direct_map()
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
    let_run(bench)
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
    asleep = one(bench, card, queue, tally)
    if tally.checks["armed"].good:
        if asleep:  # else the waits below take long and tell nothing
            tally.set("two", *two(bench, card, queue))
            tally.set("spurious", *spurious(bench, card, queue))
            if vectors(bench) and tally.checks["two"].good:
                tally.set("rest", *rest(bench, card, queue))
            else:
                tally.set("rest", False, "without a vector, or the check 'two', this tells nothing")
        tally.set("race", *race(bench, card, queue))
    bench.rmmod()
    irqs = [line for line in bench.machine.read("/proc/interrupts").splitlines()
            if "lab" in line.split()]
    if vectors(bench):
        irqs.append("MSI-X is still on")
    left = bench.dma_left()
    tally.set("leaves", not irqs and not left,
              f"{left} allocations for DMA are left; {' | '.join(irqs)}")
