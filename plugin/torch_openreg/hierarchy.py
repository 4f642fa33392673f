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
        """In place, for each dtype that the card reduces. Each rank sends only its share of the
        tensor to the other machines. The host waits for them. A result of 16-bit floats is
        rounded in each machine, and once over all machines."""
        if op not in REDUCTIONS:
            raise ValueError(f"a hierarchy has SUM, AVG, PRODUCT, MAX and MIN, not {op}")
        if op == dist.ReduceOp.AVG and tensor.dtype == torch.bool:
            raise ValueError("all_reduce: a bool tensor has no average")
        if not tensor.is_contiguous():
            raise ValueError("all_reduce: the tensor is not contiguous; use contiguous()")
        flat = tensor.detach().view(-1)
        each = -(-flat.numel() // self.width)
        whole = flat.new_zeros(each * self.width)
        whole[: flat.numel()] = flat
        share = flat.new_empty(each)
        # The sum of a machine may be too large for 16 bits where the average is not.
        exact = not tensor.is_floating_point() and not tensor.is_complex()
        average = op == dist.ReduceOp.AVG
        within = dist.ReduceOp.SUM if average and exact else op
        dist.reduce_scatter_single(share, whole, within, group=self.local)
        result = REDUCTIONS[op](self._from_machines(share))
        if average and exact:
            result = result.div(self.size, rounding_mode="trunc")
        elif average:
            result = result / (self.size // self.width)
        dist.all_gather_single(whole, result.to(flat.dtype), group=self.local)
        flat.copy_(whole[: flat.numel()])

    def broadcast(self, tensor: torch.Tensor, source: int = 0) -> None:
        """In place, from the rank source. The host waits."""
        first = source - source % self.width
        if dist.get_rank() // self.width == source // self.width:
            dist.broadcast(tensor, source, group=self.local)
        there = as_bytes(tensor).cpu()
        dist.broadcast(there, first + self.place, group=self.across)
        tensor.detach().copy_(there.to(self.device).view(tensor.dtype).view(tensor.shape))

    def _from_machines(self, share: torch.Tensor) -> torch.Tensor:
        """The shares of this place on all machines, a row each."""
        mine = as_bytes(share).cpu()
        machines = self.size // self.width
        theirs = mine.new_empty(machines * mine.numel())
        dist.all_gather_single(theirs, mine, group=self.across)
        return theirs.to(self.device).view(share.dtype).view(machines, -1)


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """gloo has no 16-bit floats: bytes travel, and the card reduces."""
    return tensor.detach().contiguous().view(-1).view(torch.uint8)


def sum_of(rows: torch.Tensor) -> torch.Tensor:
    short = rows.is_floating_point() and rows.element_size() == 2
    return rows.sum(0, dtype=torch.float32 if short else None)


REDUCTIONS = {
    dist.ReduceOp.SUM: sum_of,
    dist.ReduceOp.AVG: sum_of,
    dist.ReduceOp.PRODUCT: lambda rows: rows.prod(0),
    dist.ReduceOp.MAX: lambda rows: rows.amax(0),
    dist.ReduceOp.MIN: lambda rows: rows.amin(0),
}


def all_reduce_hook(
    hierarchy: Hierarchy, bucket: dist.GradBucket
) -> torch.futures.Future[torch.Tensor]:
    """For DistributedDataParallel.register_comm_hook(): averages over all machines."""
    buffer = bucket.buffer()
    hierarchy.all_reduce(buffer, dist.ReduceOp.AVG)
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    future.set_result(buffer)
    return future
