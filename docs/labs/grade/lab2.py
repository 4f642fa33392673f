# SPDX-License-Identifier: MIT
"""Lab 2: the admin ring. Seen in the registers, in VRAM and in what the commands return."""
import base64

from card import Card, command
from regs import C, STATUS_FATAL, STATUS_READY

TITLE = "the admin ring by polling"
CHECKS = [
    ("ready", 2, "STATUS is READY, CARD_ID is LAB_CARD, both rings are in the registers"),
    ("commands", 2, "two FILLs that the grader chooses are seen in VRAM"),
    ("status", 1, "lab_admin() returns the status of each completion"),
    ("wraps", 1, "commands for three times the slots all complete"),
    ("sequence", 1, "a completion with a wrong seq is not taken for the command's"),
    ("gives up", 1, "lab_admin() returns -ETIMEDOUT if no completion comes"),
    ("refuses fatal", 1, "probe fails, and frees everything, if STATUS is FATAL"),
    ("leaves", 1, "after rmmod the card is not enabled, and no DMA memory is left"),
]
FILE = "/sys/kernel/debug/lab/admin"
CARD_ID = 3  # LAB_CARD


def send(bench, data: bytes, seconds: int = 10) -> str:
    """Writes commands to the file. Returns the last status, or the error of a write."""
    done = bench.machine.attempt(["pieces", FILE, base64.b64encode(data).decode(), 64],
                                 ["read", FILE], seconds=seconds)
    return done.error or done.result.strip()


def fills(bench, card: Card, rng) -> tuple[bool, str]:
    for _ in range(2):
        page = rng.randrange(1, card.reg("VRAM_SIZE", 8) // 4096 - 3)
        value = rng.randrange(1, 256)
        answer = send(bench, command(C["ADMIN_FILL"], 0, 0, page * 4096, 8192, value))
        want = [0 if around else value * 0x0101010101010101 for around in (1, 0, 0, 1)]
        have = [card.vram(page * 4096 + at) for at in (-8, 0, 8184, 8192)]
        if answer != "0" or have != want:
            return False, (f"FILL of page {page} with 0x{value:02x} gave '{answer}', and around "
                           f"its ends VRAM has {[hex(word) for word in have]}{bench.fatal()}")
    return True, ""


def statuses(bench) -> tuple[bool, str]:
    context = command(C["ADMIN_CTX_CREATE"], 77)
    for what, data, want in (
            ("an unknown command", command(99), C["ADMIN_EOPCODE"]),
            ("CTX_CREATE", context, C["ADMIN_OK"]),
            ("CTX_CREATE of the same", context, C["ADMIN_EEXIST"]),
            ("CTX_DESTROY", command(C["ADMIN_CTX_DESTROY"], 77), C["ADMIN_OK"]),
            ("CTX_DESTROY of the same", command(C["ADMIN_CTX_DESTROY"], 77), C["ADMIN_ENOENT"])):
        have = send(bench, data)
        if have != str(want):
            return False, bench.fatal()[2:] or f"{what}: '{have}', and the card said {want}"
    return True, ""


def times_out(text: str) -> bool:
    return "timed out" in text


def run(bench, tally, rng) -> None:
    machine = bench.machine
    card = Card(machine)
    bench.count_dma()
    error = bench.insmod().error
    if not bench.bound():
        return tally.end("the driver does not bind: " + bench.why_unbound(error))
    machine.trace()
    have = {name: card.reg(name, size) for name, size in (
        ("STATUS", 4), ("CARD_ID", 4), ("ADMIN_BASE", 8), ("ADMIN_CPL", 8), ("ADMIN_SLOTS", 4),
        ("FAULT_BASE", 8), ("FAULT_SLOTS", 4))}
    if not tally.set("ready", all(have.values()) and have["STATUS"] == STATUS_READY and
                     have["CARD_ID"] == CARD_ID, f"{have}{bench.fatal()}"):
        return tally.end("the card is not ready, so no command can be tried")
    # A lab_admin() that never works gives up, too.
    works = tally.set("commands", *fills(bench, card, rng))
    tally.set("status", *statuses(bench))
    tail, count = card.reg("ADMIN_TAIL"), 3 * have["ADMIN_SLOTS"] + rng.randrange(9)
    if have["ADMIN_SLOTS"] <= 256:
        answer = send(bench, command(C["ADMIN_NOP"]) * count, 20)
        more = card.reg("ADMIN_TAIL") - tail
        last = card.completion((tail + count - 1) % have["ADMIN_SLOTS"])
        tally.set("wraps", answer == "0" and more == count and last == tail + count,
                  f"after {count} NOPs '{answer}', ADMIN_TAIL grew by {more}, "
                  f"seq of the last completion is {last}, and ADMIN_TAIL was {tail}{bench.fatal()}")
    machine.monitor.set("x-inject-admin", 2)
    answer = send(bench, command(C["ADMIN_NOP"]))
    failed = "the FILLs failed, so this tells nothing"
    tally.set("sequence", works and times_out(answer), f"'{answer}'" if works else failed)
    bench.calm()
    bench.rmmod()
    status, left = card.reg("STATUS"), bench.dma_left()
    tally.set("leaves", not status and not left,
              f"STATUS is {status}, {left} allocations for DMA are left")

    bench.insmod()
    machine.monitor.set("x-inject-admin", 1)
    answer = send(bench, command(C["ADMIN_NOP"]))
    tally.set("gives up", works and times_out(answer), f"'{answer}'" if works else failed)
    bench.calm()
    bench.rmmod()

    bench.count_dma()
    machine.monitor.set("x-inject-reg-value", STATUS_FATAL)
    machine.monitor.set("x-inject-reg", C["REG_STATUS"])
    bench.insmod()
    bound, left = bench.bound(), bench.dma_left()
    tally.set("refuses fatal", not bound and not left,
              "the driver is bound" if bound else f"{left} allocations for DMA are left")
