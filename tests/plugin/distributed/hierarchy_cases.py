# SPDX-License-Identifier: BSD-3-Clause
"""What each rank does in the tests of hierarchies: two machines with two ranks each."""

import torch
import torch.distributed as dist
from ranks import card
from torch.nn.parallel import DistributedDataParallel

from torch_openreg.hierarchy import all_reduce_hook, Hierarchy

DTYPES = [
    torch.float32,
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.int16,
    torch.uint8,
    torch.int8,
    torch.int32,
    torch.float64,
    torch.complex64,
]
EXPECTED = {  # of the ranks' values 1, 2, 3, 4
    dist.ReduceOp.SUM: 10,
    dist.ReduceOp.AVG: 2.5,
    dist.ReduceOp.PRODUCT: 24,
    dist.ReduceOp.MAX: 4,
    dist.ReduceOp.MIN: 1,
}


def reductions():
    hierarchy = Hierarchy(card(), 2)
    rank = dist.get_rank()
    assert dist.get_world_size(hierarchy.local) == dist.get_world_size(hierarchy.across) == 2
    for n in (1, 2, 7, 100_001):  # some are no multiple of the ranks of a machine
        x = torch.arange(float(n), device=card()) + rank
        hierarchy.all_reduce(x)
        assert torch.equal(x.cpu(), torch.arange(float(n)) * 4 + 6)
    for dtype in DTYPES:
        for op, expected in EXPECTED.items():
            if dtype.is_complex and op not in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
                continue
            x = torch.full((3, 5), rank + 1, dtype=dtype, device=card())
            hierarchy.all_reduce(x, op)
            assert torch.equal(x.cpu(), torch.full((3, 5), expected).to(dtype)), (dtype, op)


def limits():
    """Of a dtype: the average is in its range, the sum is not."""
    hierarchy = Hierarchy(card(), 2)
    rank = dist.get_rank()
    x = torch.full((3,), 40000.0, dtype=torch.float16, device=card())
    hierarchy.all_reduce(x, dist.ReduceOp.AVG)
    assert x.tolist() == [40000.0] * 3
    x = torch.tensor([rank == 3, False], device=card())
    hierarchy.all_reduce(x)
    assert x.tolist() == [True, False]
    x = torch.tensor([-1 - rank], device=card())
    hierarchy.all_reduce(x, dist.ReduceOp.AVG)
    assert x.tolist() == [-2]


def broadcasts():
    hierarchy = Hierarchy(card(), 2)
    weight = torch.nn.Parameter(torch.full((3,), float(dist.get_rank()), device=card()))
    hierarchy.broadcast(weight, 1)
    assert weight.tolist() == [1.0] * 3
    for dtype in (*DTYPES, torch.bool, torch.float8_e4m3fn):
        for source in range(4):
            x = torch.full((3, 2), dist.get_rank(), dtype=dtype, device=card()).t()
            hierarchy.broadcast(x, source)
            expected = torch.full((2, 3), source, dtype=dtype)
            assert torch.equal(x.cpu().float(), expected.float())


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


def trained_like_one_card():
    """Returns the weights."""
    parallel, alone = train(True), train(False)
    torch.testing.assert_close(parallel, alone, rtol=1e-5, atol=1e-6)
    return parallel
