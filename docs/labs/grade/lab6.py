# SPDX-License-Identifier: MIT
"""Lab 6: faults. The grader submits packets that the card must refuse."""
import base64
import re
import struct

from card import Card, Queue
from lab3 import FILES, begin, press, said
from regs import C

TITLE = "a fault and the queue's reset"
CHECKS = [
    ("record", 2, "the file faults has each record of the fault ring, once"),
    ("error", 1, "a thread that sleeps for a packet that faults gets -EIO at once"),
    ("recover", 3, "after lab_recover() the queue runs, and its numbers continue"),
    ("many", 2, "more faults than the ring has slots; the card drops no record"),
    ("wrong seq", 1, "a record whose seq is wrong for its slot is not taken"),
    ("leaves", 1, "after rmmod the card is not enabled, and no DMA memory is left"),
]
CARD_ID, SEGMENT = 3, 999  # LAB_CARD, and a segment that does not exist


def bad_packet(cookie: int, address: int) -> bytes:
    """A FILL of one element, in one slot"""
    packet = struct.pack("<BBHIQ", C["OP_FILL"], 1, 0, cookie, 0)
    packet += struct.pack("<BBBB4xQ", 0, 1, 1, 0, 0) + struct.pack("<QB7x", address, C["U8"])
    return (packet + struct.pack("<Q", 7)).ljust(64, b"\0")


def submit(bench, packet: bytes) -> str:
    """The error of the write. "late" is in it if that took as long as a sleep without a vector."""
    longest = bench.sleep_seconds
    done = bench.machine.attempt(["pieces", FILES + "packet", base64.b64encode(packet).decode(), 64],
                                 seconds=longest + 10)
    return done.error + (", late" if done.seconds >= longest else "")


def faults(bench) -> list[tuple[int, ...]]:
    """(context, queue, code, packet, address, cookie) of the records in the file"""
    done = bench.machine.attempt(["read", FILES + "faults"])
    return [tuple(int(word, 0) for word in re.findall(r" (0x\w+|\d+)", line))
            for line in (done.result or "").splitlines() if line]


def one(bench, card: Card, queue: Queue, tally, rng) -> bool:
    press(bench, "nop", rng.randrange(1, 9))
    number, cookie = card.page(queue)["completed"] + 1, rng.randrange(1 << 32)
    address = 0x9f << 55 | CARD_ID << 51 | SEGMENT << 38 | rng.randrange(1 << 30)
    error = submit(bench, bad_packet(cookie, address))
    have, again = faults(bench), faults(bench)
    want = (0, 0, C["FAULT_ADDRESS"], number, address, cookie)
    good = tally.set("record", have == [want] and not again,
                     f"{have}, then {again}; it is {want}")
    tally.set("error", good and "Input/output error" in error and "late" not in error,
              said(error))
    press(bench, "recover", 1)
    state, error = card.page(queue)["state"], press(bench, "nop", 5)
    done = card.page(queue)["completed"]
    return tally.set("recover", state == C["QUEUE_RUNNING"] and not error and
                     done == number + 5, f"state {state}; 5 NOPs: {said(error)}, completed {done}, "
                     f"and {number} was the packet that faulted")


def many(bench, card: Card, rng) -> tuple[bool, str]:
    slots, seen = card.reg("FAULT_SLOTS"), []
    cookies = [rng.randrange(1 << 32) for _ in range(slots + 4)]
    for cookie in cookies:
        submit(bench, bad_packet(cookie, 0))
        seen += [fault[5] for fault in faults(bench) if len(fault) == 6]
        press(bench, "recover", 1)
    dropped, head = card.reg("FAULT_DROPPED"), card.reg("FAULT_HEAD")
    return seen == cookies and not dropped and head == card.reg("FAULT_TAIL"), (
        f"{len(seen)} records of {len(cookies)}, {dropped} dropped, FAULT_HEAD {head}")


def run(bench, tally, rng) -> None:
    card, queue = begin(bench, tally, "record")
    if not queue:
        return
    if one(bench, card, queue, tally, rng):
        tally.set("many", *many(bench, card, rng))
    if tally.checks["record"].good:
        bench.machine.monitor.set("x-inject-fault", 6)
        have = faults(bench)
        tally.set("wrong seq", not have, f"taken: {have[:1]}")
    bench.calm()
    bench.rmmod()
    status, left = card.reg("STATUS"), bench.dma_left()
    tally.set("leaves", not status and not left and tally.points,
              f"STATUS is {status}, {left} allocations for DMA are left")
