# SPDX-License-Identifier: MIT
"""Checks lab 11, as a client of host.py."""
import random
import threading

import torch
from client import attempt, held, load

MIB = 1 << 20


def alloc(n: int):
    return torch.ops.lab11.alloc(n)


def free_memory() -> int:
    return torch.openreg.mem_get_info(0)[0]


def holds(tensor, value: int) -> bool:
    return tensor.numel() == 0 or bool((tensor.cpu() == value).all())


def blocks(rng) -> str:
    live = []
    for i in range(200):
        if live and rng.random() < 0.4:
            tensor, value = live.pop(rng.randrange(len(live)))
            if not holds(tensor, value):
                return f"a block of {tensor.numel()} bytes was overwritten"
            del tensor
        n = rng.choice([0, 1, 511, 512, 513, rng.randrange(1, 5000), rng.randrange(1, 3 * MIB)])
        tensor = alloc(n)
        if tensor.data_ptr() % 512:
            return f"a block of {n} bytes is at 0x{tensor.data_ptr():x}"
        live.append((tensor.fill_(i), i))
    for tensor, value in live:
        if not holds(tensor, value):
            return f"a block of {tensor.numel()} bytes was overwritten"
    return ""


def reuse(rng) -> str:
    side = torch.Stream(device="openreg:0")
    for n, times in ((rng.randrange(600, 4000), 9000), (rng.randrange(3 * MIB, 5 * MIB), 30)):
        with held(side), side:
            block = alloc(n).fill_(1)
            del block
            before = free_memory()
            for _ in range(times):
                block = alloc(n)
                del block
            took = before - free_memory()
            if took > 0:
                return f"{n} bytes, taken and freed {times} times, take {took} bytes of the card"
            if took < 0:
                return f"{n} bytes went back to the driver when they were freed"
    return ""


def share(rng) -> str:
    before = free_memory()
    live = [alloc(rng.randrange(100, 500)) for _ in range(1000)]
    took = before - free_memory()
    del live
    return "" if took <= 2 * MIB else f"1000 blocks of 500 bytes take {took} bytes"


def streams(rng) -> str:
    """The packets of a held stream still write to a block that has been freed."""
    one, two = torch.Stream(device="openreg:0"), torch.Stream(device="openreg:0")
    n = rng.randrange(100000, 200000)
    with held(one) as release:
        with one:
            block = alloc(n).fill_(1)
            del block
        with two:
            others = [alloc(n).fill_(2) for _ in range(60)]
        two.synchronize()
        release()
    good = all(holds(other, 2) for other in others)
    return "" if good else "packets of the stream before wrote to the block"


def record(rng) -> str:
    main, side = torch.accelerator.current_stream(), torch.Stream(device="openreg:0")
    n = rng.randrange(100000, 200000)
    x, copy = alloc(n).fill_(5), torch.zeros(n, dtype=torch.uint8, device="openreg")
    where = x.data_ptr()
    with held(side) as release:
        with side:
            copy.copy_(x)
        torch.ops.lab11.record(x, side.stream_id)
        del x
        others = [alloc(n).fill_(9) for _ in range(20)]
        main.synchronize()
        release()
    if not holds(copy, 5):
        return "a block was used again before the recorded stream had passed"
    others = [alloc(n) for _ in range(60)]
    if where not in {tensor.data_ptr() for tensor in others}:
        return "the block never served again"
    return ""


def empty(rng) -> str:
    torch.ops.lab11.empty()
    torch.openreg.synchronize()
    kept = alloc(rng.randrange(1, 1000)).fill_(3)
    before, side = free_memory(), torch.Stream(device="openreg:0")
    copy = torch.zeros(4 * MIB, dtype=torch.uint8, device="openreg")
    taken = free_memory() - before
    with held(side) as release:
        with side:
            x = alloc(4 * MIB).fill_(6)
            copy.copy_(x)
            del x
        threading.Timer(0.5, release).start()
        torch.ops.lab11.empty()
    if not holds(copy, 6) or not holds(kept, 3):
        return "memory that was in use went back"
    torch.ops.lab11.empty()
    left = before + taken - free_memory()
    return f"{left} bytes did not go back" if left else ""


def full(rng) -> str:
    """The card has 64 MiB."""
    torch.accelerator.synchronize()
    for n in (rng.randrange(30, 34) * MIB, rng.randrange(35, 40) * MIB, 30 * MIB):
        block = alloc(n)
        if not holds(block.fill_(7), 7):
            return "the block does not hold its bytes"
        del block
    try:
        alloc(200 * MIB)
        return "no error for more memory than the card has"
    except torch.OutOfMemoryError:
        pass
    return "" if holds(alloc(30 * MIB).fill_(8), 8) else "no memory after the error"


def main(part: str, directory: str, seed: int) -> None:
    load(directory, "lab11")
    rng = random.Random(f"{part} {seed}")
    if part == "full":
        attempt("full", full, rng)
    elif attempt("blocks", blocks, rng):
        for check in (reuse, share, streams, record, empty):
            attempt(check.__name__, check, rng)
