#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains a network to read digits on several cards, then on one, and compares the losses.

    make demo-ddp            on four cards inside the processes
    make demo-ddp VM=yes     on the four cards of a VM

Each process has a card, and a quarter of each batch. DistributedDataParallel averages the
gradients, so that the losses are those of one card with the whole batch, but for rounding.
On several machines, torchrun starts the ranks of each machine.
"""

import os
import sys
import time

import digits
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from torch_openreg.hierarchy import all_reduce_hook, Hierarchy

NETWORK = "MLP"
# Sums in another order differ by a rounding, and the steps after it make that larger.
LARGEST_DIFFERENCE = 1e-3


def parallel(model: nn.Module, hierarchy) -> nn.Module:
    """The model on all cards: of this machine, or of all machines."""
    if hierarchy is None:
        return DistributedDataParallel(model)
    whole = DistributedDataParallel(model, process_group=hierarchy.local)
    whole.register_comm_hook(hierarchy, all_reduce_hook)
    return whole


def average(losses: torch.Tensor, hierarchy) -> None:
    if hierarchy is None:
        dist.all_reduce(losses, dist.ReduceOp.AVG)
    else:
        hierarchy.all_reduce(losses, dist.ReduceOp.AVG)


def train(
    model: nn.Module, data: digits.Data, epochs: int, rate: float, ranks: int, hierarchy=None
):
    """Returns the losses of all steps and the final accuracy. Runs in each rank."""
    device = f"openreg:{torch.openreg.current_device()}"
    rank = dist.get_rank() if ranks > 1 else 0
    model.to(device)
    whole = parallel(model, hierarchy) if ranks > 1 else model
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, fused=True)
    kept = []
    for epoch in range(1, epochs + 1):
        optimizer.param_groups[0]["lr"] = rate * (1 - (epoch - 1) / epochs)
        losses = [
            digits.step(whole, optimizer, images[rank::ranks], labels[rank::ranks])
            for images, labels in data.batches(device)
        ]
        losses = torch.stack(losses)
        if ranks > 1:
            average(losses, hierarchy)
        reached = digits.accuracy(model, data, device)
        if rank == 0:
            digits.print_epoch(epoch, losses.mean().item(), reached, losses)
        kept.append(losses.cpu())
    return torch.cat(kept), reached


def run(ranks: int, hierarchy=None):
    """Trains with the seed of the demo; returns the losses, the accuracy and the seconds."""
    make, epochs, rate = digits.NETWORKS[NETWORK]
    torch.manual_seed(0)
    data = digits.Data()
    model = make()
    begin = time.monotonic()
    losses, reached = train(model, data, epochs, rate, ranks, hierarchy)
    return losses, reached, time.monotonic() - begin


def judge(many: torch.Tensor, one: torch.Tensor, reached: float, on_cpu: int) -> str:
    """Returns the last line of the output."""
    difference = (many - one).abs().max().item()
    if on_cpu:
        raise digits.Failure(f"{on_cpu} operators ran on the CPU: {torch.openreg.fallbacks()}")
    if not difference <= LARGEST_DIFFERENCE:
        raise digits.Failure(f"a loss differs by {difference:.2g} from that of one card")
    if reached < digits.GOOD_ENOUGH:
        raise digits.Failure(f"accuracy is {reached:.3f}, less than {digits.GOOD_ENOUGH}")
    return f"demo: ok accuracy={reached:.2f} fallbacks=0 difference={difference:.1e}"


def main() -> int:
    try:
        if not hasattr(torch, "openreg") or not torch.openreg.is_available():
            raise digits.Failure("no openreg card; make demo-ddp starts processes with one each")
        if "LOCAL_RANK" not in os.environ:
            raise digits.Failure("this is not a rank: start it with make demo-ddp, or torchrun")
        card = torch.device("openreg", int(os.environ["LOCAL_RANK"]) % torch.openreg.device_count())
        torch.openreg.set_device(card)
        hierarchy = None
        if os.environ["LOCAL_WORLD_SIZE"] == os.environ["WORLD_SIZE"]:
            dist.init_process_group(device_id=card)
        else:
            dist.init_process_group("gloo")
            hierarchy = Hierarchy(card)
        ranks, first = dist.get_world_size(), dist.get_rank() == 0
        if first:
            print(f"{NETWORK} on {ranks} cards, {digits.BATCH // ranks} images on each", flush=True)
        many, reached, seconds = run(ranks, hierarchy)
        on_cpu = torch.openreg.stats()["fallbacks"]
        dist.destroy_process_group()
        if first:
            print(f"{NETWORK} on one card, {digits.BATCH} images", flush=True)
            one, _, alone = run(1)
            print(f"\n{'steps':40}{len(one):>10}")
            print(f"{'seconds, ' + str(ranks) + ' cards':40}{seconds:>10.1f}")
            print(f"{'seconds, one card':40}{alone:>10.1f}")
            print(f"{'largest difference of a loss':40}{(many - one).abs().max().item():>10.1e}")
            print(judge(many, one, reached, on_cpu))
    except digits.Failure as why:
        print(f"demo: failed: {why}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
