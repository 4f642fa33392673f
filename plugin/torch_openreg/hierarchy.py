# SPDX-License-Identifier: BSD-3-Clause
"""Collectives among cards of several machines: occl inside each machine, and gloo between
the machines.

    dist.init_process_group("gloo")                  # connects all ranks
    hierarchy = Hierarchy(card)                      # all ranks call this
    model = DistributedDataParallel(model.to(card), process_group=hierarchy.local)
    model.register_comm_hook(hierarchy, all_reduce_hook)

Every machine has the same number of ranks, and their numbers follow each other, as torchrun
starts them.
"""

import os
from typing import Any

import torch
from torch import distributed as dist


class Hierarchy:
    """The groups of a rank: "local" are the ranks of its machine, "across" are the ranks in
    the same place on all machines."""

    def __init__(self, device: torch.device, ranks_of_a_machine: int | None = None) -> None:
        if ranks_of_a_machine is None:
            if "LOCAL_WORLD_SIZE" not in os.environ:
                raise ValueError(
                    "how many ranks has a machine? Give ranks_of_a_machine, or use torchrun"
                )
            ranks_of_a_machine = int(os.environ["LOCAL_WORLD_SIZE"])
        self.device, self.size = device, dist.get_world_size()
        self.width = ranks_of_a_machine
        if self.width < 1 or self.size % self.width:
            raise ValueError(
                f"{self.size} ranks are no whole number of machines with {self.width} ranks each"
            )
        rank = dist.get_rank()
        machine, self.place = divmod(rank, self.width)
        firsts = range(0, self.size, self.width)
        # Each rank creates all groups: new_group() demands it.
        locals_ = [dist.new_group(range(n, n + self.width), backend="occl") for n in firsts]
        across = [
            dist.new_group(range(place, self.size, self.width), backend="gloo")
            for place in range(self.width)
        ]
        self.local, self.across = locals_[machine], across[self.place]

    def all_reduce(self, tensor: torch.Tensor, op: Any = dist.ReduceOp.SUM) -> None:
        """In place. Each rank sends only its share of the tensor to the other machines. The
        host waits for them."""
        if op not in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
            raise ValueError(f"a hierarchy has SUM and AVG, not {op}")
        if not tensor.is_contiguous():
            raise ValueError("all_reduce: the tensor is not contiguous; use contiguous()")
        flat = tensor.detach().view(-1)
        each = -(-flat.numel() // self.width)
        whole = flat.new_zeros(each * self.width)
        whole[: flat.numel()] = flat
        share = flat.new_empty(each)
        dist.reduce_scatter_tensor(share, whole, group=self.local)
        there = share.cpu()
        dist.all_reduce(there, group=self.across)
        if op == dist.ReduceOp.AVG:
            there /= self.size
        dist.all_gather_into_tensor(whole, there.to(self.device), group=self.local)
        flat.copy_(whole[: flat.numel()])

    def broadcast(self, tensor: torch.Tensor, source: int = 0) -> None:
        """In place, from the rank source. The host waits."""
        first = source - source % self.width
        if dist.get_rank() // self.width == source // self.width:
            dist.broadcast(tensor, source, group=self.local)
        there = tensor.cpu()
        dist.broadcast(there, first + self.place, group=self.across)
        tensor.copy_(there)


def all_reduce_hook(
    hierarchy: Hierarchy, bucket: dist.GradBucket
) -> torch.futures.Future[torch.Tensor]:
    """For DistributedDataParallel.register_comm_hook(): averages over all machines."""
    buffer = bucket.buffer()
    hierarchy.all_reduce(buffer, dist.ReduceOp.AVG)
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    future.set_result(buffer)
    return future
