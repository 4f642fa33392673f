# SPDX-License-Identifier: MIT
"""(k) torch.distributed on two cards: an all_reduce of 8 bytes compared with gloo, and a step
of DistributedDataParallel with and without the overlap of its buckets with the backward pass.

usage: distributed.py [SUFFIX], which is appended to the names of the figures
"""

import multiprocessing
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from common import figure

RANKS = 2
LAYERS, WIDTH, BATCH = 8, 512, 64
ROUNDS, STEPS = 200, 15


def median(function, rounds):
    """The median of function's time in seconds. All ranks call it at once."""
    times = []
    for _ in range(rounds):
        dist.barrier()
        torch.openreg.synchronize()
        begin = time.perf_counter()
        function()
        torch.openreg.synchronize()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def small(device):
    """An all_reduce of 8 bytes, on the card and by gloo in the CPU's memory."""
    gloo = dist.new_group(backend="gloo")
    x, y = torch.ones(2, device=device), torch.ones(2)
    ways = {
        "add_ and synchronize": lambda: x.add_(1),
        "all_reduce of 8 bytes by torch": lambda: dist.all_reduce(x),
        "all_reduce of 8 bytes by gloo": lambda: dist.all_reduce(y, group=gloo),
    }
    for run in ways.values():
        median(run, 10)
    return {name: median(run, ROUNDS) for name, run in ways.items()}


def stepper(device, bucket_mib, synced):
    layers = [torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)]
    model = DistributedDataParallel(
        torch.nn.Sequential(*layers).to(device), bucket_cap_mb=bucket_mib
    )
    x = torch.randn(BATCH, WIDTH, device=device)

    def run():
        model(x).sum().backward()

    def run_alone():
        with model.no_sync():
            run()

    return run if synced else run_alone


def steps(device):
    """Forward and backward passes. A bucket of one layer is 1 MiB."""
    ways = {
        "DDP step, a bucket a layer": stepper(device, 1, True),
        "DDP step, one bucket": stepper(device, 1000, True),
        "DDP step without all_reduce": stepper(device, 1000, False),
    }
    for run in ways.values():
        median(run, 3)  # DDP forms the buckets anew after the first step
    return {name: median(run, STEPS) for name, run in ways.items()}


def work(rank, path, suffix):
    index = rank % torch.openreg.device_count()
    device = torch.device("openreg", index)
    torch.set_num_threads(1)
    torch.openreg.set_device(index)
    dist.init_process_group(
        store=dist.FileStore(path, RANKS), rank=rank, world_size=RANKS, device_id=device
    )
    for name, seconds in {**small(device), **steps(device)}.items():
        if rank == 0:
            figure("k", f"{name}, on {RANKS} cards{suffix}", 1e6 * seconds, "us")
    dist.destroy_process_group()


def main():
    suffix = sys.argv[1] if len(sys.argv) > 1 else ""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        ranks = [context.Process(target=work, args=(r, path, suffix)) for r in range(RANKS)]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join()
    sys.exit(any(process.exitcode for process in ranks))


if __name__ == "__main__":
    main()
