# SPDX-License-Identifier: MIT
"""Lab 5: a process uses the queue itself. Seen in VRAM, and by a program that maps too much."""
import base64

from lab3 import begin, press
from regs import C

TITLE = "segments, mmap, a COPY from user space"
CHECKS = [
    ("clear", 1, "VRAM that a process gets has no old data"),
    ("copy", 3, "data that the grader chose goes through the buffer to VRAM and back"),
    ("no calls", 1, "the packets cost no command of the admin ring"),
    ("ring end", 2, "forty more copies come back right: no packet wraps at the ring's end"),
    ("card page", 1, "a process cannot write the card page, also not by mprotect()"),
    ("others", 1, "a process can map no other pages, and no neighbour of a page"),
    ("leaves", 1, "after rmmod the card is not enabled, and no DMA memory is left"),
]
BUFFER = 16 * 4096
MAPS = set(range(4)) | set(range(16, 32))  # pages that may be mapped
PROBE = """
import ctypes, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
fd = os.open('/dev/lab', os.O_RDWR)
def good(page, count=1, prot=3):
    at = libc.mmap(None, count * 4096, prot, 1, fd, page * 4096)
    return None if at in (None, ctypes.c_void_p(-1).value) else at
print('maps', *[page for page in range(40) if good(page, 1, 1)])
print('two', *[page for page in range(40) if good(page, 2, 1)])
at = good(2, 1, 1)
print('write', int(bool(good(2))), int(at is None or not libc.mprotect(at, 4096, 3)))
"""


def copy(bench, data: bytes, source: int, target: int) -> tuple[int, bytes | str]:
    """Runs the program. The output is in base64, since it may be any bytes."""
    text = base64.b64encode(data).decode()
    status, output = bench.machine.run(
        f"set -o pipefail; base64 -d <<< {text} | /lab/{bench.name}/copy {source} {target} "
        f"{len(data)} | base64 -w 0", 20)
    try:
        return status, base64.b64decode(output.strip(), validate=True)
    except ValueError:
        return status, output.strip()


def dirty(bench) -> None:
    for page in range(0, 16, 5):
        bench.poke(page * 4096 + 16, 0x1badd00d, C["BAR_VRAM"])


def probe(bench, tally) -> None:
    text = base64.b64encode(PROBE.encode()).decode()
    status, output = bench.machine.run(f"base64 -d <<< {text} | python3 -", 30)
    have = {line.split()[0]: [int(word) for word in line.split()[1:]]
            for line in output.splitlines() if line.split()[:1] and
            line.split()[0] in ("maps", "two", "write")}
    if len(have) != 3:
        tally.set("others", False, output.strip()[-200:])
        return
    tally.set("card page", have["write"] == [0, 0] and 2 in have["maps"],
              "it can be mapped to write" if have["write"][0] else
              "mprotect() makes it writable" if have["write"][1] else "it cannot be mapped")
    tally.set("others", set(have["maps"]) == MAPS and not have["two"],
              f"pages that can be mapped: {have['maps']}, with a neighbour: {have['two']}; "
              "those of lab.h are 0 to 3 and 16 to 31")


def run(bench, tally, rng) -> None:
    dirty(bench)
    card, queue = begin(bench, tally, "clear")
    if not queue:
        return
    if bench.machine.run("[ -c /dev/lab ]")[0]:
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
    good = tally.set("copy", back == data and b"".join(seen) == data[at:at + 16] and ran == 2,
                     f"exit status {status}, {ran} packets, "
                     f"{len(back)} bytes came back{': ' + back if isinstance(back, str) else ''}")
    failed = "the copy failed, so this tells nothing"
    tally.set("clear", good and not any(old),
              f"old data: {[hex(word) for word in old]}" if any(old) else failed)
    tally.set("no calls", good and not more, f"{more} commands" if good else failed)
    if good:
        status, output = bench.machine.run(
            f"for i in {{10..49}}; do back=$(echo $i | /lab/{bench.name}/copy $i 99 3) || exit; "
            '[ "$back" = $i ] || { echo "$back instead of $i"; exit 1; }; done', 40)
        state, ran = card.page(queue)["state"], card.reg("STAT_PACKETS", 8) - before
        tally.set("ring end", not status and state == C["QUEUE_RUNNING"] and ran >= 82,
                  f"exit status {status}: {output.strip()[-100:]}, state {state}; "
                  f"{ran} packets of 82 or more")
    probe(bench, tally)
    bench.rmmod()
    status, left = card.reg("STATUS"), bench.dma_left()
    tally.set("leaves", not status and not left,
              f"STATUS is {status}, {left} allocations for DMA are left")
