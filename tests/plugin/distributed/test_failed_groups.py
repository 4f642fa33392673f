# SPDX-License-Identifier: BSD-3-Clause
"""A wrong argument in a coalesced group, or an exception in it, leaves the process group as it
was. A tensor that the program drops keeps its memory until its collective is done."""

import threading
import time

import pytest
import torch
import torch.distributed as dist
from ranks import card

pytestmark = pytest.mark.native


def filled(number, size=8):
    return torch.full((size,), float(number), device=card())


def expect_error(kind, words, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except kind as error:
        assert words in str(error), str(error)
    else:
        raise AssertionError(f"no {kind.__name__}")


def works_as_usual():
    rank = dist.get_rank()
    x = filled(-1)
    if rank == 0:
        dist.send(filled(7), 1)
    else:
        dist.recv(x, 0)
        assert x.eq(7).all()
    swap = [dist.P2POp(dist.irecv, x, 1 - rank), dist.P2POp(dist.isend, filled(rank), 1 - rank)]
    for work in dist.batch_isend_irecv(swap):
        work.wait()
    assert x.eq(1 - rank).all()
    x = filled(rank)
    dist.all_reduce(x)
    assert x.eq(1).all()


def wrong_tensor_in_a_batch():
    other = 1 - dist.get_rank()
    x, bad = filled(-1, 16), filled(0, 16).view(4, 4).t()
    ops = [dist.P2POp(dist.irecv, x, other), dist.P2POp(dist.isend, bad, other)]
    expect_error(ValueError, "not contiguous", dist.batch_isend_irecv, ops)
    works_as_usual()


def test_wrong_tensor_in_a_batch(pair):
    pair.run(wrong_tensor_in_a_batch)


def exception_of_the_program():
    other = 1 - dist.get_rank()
    group = dist.group.WORLD
    try:
        with dist._coalescing_manager(device=card()):
            lost = dist.isend(filled(1), other)
            raise KeyError
    except KeyError:
        pass
    assert not lost.is_completed()
    expect_error(RuntimeError, "has not ended", lost.wait)
    # Core counts the transfer as part of the group, too.
    expect_error(RuntimeError, "has not ended", dist.send, filled(1), other)
    group._start_coalescing(card())
    works = [dist.irecv(filled(0), other), dist.isend(filled(2), other)]
    group._end_coalescing(card()).wait()
    for work in works:
        work.wait()
    torch.openreg.synchronize()
    assert all(work.is_completed() for work in works)
    expect_error(RuntimeError, "the group of this transfer has failed", lost.wait)
    works_as_usual()


def test_exception_of_the_program(pair):
    pair.run(exception_of_the_program)


def wrong_lists():
    here = card()
    there = torch.device("openreg", (here.index + 1) % torch.openreg.device_count())
    ones, more = torch.ones(3, device=here), torch.ones(3, device=there)
    group = dist.group.WORLD
    if there != here:  # in a VM the ranks may share one card
        for call, args in (
            (group.allreduce_coalesced, ([ones, more],)),
            (group.all_gather_single_coalesced,
             ([ones.repeat(2), more.repeat(2)], [ones, more])),
            (group.reduce_scatter_single_coalesced,
             ([ones, more], [ones.repeat(2), more.repeat(2)])),
        ):
            expect_error(ValueError, "all must be on one device", call, *args)
    ints = torch.full((3,), 6 + dist.get_rank(), dtype=torch.int32, device=here)
    opts = dist.AllreduceCoalescedOptions()
    for op, bad, words in (
        (dist.ReduceOp.BAND, ones, "no AND"),
        (dist.ReduceOp.AVG, ones.bool(), "no average"),
        (dist._make_nccl_premul_sum(0.5), ones.int(), "is no integer"),
    ):
        opts.reduceOp = op
        good = ones.clone() if op != dist.ReduceOp.BAND else ints
        expect_error(ValueError, words, group.allreduce_coalesced, [good, bad], opts)
    torch.openreg.synchronize()
    assert ints.tolist() == [6 + dist.get_rank()] * 3 and ones.tolist() == [1] * 3
    works_as_usual()


def test_wrong_lists(pair):
    pair.run(wrong_lists)


def aborted_while_it_connects():
    def connect():
        try:
            dist.all_reduce(filled(1))
        except dist.DistBackendError as error:
            errors.append(str(error))

    errors = []
    thread = threading.Thread(target=connect)
    thread.start()
    time.sleep(1)  # it waits for rank 1, which does not come
    dist.group.WORLD.abort()
    assert thread.is_alive()
    thread.join()
    assert "aborted" in errors[0] or "has not come" in errors[0], errors


def test_abort_while_another_thread_connects(new_ranks):
    ranks = new_ranks(2)
    ranks.start(bind=False, timeout=10)
    ranks.send(0, aborted_while_it_connects)
    ranks.result(0)


def dropped_tensors():
    """The stream that waits is not the one that the tensor's memory belongs to."""
    size = 1 << 18
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() == 1:
        store.wait(["looked"])
        dist.all_reduce(filled(1, size))
        return
    x = filled(1, size)
    address = x.data_ptr()
    work = dist.all_reduce(x, async_op=True)
    del x
    with torch.openreg.stream(torch.openreg.Stream()):
        work.wait()
    del work
    new = [torch.empty(size, device=card()) for _ in range(8)]
    taken = address in {t.data_ptr() for t in new}
    store.set("looked", "")
    assert not taken
    torch.openreg.synchronize()


def test_dropped_tensors(new_ranks):
    ranks = new_ranks(2)
    ranks.start()
    ranks.run(dropped_tensors)
    ranks.stop()
