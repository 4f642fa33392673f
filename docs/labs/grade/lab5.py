# SPDX-License-Identifier: MIT
"""Lab 5: a process uses the queue itself. Seen in VRAM, and by a program that maps too much."""
import base64

from lab3 import begin, press
from regs import C
from tally import tail

TITLE = "segments, mmap, a COPY from user space"
CHECKS = [
    ("clear", 1, "VRAM that a process gets has no old data"),
    ("copy", 1, "data that the grader chose goes through the buffer to VRAM and back"),
    ("no calls", 1, "the packets cost no command of the admin ring"),
    ("ring end", 2, "twenty more copies come back right: no packet wraps at the ring's end"),
    ("card page", 1, "a process cannot write the card page, also not by mprotect()"),
    ("others", 1, "a process can map no other pages, and no neighbour of a page"),
    ("device", 1, "rmmod removes /dev/lab, and before it destroys the context"),
    ("buffer", 1, "rmmod frees no memory before the card has given up the buffer"),
    ("leaves", 1, "after rmmod the card is not enabled, and no DMA memory is left"),
]
BUFFER = 16 * 4096
BUFFER_SEGMENT = 2  # LAB_SEG_BUFFER
MAPS = set(range(4)) | set(range(16, 32))  # pages that may be mapped
PROBE = "docs/labs/grade/lab5_client.py"
AGAIN = 20


def copy(bench, data: bytes, source: int, target: int) -> tuple[int, bytes | str]:
    """Exit status of the program and its output, or its errors if it fails"""
    return copies(bench, [(data, source, target)])[0]


def copies(bench, what: list[tuple[bytes, int, int]]) -> list[tuple[int, bytes | str]]:
    """The same for several runs"""
    steps = [["pipe", [f"/lab/{bench.name}/copy", str(source), str(target), str(len(data))],
              base64.b64encode(data).decode()] for data, source, target in what]
    seconds = 20 + len(what)
    done = bench.machine.end(bench.machine.begin(*steps, seconds=seconds), seconds)
    return [(124, each.error) if each.error else
            (each.result[0], each.result[2] if each.result[0] else base64.b64decode(each.result[1]))
            for each in done]


def difference(status: int, back: bytes | str, data: bytes) -> str:
    """What is wrong with a run of the program, or "" """
    if isinstance(back, str):
        return f"exit status {status}: {back}"
    at = next((i for i, (one, other) in enumerate(zip(back, data)) if one != other), None)
    if at is not None:
        return f"wrong bytes came back: byte {at} is 0x{back[at]:02x} and not 0x{data[at]:02x}"
    return "" if len(back) == len(data) else f"{len(back)} bytes came back, not {len(data)}"


def again(bench, rng) -> str:
    """Copies of a few bytes, so many that the queue reaches the ring's end"""
    what = [(rng.randbytes(3), 100 + i, 99) for i in range(AGAIN)]
    for (data, *_), (status, back) in zip(what, copies(bench, what)):
        wrong = difference(status, back, data)
        if wrong:
            return wrong
    return ""


def dirty(bench) -> None:
    for page in range(0, 16, 5):
        bench.poke(page * 4096 + 16, 0x1badd00d, C["BAR_VRAM"])


def probe(bench, tally) -> None:
    output = bench.machine.program(PROBE, seconds=30)[1]
    have = {line.split()[0]: [int(word) for word in line.split()[1:]]
            for line in output.splitlines() if line.split()[:1] and
            line.split()[0] in ("maps", "two", "write")}
    if len(have) != 3:
        tally.set("others", False, tail(output, 200))
        return
    tally.set("card page", have["write"] == [0, 0] and 2 in have["maps"],
              "it can be mapped to write" if have["write"][0] else
              "mprotect() makes it writable" if have["write"][1] else "it cannot be mapped")
    tally.set("others", set(have["maps"]) == MAPS and not have["two"],
              f"pages that can be mapped: {have['maps']}, with a neighbour: {have['two']}; "
              "those of lab.h are 0 to 3 and 16 to 31")


def freed_early(removal: list[tuple[str, int, int]]) -> str:
    """Whether rmmod freed memory before a command, or a reset, took the buffer from the card"""
    goes = False
    for what, opcode, number in removal:
        if what == "begin":
            goes = (opcode == C["ADMIN_CTX_DESTROY"] or
                    (opcode, number) == (C["ADMIN_SEG_UNBIND"], BUFFER_SEGMENT))
        elif what == "reset" or (what == "end" and goes):
            return ""
        elif what == "dma_free":
            return "rmmod frees memory before CTX_DESTROY or SEG_UNBIND of the buffer has completed"
    return "rmmod gives no command for the buffer"


def run(bench, tally, rng) -> None:
    dirty(bench)
    card, queue = begin(bench, tally, "clear")
    if not queue:
        return
    if "lab" not in bench.machine.do(["list", "/dev"]):
        return tally.end("there is no /dev/lab")
    old = [card.vram(page * 4096 + 16) for page in range(0, 16, 5)]
    size = rng.randrange(9000, 12000)
    data = rng.randbytes(size)
    source, target = rng.randrange(BUFFER - size), rng.randrange(BUFFER - size) & ~7
    press(bench, "nop", 1)  # so that a COPY of two slots once meets the ring's last slot
    tail, before = card.reg("ADMIN_TAIL"), card.reg("STAT_PACKETS", 8)
    status, back = copy(bench, data, source, target)
    at = rng.randrange(0, size - 16, 8)
    seen = [card.vram(target + at + more).to_bytes(8, "little") for more in (0, 8)]
    ran, more = card.reg("STAT_PACKETS", 8) - before, card.reg("ADMIN_TAIL") - tail
    wrong, there = difference(status, back, data), b"".join(seen) == data[at:at + 16]
    good = tally.set("copy", not wrong and there and ran == 2,
                     f"{wrong or 'the right bytes came back'}; VRAM has "
                     f"{'the' if there else 'other'} bytes; {ran} packets{card.fault(queue)}")
    failed = "the copy failed, so this tells nothing"
    tally.set("clear", good and not any(old),
              f"old data: {[hex(word) for word in old]}" if any(old) else failed)
    tally.set("no calls", good and not more, f"{more} commands" if good else failed)
    if good:
        wrong = again(bench, rng)
        state, ran = card.page(queue)["state"], card.reg("STAT_PACKETS", 8) - before
        tally.set("ring end", not wrong and state == C["QUEUE_RUNNING"] and ran >= 2 + 2 * AGAIN,
                  f"{wrong or 'right'}; {ran} packets of {2 + 2 * AGAIN} or more{card.fault(queue)}")
    probe(bench, tally)
    bench.watch_removal()
    bench.rmmod()
    removal, left = bench.removal()
    late, early = bench.open_late(removal, "lab"), freed_early(removal)
    tally.set("device", not late, late)
    tally.set("buffer", good and not early, failed if not good else early)
    status = card.reg("STATUS")
    tally.set("leaves", not status and not left,
              f"STATUS is {status}, {left} allocations for DMA are left")
