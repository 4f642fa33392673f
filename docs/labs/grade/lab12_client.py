# SPDX-License-Identifier: MIT
"""Checks lab 12, as a client of host.py."""
import importlib
import random
import time

import torch
from client import attempt, held, load

Job = None


def stream():
    return torch.Stream(device="openreg:0")


def current():
    return torch.accelerator.current_stream()


def filled(n: int, value: int):
    tensor = torch.full((n,), float(value), device="openreg:0")
    torch.openreg.synchronize()
    return tensor


def holds(tensor, value: int) -> bool:
    torch.openreg.synchronize()
    return bool((tensor.cpu() == value).all())


def let_run(stream) -> None:
    """Gives a stream half a second for work that waits for nothing."""
    end = time.monotonic() + 0.5
    while not stream.query() and time.monotonic() < end:
        time.sleep(0.01)


def runs(rng) -> str:
    n, a, b = rng.randrange(10, 9000), rng.randrange(1, 9), rng.randrange(1, 9)
    side, main, seen = stream(), current(), []

    def function(x, y):
        seen.append(current())
        return x + y

    y = Job(side, function, filled(n, a), filled(n, b)).result()
    if not holds(y, a + b):
        return "the result is wrong"
    if seen != [side] or current() != main:
        return f"the function saw the streams {seen}, and afterwards {current()} is current"
    try:
        Job(side, lambda x: x.no_such_method(), filled(n, a)).result()
        return "the function's error is lost"
    except AttributeError:
        return "" if current() == main else "after an error, another stream is current"


def reads_input(rng) -> str:
    x, value = filled(rng.randrange(10, 9000), 1), rng.randrange(2, 9)
    side = stream()
    with held(current()) as release:
        x.fill_(value)
        job = Job(side, lambda x: x + 1, x)
        let_run(side)
        release()
    return "" if holds(job.result(), value + 1) else "the function read its input too early"


def reads_output(rng) -> str:
    x, value = filled(rng.randrange(10, 9000), 1), rng.randrange(2, 9)
    side = stream()
    with held(side) as release:
        y = Job(side, lambda x: x * value, x).result()
        copy = y + 1
        let_run(current())
        release()
    return "" if holds(copy, value + 1) else "the caller's stream read the result too early"


def overlap(_rng) -> str:
    side = stream()
    x, z = filled(1000, 1), filled(1000, 1)
    with held(side) as release:
        job = Job(side, lambda x: x + 1, x)
        z.fill_(5)
        current().synchronize()  # ends only once z is filled
        release()
    return "" if holds(job.result(), 2) and holds(z, 5) else "wrong numbers"


def no_wait(_rng) -> str:
    side, main = stream(), current()
    with held(side, main) as release:
        torch.openreg.set_sync_debug_mode("error")
        try:
            y = Job(side, lambda x: x + 1, filled_later(main)).result()
        finally:
            torch.openreg.set_sync_debug_mode("default")
        release()
    return "" if holds(y, 4) else "wrong numbers"


def filled_later(main):
    with main:
        return torch.full((1000,), 3.0, device="openreg:0")


def input_memory(rng) -> str:
    n, side = rng.randrange(1000, 90000), stream()
    x = filled(n, 4)
    with held(side) as release:
        job = Job(side, lambda x: x + 0, x)
        del x
        others = [torch.full((n,), 9.0, device="openreg:0") for _ in range(30)]
        current().synchronize()
        release()
    del others
    return "" if holds(job.result(), 4) else "the input's memory was used again too early"


def output_memory(rng) -> str:
    n, side, third = rng.randrange(1000, 90000), stream(), stream()
    x = filled(n, 6)
    job = Job(side, lambda x: x + 0, x)
    y = job.result()
    torch.openreg.synchronize()
    where = y.data_ptr()
    with held(current()) as release:
        copy = y + 0
        del y, job
        with third:
            def fill(x):
                return x * 0 + 9
            jobs = [Job(side, fill, x) for _ in range(20)]
            for other in jobs:
                other.result()
            third.synchronize()
        release()
    if not holds(copy, 6):
        return "the result's memory was used again too early"
    del jobs, other
    torch.openreg.synchronize()
    with side:
        others = [torch.empty(n, device="openreg:0") for _ in range(90)]
    if where not in {tensor.data_ptr() for tensor in others}:
        return "the result's memory never served again"
    return ""


def main(_part: str, directory: str, seed: int) -> None:
    global Job
    torch.ops.load_library(__import__("os").environ["LAB_HOLD"])
    Job = importlib.import_module("lab12").Job
    rng = random.Random(seed)
    if attempt("runs", runs, rng):
        for name, check in (("input", reads_input), ("output", reads_output),
                            ("overlap", overlap), ("no wait", no_wait),
                            ("input memory", input_memory), ("output memory", output_memory)):
            attempt(name, check, rng)
