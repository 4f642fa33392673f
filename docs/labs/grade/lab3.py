# SPDX-License-Identifier: MIT
"""Lab 3: a queue. Seen in its pages, in the statistics and by stops at the store of tail."""
from card import Card, Queue
from gdb import WRITE, Gdb
from regs import C

TITLE = "a context, a queue, a NOP"
CHECKS = [
    ("queue", 1, "the card page says that the queue runs, and armed is OPENREG_ARMED_NONE"),
    ("packets", 2, "the NOPs complete, one number each, with the cookies that the grader chose"),
    ("wraps", 1, "three rings full of NOPs complete"),
    ("doorbell", 1, "a NOP for a card that sleeps completes"),
    ("quiet", 1, "no doorbell while the card is awake"),
    ("order", 2, "packet, then tail, then mfence, then the load of asleep, then the doorbell"),
    ("full", 1, "lab_submit() returns -EAGAIN if the ring is full, and overwrites nothing"),
    ("leaves", 1, "after rmmod the card is not enabled, and no DMA memory is left"),
]
FILES = "/sys/kernel/debug/lab/"


def press(bench, name: str, count: int, cookie: int = 0, seconds: int = 20) -> str:
    """Writes to a file of the driver; "" if the write succeeds, else its error."""
    return bench.machine.attempt(["write", FILES + name, f"{count} {cookie}"],
                                 seconds=seconds).error


def said(error: str) -> str:
    return f"error '{error}'" if error else "no error"


def cookies(card: Card, queue: Queue, first: int, count: int) -> list[int]:
    """Opcodes and cookies of the slots"""
    return [card.monitor.read(queue.ring + (first + i) % queue.slots * 64, 1, 8)[0]
            for i in range(count)]


def sleeps(card: Card, queue: Queue) -> None:
    """Waits until the card sleeps."""
    card.machine.wait(lambda: card.page(queue)["asleep"])


def order(bench, card: Card, queue: Queue) -> tuple[bool, str]:
    """Stops the guest when it stores tail, while the card sleeps."""
    machine, cookie = bench.machine, 0x5eed
    at = card.word(queue.user_page)
    machine.trace()
    gdb = Gdb(machine)
    try:
        base = gdb.direct_map()
        gdb.watch(WRITE, base + queue.user_page, 8)
        job = machine.begin(["write", FILES + "nop", f"1 {cookie}"], seconds=30)
        stop = gdb.go(job)
        gdb.unwatch(WRITE, base + queue.user_page, 8)
        if not stop:
            return False, "the driver stores no tail"
        gdb.thread(stop)
        early = sum("openreg_doorbell" in line for line in machine.trace())
        packet = cookies(card, queue, at, 1)[0]
        loads, fence = gdb.fence_before(base + queue.card_page + 16, 4)
    finally:
        gdb.close()
    machine.end(job, 30)
    late = sum("openreg_doorbell" in line for line in machine.trace())
    if packet >> 32 != cookie:
        return False, "when tail is stored, the packet is not in the ring yet"
    if early:
        return False, "the doorbell is rung before tail is stored"
    if not loads:
        return False, "after the store of tail, asleep is not loaded"
    if not fence:
        return False, "between the store of tail and the load of asleep is no mfence (use mb())"
    return late == 1, f"{late} doorbells for a card that slept"


def full(bench, card: Card, queue: Queue) -> tuple[bool, str]:
    """The card ignores tails for a while."""
    bench.machine.monitor.set("x-inject-stall", 1)
    error = press(bench, "post", 3 * queue.slots)
    tail, head = card.word(queue.user_page), card.page(queue)["head"]
    bench.calm()
    return "temporarily unavailable" in error and tail - head == queue.slots, (
        f"{said(error)}, with {tail - head} slots published of {queue.slots}")


def begin(bench, tally, name: str) -> tuple[Card, Queue | None]:
    """Loads the driver; without a queue that runs, the check name fails."""
    card = Card(bench.machine)
    bench.count_dma()
    error = bench.insmod().error
    trace = bench.machine.trace()
    if not bench.bound():
        tally.end("the driver does not bind: " + bench.why_unbound(error))
        return card, None
    queue = card.queue(trace)
    if not queue or card.page(queue)["state"] != C["QUEUE_RUNNING"]:
        tally.set(name, False, f"no queue that runs{bench.fatal() or bench.machine.complaint()}")
        tally.end("there is no queue, so no packet can be tried")
        return card, None
    return card, queue


def run(bench, tally, rng) -> None:
    card, queue = begin(bench, tally, "queue")
    if not queue:
        return
    armed = card.word(queue.kernel_page)
    tally.set("queue", armed == (1 << 64) - 1, f"armed is 0x{armed:x}")
    count, cookie = rng.randrange(3, queue.slots // 2), rng.randrange(1 << 30)
    error = press(bench, "nop", count, cookie)
    want = [1 << 8 | cookie + i << 32 for i in range(count)]
    ran, done = card.reg("STAT_PACKETS", 8), card.page(queue)["completed"]
    tally.set("packets", not error and ran == done == count and
              cookies(card, queue, 0, count) == want,
              f"{count} NOPs: {said(error)}, completed {done}, STAT_PACKETS {ran}"
              f"{card.fault(queue)}")
    count = 3 * queue.slots
    error = press(bench, "nop", count)
    more = card.page(queue)["completed"] - done
    # asleep goes to 0 before the packet of a doorbell runs, and this driver waits for each.
    bells, wakes = card.reg("STAT_DOORBELLS", 8), card.page(queue)["wakes"]
    tally.set("wraps", not error and more == count,
              f"{count} NOPs: {said(error)}, {more} completed{card.fault(queue)}")
    sleeps(card, queue)
    done = card.page(queue)["completed"]
    error = press(bench, "nop", 1)
    more = card.page(queue)["completed"] - done
    good = tally.set("doorbell", not error and more == 1, f"{said(error)}, {more} completed")
    tally.set("quiet", good and tally.checks["wraps"].good and bells <= wakes,
              f"{bells} doorbells for a card that woke {wakes} times")
    if good:
        sleeps(card, queue)
        tally.set("order", *order(bench, card, queue))
    tally.set("full", *full(bench, card, queue))
    bench.rmmod()
    status, left = card.reg("STATUS"), bench.dma_left()
    tally.set("leaves", not status and not left,
              f"STATUS is {status}, {left} allocations for DMA are left")
