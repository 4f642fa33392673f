# SPDX-License-Identifier: MIT
"""(s) Sends tensors to another process through a queue, and waits for an answer. Compares
tensors of the card with tensors of the CPU. Prints a JSON object a line, with the least time
of the rounds in microseconds: the first sending of a tensor, and a further one.

usage: sharing.py [--rounds N] [--mib N...]
"""

import argparse
import json
import multiprocessing
import time

import torch
import torch_openreg  # noqa: F401


def answer(tensors, answers):
    while (x := tensors.get()) is not None:
        x[-1].item()
        answers.put(x.numel())


def send(x, tensors, answers):
    begin = time.perf_counter()
    tensors.put(x)
    answers.get()
    return 1e6 * (time.perf_counter() - begin)


def measure(device, count, tensors, answers):
    x = torch.ones(count, device=device)
    x[-1].item()
    return send(x, tensors, answers), send(x, tensors, answers)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--mib", type=float, nargs="+", default=[0.001, 1, 64])
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    tensors, answers = context.SimpleQueue(), context.SimpleQueue()
    other = context.Process(target=answer, args=(tensors, answers), daemon=True)
    other.start()
    for mib in options.mib:
        count = int(mib * (1 << 20)) // 4
        least = {"cpu": (1e9, 1e9), "openreg": (1e9, 1e9)}
        for _ in range(options.rounds):
            for device, best in least.items():
                took = measure(device, count, tensors, answers)
                least[device] = tuple(map(min, best, took))
        for device, (first, further) in least.items():
            figures = {"mib": mib, "device": device, "first": first, "further": further}
            print(json.dumps(figures), flush=True)
    tensors.put(None)
    other.join()


if __name__ == "__main__":
    main()
