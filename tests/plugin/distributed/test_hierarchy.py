# SPDX-License-Identifier: BSD-3-Clause
"""Ranks of several machines: here two halves of four ranks stand for machines."""

import pytest
import torch
import torch.distributed as dist
from ranks import card
from torch.nn.parallel import DistributedDataParallel

from torch_openreg.hierarchy import all_reduce_hook, Hierarchy


@pytest.fixture(scope="module")
def two_by_two(processes):
    ranks = processes(4)
    ranks.start(backend="gloo", bind=False)
    yield ranks
    ranks.stop()


def sums():
    hierarchy = Hierarchy(card(), 2)
    rank = dist.get_rank()
    assert dist.get_world_size(hierarchy.local) == dist.get_world_size(hierarchy.across) == 2
    for n in (1, 2, 7, 100_001):  # some are no multiple of the ranks of a machine
        x = torch.arange(float(n), device=card()) + rank
        hierarchy.all_reduce(x)
        assert torch.equal(x.cpu(), torch.arange(float(n)) * 4 + 6)
        hierarchy.all_reduce(x, dist.ReduceOp.AVG)
        assert torch.equal(x.cpu(), torch.arange(float(n)) * 4 + 6)
    for source in range(4):
        x = torch.full((3,), float(rank), device=card())
        hierarchy.broadcast(x, source)
        assert x.tolist() == [source] * 3


@pytest.mark.native
def test_sums_and_broadcasts(two_by_two):
    two_by_two.run(sums)


def train(parallel):
    """Returns the weights after some steps with the whole batch."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))
    model.to(card())
    whole = model
    rank, size = (dist.get_rank(), dist.get_world_size()) if parallel else (0, 1)
    if parallel:
        hierarchy = Hierarchy(card(), 2)
        whole = DistributedDataParallel(model, process_group=hierarchy.local)
        whole.register_comm_hook(hierarchy, all_reduce_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(2)
    for _ in range(4):
        x = torch.randn(8, 6, generator=generator)
        whole(x.chunk(size)[rank].to(card())).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return [p.detach().cpu() for p in model.parameters()]


def both():
    return train(True), train(False)


@pytest.mark.native
def test_data_parallel(two_by_two):
    results = two_by_two.run(both)
    for parallel, alone in results:
        torch.testing.assert_close(parallel, alone, rtol=1e-5, atol=1e-6)
        assert all(map(torch.equal, parallel, results[0][0]))


def refused():
    for call, words in (
        (lambda: Hierarchy(card(), 3), "no whole number of machines"),
        (lambda: Hierarchy(card()), "ranks_of_a_machine"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    hierarchy = Hierarchy(card(), 2)
    with pytest.raises(ValueError, match="SUM and AVG"):
        hierarchy.all_reduce(torch.ones(2, device=card()), dist.ReduceOp.MAX)
    with pytest.raises(ValueError, match="contiguous"):
        hierarchy.all_reduce(torch.ones(4, 2, device=card()).t())


@pytest.mark.native
def test_bad_input(two_by_two):
    two_by_two.run(refused)
