# SPDX-License-Identifier: BSD-3-Clause
"""Every collective moves and reduces what gloo or plain arithmetic says."""

import pytest
import torch
import torch.distributed as dist
from ranks import card

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.bool,
    torch.complex64,
]
SIZES = [0, 1, 1000, 300_001]
OPS = {
    "SUM": lambda parts: sum(parts[1:], parts[0]),
    "AVG": lambda parts: sum(parts[1:], parts[0]) / len(parts),
    "PRODUCT": lambda parts: torch.stack(parts).prod(0),
    "MIN": lambda parts: torch.stack(parts).amin(0),
    "MAX": lambda parts: torch.stack(parts).amax(0),
    "BAND": lambda parts: bitwise(torch.bitwise_and, parts),
    "BOR": lambda parts: bitwise(torch.bitwise_or, parts),
    "BXOR": lambda parts: bitwise(torch.bitwise_xor, parts),
}


def bitwise(function, parts):
    result = parts[0]
    for part in parts[1:]:
        result = function(result, part)
    return result


def value(rank, size, dtype, seed=0):
    """What a rank has: small numbers, so that all sums are exact."""
    generator = torch.Generator().manual_seed(100 * seed + rank)
    if dtype.is_complex:
        return torch.complex(
            *torch.randint(-3, 4, (2, size), generator=generator).float()
        ).to(dtype)
    low = 0 if dtype in (torch.uint8, torch.bool) else -3
    high = 2 if dtype == torch.bool else 4
    return torch.randint(low, high, (size,), generator=generator).to(dtype)


def values(size, dtype, seed=0):
    return [value(rank, size, dtype, seed) for rank in range(dist.get_world_size())]


def own(size, dtype, seed=0):
    return value(dist.get_rank(), size, dtype, seed).to(card())


def expect(actual, expected):
    torch.testing.assert_close(actual.cpu(), expected, rtol=0, atol=0)


def combine(op, parts):
    dtype = parts[0].dtype
    if dtype == torch.bool:
        wide = OPS[{"SUM": "MAX", "PRODUCT": "MIN"}.get(op, op)]([p.int() for p in parts])
        return wide.bool()
    if op == "AVG" and not (dtype.is_floating_point or dtype.is_complex):
        return torch.div(OPS["SUM"](parts), len(parts), rounding_mode="trunc")
    return OPS[op](parts).to(dtype)


def can(op, dtype):
    if op in ("BAND", "BOR", "BXOR"):
        return not (dtype.is_floating_point or dtype.is_complex)
    if dtype.is_complex:
        return op in ("SUM", "AVG")
    return not (op == "AVG" and dtype == torch.bool)


def reductions(dtype):
    for op in OPS:
        if not can(op, dtype):
            continue
        for size in SIZES:
            expected = combine(op, values(size, dtype))
            x = own(size, dtype)
            dist.all_reduce(x, getattr(dist.ReduceOp, op))
            expect(x, expected)


@pytest.mark.native
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_all_reduce(pair, dtype):
    pair.run(reductions, dtype)


@pytest.mark.native
def test_all_reduce_of_three_ranks(trio):
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        trio.run(reductions, dtype)


def test_all_reduce_of_floats(pair):
    """The sample for a VM."""
    pair.run(reductions, torch.float32)


def refused_reductions():
    for op in OPS:
        for dtype in DTYPES:
            if can(op, dtype):
                continue
            try:
                dist.all_reduce(own(4, dtype), getattr(dist.ReduceOp, op))
            except (ValueError, RuntimeError) as error:
                assert "\n" not in str(error).split("Exception raised")[0].strip()
            else:
                raise AssertionError(f"{op} of {dtype} was not refused")
    x = torch.ones(2, device=card())
    dist.all_reduce(x)
    expect(x, torch.full((2,), float(dist.get_world_size())))


@pytest.mark.native
def test_refused_reductions_leave_the_group_usable(pair):
    pair.run(refused_reductions)


def premultiplied():
    for factor in (0.5, torch.tensor([2.0])):
        x = own(100, torch.float32)
        scale = float(factor)
        op = dist._make_nccl_premul_sum(factor)
        dist.all_reduce(x, op)
        expect(x, sum(v * scale for v in values(100, torch.float32)))


@pytest.mark.native
def test_premultiplied_sum(pair):
    pair.run(premultiplied)


def broadcasts(dtype):
    for root in range(dist.get_world_size()):
        for size in SIZES:
            x = own(size, dtype)
            dist.broadcast(x, root)
            expect(x, value(root, size, dtype))


@pytest.mark.native
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.complex64], ids=str)
def test_broadcast(trio, dtype):
    trio.run(broadcasts, dtype)


def reduces():
    for root in range(dist.get_world_size()):
        for size in SIZES:
            x = own(size, torch.float32)
            before = x.clone()
            dist.reduce(x, root)
            is_root = dist.get_rank() == root
            expected = combine("SUM", values(size, torch.float32)) if is_root else before.cpu()
            expect(x, expected)


@pytest.mark.native
def test_reduce_leaves_the_other_ranks_tensor(trio):
    trio.run(reduces)


def gathers():
    n, rank = dist.get_world_size(), dist.get_rank()
    for dtype in (torch.float32, torch.bool, torch.bfloat16):
        for size in SIZES:
            x = own(size, dtype)
            parts = [torch.empty_like(x) for _ in range(n)]
            dist.all_gather(parts, x)
            for part, expected in zip(parts, values(size, dtype)):
                expect(part, expected)
            whole = torch.empty(n * size, dtype=dtype, device=card())
            dist.all_gather_into_tensor(whole, x)
            expect(whole, torch.cat(values(size, dtype)))
            stacked = torch.empty(n, size, dtype=dtype, device=card())
            dist.all_gather_into_tensor(stacked, x)
            expect(stacked, torch.stack(values(size, dtype)))
            for root in range(n):
                parts = [torch.empty_like(x) for _ in range(n)] if rank == root else None
                dist.gather(x, parts, root)
                for part, expected in zip(parts or [], values(size, dtype)):
                    expect(part, expected)


@pytest.mark.native
def test_gathers(trio):
    trio.run(gathers)


def unequal_gathers():
    n = dist.get_world_size()
    x = own(10 + dist.get_rank(), torch.float32)
    parts = [torch.empty(10 + r, device=card()) for r in range(n)]
    dist.all_gather(parts, x)
    for r, part in enumerate(parts):
        expect(part, value(r, 10 + r, torch.float32))


@pytest.mark.native
def test_all_gather_of_unequal_sizes(trio):
    trio.run(unequal_gathers)


def scatters():
    n, rank = dist.get_world_size(), dist.get_rank()
    for size in SIZES:
        for root in range(n):
            x = torch.empty(size, device=card())
            parts = [value(r, size, torch.float32, 7).to(card()) for r in range(n)]
            dist.scatter(x, parts if rank == root else None, root)
            expect(x, value(rank, size, torch.float32, 7))


@pytest.mark.native
def test_scatter(trio):
    trio.run(scatters)


def reduce_scatters():
    n, rank = dist.get_world_size(), dist.get_rank()
    for dtype in (torch.float32, torch.float16, torch.int64, torch.uint8):
        for size in SIZES:
            mine = [value(rank, size, dtype, r) for r in range(n)]
            expected = combine("SUM", [value(r, size, dtype, rank) for r in range(n)])
            x = torch.empty(size, dtype=dtype, device=card())
            dist.reduce_scatter(x, [m.to(card()) for m in mine])
            expect(x, expected)
            y = torch.empty(size, dtype=dtype, device=card())
            dist.reduce_scatter_tensor(y, torch.cat(mine).to(card()))
            expect(y, expected)
    lists = [value(rank, 5 + r, torch.float32, r).to(card()) for r in range(n)]
    x = torch.empty(5 + rank, device=card())
    dist.reduce_scatter(x, lists)
    parts = [value(r, 5 + rank, torch.float32, rank) for r in range(n)]
    expect(x, combine("SUM", parts))


@pytest.mark.native
def test_reduce_scatter(trio):
    trio.run(reduce_scatters)


def all_to_alls():
    n, rank = dist.get_world_size(), dist.get_rank()
    for size in (0, 3, 100_003):
        sent = torch.cat([value(rank, size, torch.float32, r) for r in range(n)]).to(card())
        expected = torch.cat([value(r, size, torch.float32, rank) for r in range(n)])
        got = torch.empty_like(sent)
        dist.all_to_all_single(got, sent)
        expect(got, expected)
        parts = [torch.empty(size, device=card()) for _ in range(n)]
        dist.all_to_all(parts, list(sent.split(size)) if size else [x for x in parts])
        expect(torch.cat(parts), expected)
    sends = [rank + r for r in range(n)]
    receives = [r + rank for r in range(n)]
    x = torch.cat(
        [torch.full((count, 2), float(10 * rank + r)) for r, count in enumerate(sends)]
    ).to(card())
    y = torch.empty(sum(receives), 2, device=card())
    dist.all_to_all_single(y, x, receives, sends)
    expect(
        y,
        torch.cat(
            [torch.full((count, 2), float(10 * r + rank)) for r, count in enumerate(receives)]
        ),
    )


@pytest.mark.native
def test_all_to_all(trio):
    trio.run(all_to_alls)


def objects():
    n, rank = dist.get_world_size(), dist.get_rank()
    found = [None] * n
    dist.all_gather_object(found, {"rank": rank})
    assert found == [{"rank": r} for r in range(n)]
    one = [("from", rank)]
    dist.broadcast_object_list(one, 1)
    assert one == [("from", 1)]


@pytest.mark.native
def test_objects(pair):
    pair.run(objects)


def coalesced():
    n = dist.get_world_size()
    tensors = [own(size, torch.float32, size) for size in (3, 1000, 50_000)]
    with dist._coalescing_manager(device=card(), async_ops=True) as manager:
        for x in tensors:
            dist.all_reduce(x)
    manager.wait()
    for x in tensors:
        expect(x, combine("SUM", values(x.numel(), torch.float32, x.numel())))
    parts = [own(size, torch.float32) for size in (3, 1000)]
    wholes = [torch.empty(n * p.numel(), device=card()) for p in parts]
    with dist._coalescing_manager(device=card()):
        for whole, part in zip(wholes, parts):
            dist.all_gather_into_tensor(whole, part)
    for whole, part in zip(wholes, parts):
        expect(whole, torch.cat(values(part.numel(), torch.float32)))
    outputs = [torch.empty_like(p) for p in parts]
    with dist._coalescing_manager(device=card()):
        for output, whole in zip(outputs, wholes):
            dist.reduce_scatter_tensor(output, whole)
    for output, part in zip(outputs, parts):
        expect(output, n * part.cpu())


@pytest.mark.native
def test_coalesced(pair):
    pair.run(coalesced)


def dense():
    n, rank = dist.get_world_size(), dist.get_rank()
    x = torch.full((4, 6), float(rank), device=card()).t()
    dist.all_reduce(x)
    expect(x, torch.full((6, 4), float(sum(range(n)))))
    view = torch.zeros(10, device=card())
    dist.broadcast(view[2:5].fill_(float(rank + 1)), 1)
    expect(view, torch.tensor([0.0] * 2 + [2.0] * 3 + [0.0] * 5))


@pytest.mark.native
def test_dense_views(pair):
    pair.run(dense)


def registered():
    """Core keeps the works of a graph's inputs until the program waits for them."""
    count = torch._C._distributed_c10d._get_work_registry_size
    x = torch.full((10,), float(dist.get_rank()), device=card())
    with dist._functional_collectives.allow_inflight_collective_as_graph_input_ctx():
        work = dist.all_reduce(x, async_op=True)
        assert count() == 1
        work.wait()
        assert count() == 0
        dist.all_reduce(x, async_op=True)
        torch.ops.c10d_functional.wait_tensor(x)
        assert count() == 0
    expect(x, torch.full((10,), float(dist.get_world_size())))


@pytest.mark.native
def test_wait_ends_the_registration_of_a_work(pair):
    pair.run(registered)
