# SPDX-License-Identifier: BSD-3-Clause
"""A rank that dies, and a rank that makes another call. Then rank 0 goes on alone."""

import os
import tempfile

import torch
import torch.distributed as dist


def group(path, rank, size):
    card = torch.device("openreg", rank)
    torch.openreg.set_device(card)
    store = dist.FileStore(path, size)
    dist.init_process_group(store=store, rank=rank, world_size=size, device_id=card)


def total(n):
    x = torch.ones(n, device=torch.openreg.current_device())
    dist.all_reduce(x)
    return x[0].item()  # an error arrives here at the latest


def dies(rank):
    total(10)
    if rank == 1:
        os._exit(0)
    total(10)


def differs(rank):
    total(10 * (rank + 1))


def main(rank, what, path):
    group(path, rank, 2)
    try:
        what(rank)
    except dist.DistBackendError as error:
        if rank == 0:
            print("rank 0:", error, flush=True)
    dist.destroy_process_group()
    if rank == 0 and what is differs:
        group(path + ".alone", 0, 1)
        print("rank 0: alone, and works:", total(10), flush=True)
        dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        for what in (dies, differs):
            arguments = (what, f"{directory}/{what.__name__}")
            torch.multiprocessing.spawn(main, args=arguments, nprocs=2)
