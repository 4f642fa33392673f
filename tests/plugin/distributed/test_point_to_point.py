# SPDX-License-Identifier: BSD-3-Clause
"""Sends and receives arrive, in the order of each direction, in whatever order they are made."""

import pytest
import torch
import torch.distributed as dist
from ranks import card

LARGE = 1_500_000  # elements: more than a rank sends before the other receives


def filled(number, size=LARGE):
    return torch.full((size,), float(number), device=card())


def expect(x, number):
    assert bool((x == number).all()), (x[:4], number)


def there_and_back():
    if dist.get_rank() == 0:
        dist.send(filled(7), 1)
        x = filled(0)
        dist.recv(x, 1)
        expect(x, 8)
    else:
        x = filled(0)
        assert dist.recv(x, 0) == 0
        dist.send(x + 1, 0)


def test_there_and_back(pair):
    pair.run(there_and_back)


def both_send_first():
    rank = dist.get_rank()
    x = filled(-1)
    works = [dist.isend(filled(rank), 1 - rank), dist.irecv(x, 1 - rank)]
    for work in works:
        work.wait()
    expect(x, 1 - rank)


@pytest.mark.native
def test_both_may_send_first(pair):
    pair.run(both_send_first)


def order():
    rank = dist.get_rank()
    for n in range(50):
        if rank == 0:
            dist.send(filled(n, 10 + n), 1)
        else:
            x = filled(-1, 10 + n)
            dist.recv(x, 0)
            expect(x, n)


@pytest.mark.native
def test_messages_keep_their_order(pair):
    pair.run(order)


def across_a_collective():
    rank = dist.get_rank()
    total, x = filled(1), filled(-1)
    if rank == 0:
        work = dist.all_reduce(total, async_op=True)
        dist.recv(x, 1)
        expect(x, 5)
    else:
        dist.send(filled(5), 0)
        work = dist.all_reduce(total, async_op=True)
    work.wait()
    expect(total, 2)


@pytest.mark.native
def test_a_transfer_does_not_wait_for_a_collective_before_it(pair):
    pair.run(across_a_collective)


def ring(in_reverse):
    n, rank = dist.get_world_size(), dist.get_rank()
    x = filled(-1)
    ops = [
        dist.P2POp(dist.isend, filled(rank), (rank + 1) % n),
        dist.P2POp(dist.irecv, x, (rank - 1) % n),
    ]
    if in_reverse and rank % 2:
        ops.reverse()
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    expect(x, (rank - 1) % n)


@pytest.mark.native
@pytest.mark.parametrize("in_reverse", [False, True])
def test_ring_in_a_batch(trio, in_reverse):
    trio.run(ring, in_reverse)


def everyone_to_everyone():
    n, rank = dist.get_world_size(), dist.get_rank()
    got = {r: filled(-1, 1000) for r in range(n) if r != rank}
    ops = []
    for r in got:
        ops.append(dist.P2POp(dist.irecv, got[r], r))
        ops.append(dist.P2POp(dist.isend, filled(10 * rank + r, 1000), r))
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    for r, x in got.items():
        expect(x, 10 * r + rank)


@pytest.mark.native
def test_batch_of_all_pairs(trio):
    trio.run(everyone_to_everyone)


def batch_to_itself():
    """Two transfers of this rank to itself among others, then one that has no receiver."""
    rank = dist.get_rank()
    got = [torch.zeros(3, dtype=torch.int64, device=card()) for _ in range(2)]
    x = filled(-1)
    ops = [
        dist.P2POp(dist.irecv, got[0], rank),
        dist.P2POp(dist.isend, torch.full_like(got[0], 10 + rank), rank),
        dist.P2POp(dist.isend, filled(rank), 1 - rank),
        dist.P2POp(dist.isend, torch.full_like(got[0], 20 + rank), rank),
        dist.P2POp(dist.irecv, x, 1 - rank),
        dist.P2POp(dist.irecv, got[1], rank),
    ]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    expect(x, 1 - rank)
    assert [g.tolist() for g in got] == [[10 + rank] * 3, [20 + rank] * 3]
    for bad in (ops[:1], [ops[0], dist.P2POp(dist.isend, got[1][:2], rank)]):
        try:
            dist.batch_isend_irecv(bad)
        except ValueError as error:
            assert "to itself" in str(error)
        else:
            raise AssertionError("a batch that does not match was not refused")
    dist.all_reduce(x)


@pytest.mark.native
def test_batch_to_itself(pair):
    pair.run(batch_to_itself)


def to_itself():
    for call in (dist.send, dist.recv):
        try:
            call(filled(1, 3), dist.get_rank())
        except ValueError:
            pass
        else:
            raise AssertionError("a transfer to itself was not refused")


@pytest.mark.native
def test_transfer_to_itself_outside_of_a_batch_is_refused(pair):
    pair.run(to_itself)
