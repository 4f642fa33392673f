# SPDX-License-Identifier: BSD-3-Clause
"""When a rank ends, is late, or calls something else, the others raise an error that names
the rank and the collective. Then a new group works."""

import os
import re
import signal
import time

import pytest
import torch
import torch.distributed as dist
from ranks import DEV, card, start_group

TIMEOUT = 3  # seconds; those of the tests that need one


def all_reduce(size=1000, dtype=torch.float32):
    x = torch.ones(size, dtype=dtype, device=card())
    dist.all_reduce(x)
    return x[0].item()


def all_reduce_until_it_fails():
    while True:
        all_reduce()


def remake(rank, size, path):
    dist.destroy_process_group()
    start_group(rank, size, path)
    result = all_reduce()
    dist.destroy_process_group()
    return result


def remakes(ranks, alive):
    path = ranks.path()
    for rank, index in enumerate(alive):
        ranks.send(index, remake, rank, len(alive), path)
    for index in alive:
        assert ranks.result(index) == len(alive)


def fails(ranks, rank, *words):
    done, value = ranks.outcome(rank)
    assert not done, f"rank {rank} raised nothing"
    kind, text, trace = value
    assert kind == "DistBackendError", trace
    for word in words:
        assert re.search(word, text), text
    return text


@pytest.mark.native
def test_killed_rank(new_ranks):
    ranks = new_ranks(3)
    ranks.start()
    for rank in range(3):
        ranks.send(rank, all_reduce_until_it_fails)
    time.sleep(1)
    ranks.kill(2)
    for rank in (0, 1):
        fails(ranks, rank, "rank 2 has ended", "all_reduce")
    remakes(ranks, [0, 1])


@pytest.mark.native
def test_late_rank(new_ranks):
    ranks = new_ranks(2)
    ranks.start(timeout=TIMEOUT)
    ranks.run(all_reduce)
    ranks.send(0, all_reduce)
    text = fails(
        ranks, 0, r"caught collective operation timeout after \d+ ms: rank 1 is late", "all_reduce"
    )
    assert float(re.search(r"waited ([\d.]+) s", text)[1]) >= TIMEOUT
    # The data of rank 0 has come before it gave up, so that one all_reduce still works.
    ranks.send(1, all_reduce_until_it_fails)
    fails(ranks, 1, "rank")
    remakes(ranks, [0, 1])


@pytest.mark.native
def test_stopped_rank(new_ranks):
    ranks = new_ranks(2)
    ranks.start(timeout=TIMEOUT)
    ranks.run(all_reduce)
    os.kill(ranks.processes[1].pid, signal.SIGSTOP)
    try:
        ranks.send(0, all_reduce)
        fails(ranks, 0, "rank 1 is late", "all_reduce")
    finally:
        os.kill(ranks.processes[1].pid, signal.SIGCONT)


def of_own_size(sizes):
    all_reduce(sizes[dist.get_rank()])  # reads the result, which is not there


def of_own_dtype():
    all_reduce(1000, (torch.float32, torch.int32)[dist.get_rank()])


# A root needs no data of the others: it finds out at its next call.
def of_own_root():
    dist.broadcast(torch.ones(10, device=card()), dist.get_rank())
    dist.barrier()


def of_own_kind():
    x = torch.ones(10, device=card())
    if dist.get_rank():
        dist.broadcast(x, 0)
    else:
        dist.all_reduce(x)
    x.tolist()


CALLS = {
    "small sizes": (of_own_size, ([10, 20],), "10 f32.*20 f32|20 f32.*10 f32"),
    "large sizes": (of_own_size, ([3_000_000, 1000],), "3000000"),
    "dtypes": (of_own_dtype, (), "f32.*i32|i32.*f32"),
    "roots": (of_own_root, (), "root 0.*root 1|root 1.*root 0"),
    "kinds": (of_own_kind, (), "all_reduce.*broadcast|broadcast.*all_reduce"),
}


@pytest.mark.native
@pytest.mark.parametrize("what", CALLS)
def test_ranks_that_differ(processes, what):
    function, args, words = CALLS[what]
    ranks = processes(2)
    ranks.start(timeout=TIMEOUT)
    for failure in ranks.failures(function, *args):
        assert failure.kind == "DistBackendError", failure
        assert re.search(words, failure.text) and "rank 1" in failure.text, failure
    remakes(ranks, [0, 1])


def join(rank, size, path, bind):
    begin = time.monotonic()
    try:
        start_group(rank, size, path, timeout=TIMEOUT, bind=bind)
        all_reduce()
    finally:
        assert time.monotonic() - begin < 20 * TIMEOUT
        if dist.is_initialized():
            dist.destroy_process_group()


@pytest.mark.native
@pytest.mark.parametrize("bind", [False, True])
def test_missing_rank(new_ranks, bind):
    ranks = new_ranks(1)
    ranks.send(0, join, 0, 2, ranks.path(), bind)
    fails(ranks, 0, "rank 1 of 2 has not come")


def aborted():
    x = torch.ones(10, device=card())
    dist.all_reduce(x)
    x.tolist()
    if dist.get_rank() == 0:
        dist.all_reduce(x)  # rank 1 never comes
        dist.distributed_c10d._abort_process_group()
        assert not dist.is_initialized()
        x.tolist()  # the stream runs on
    else:
        dist.destroy_process_group()


@pytest.mark.native
def test_abort_lets_the_streams_run(processes):
    ranks = processes(2)
    ranks.start()
    ranks.run(aborted)


def after_abort():
    group = dist.group.WORLD
    group.abort()
    x = torch.ones(10, device=card())
    try:
        dist.all_reduce(x)
    except dist.DistBackendError as error:
        assert "create a new one" in str(error)
    else:
        raise AssertionError("an aborted group took a collective")
    assert x.tolist() == [1] * 10
    dist.destroy_process_group()


@pytest.mark.native
def test_use_after_abort(processes):
    ranks = processes(2)
    ranks.start()
    ranks.run(after_abort)


def asynchronous_failure():
    if dist.get_rank() == 1:
        os._exit(0)
    x = torch.ones(10, device=card())
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    y = x + 1
    try:
        y.tolist()
    except dist.DistBackendError as error:
        assert "rank 1 has ended" in str(error)
    else:
        raise AssertionError("the value of a broken collective was read")
    assert work.is_completed() and not work.is_success()
    assert "rank 1" in str(work.exception())
    assert work.get_future_result().wait() != 0


@pytest.mark.native
def test_reading_the_result_of_a_broken_collective(new_ranks):
    ranks = new_ranks(2)
    ranks.start()
    for rank in range(2):
        ranks.send(rank, asynchronous_failure)
    ranks.result(0)


def times_out_in_wait():
    if dist.get_rank() == 0:
        x = torch.ones(10, device=card())
        import datetime

        dist.all_reduce(x, async_op=True).wait(datetime.timedelta(seconds=1))


@pytest.mark.native
def test_timeout_of_wait(processes):
    ranks = processes(2)
    ranks.start()
    for rank in range(2):
        ranks.send(rank, times_out_in_wait)
    fails(ranks, 0, "rank 1 is late", "all_reduce")
    ranks.result(1)
    remakes(ranks, [0, 1])


def in_a_fork():
    x = torch.ones(10, device=card())
    dist.all_reduce(x)
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            dist.all_reduce(x)
            os.write(write, b"no error")
        except Exception as error:
            os.write(write, str(error).encode()[:2000])
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        assert "fork" in file.read()
    os.wait()
    dist.all_reduce(x)
    assert x[0].item() == 4


@pytest.mark.native
def test_forked_child(pair):
    pair.run(in_a_fork)


def raised_by(call):
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("no error")


def bad_tensors():
    n, rank = dist.get_world_size(), dist.get_rank()
    x = torch.ones(4, 6, device=card())
    half = x.half()
    gather = dist.all_gather_into_tensor
    cases = {
        "not dense": lambda: dist.all_reduce(x[:, ::2]),
        "not contiguous": lambda: gather(torch.empty(n * 6, 4, device=card()), x.t()),
        "24 elements|times": lambda: gather(torch.empty(7, device=card()), x),
        "one dtype": lambda: gather(torch.empty(4 * n, 6, device=card()), half),
        "size of this rank": lambda: dist.all_gather(
            [torch.empty(5, device=card()) for _ in range(n)], x
        ),
        "each of the 2": lambda: dist.scatter(x, [x] if rank == 0 else None, 0)
        if rank == 0
        else dist.reduce_scatter(x, [x]),
        "sum up to": lambda: dist.all_to_all_single(
            torch.empty_like(x), x, [1] * n, [1] * n
        ),
        "Sparse": lambda: dist.all_reduce(x.cpu().to_sparse().to(card())),
    }
    for words, call in cases.items():
        error = raised_by(call)
        assert re.search(words, str(error)), (words, error)
    dist.all_reduce(x)
    assert x[0, 0].item() == n


@pytest.mark.native
def test_bad_tensors_are_refused(pair):
    pair.run(bad_tensors)


def wrong_device():
    error = raised_by(lambda: dist.all_reduce(torch.ones(3)))
    assert "cpu" in str(error)
    if torch.openreg.device_count() > 1:
        other = (card().index + 1) % 2
        error = raised_by(lambda: dist.all_reduce(torch.ones(3, device=f"{DEV}:{other}")))
        assert "is bound to" in str(error)


@pytest.mark.native
def test_wrong_device_is_refused(pair):
    pair.run(wrong_device)


def captured():
    x = torch.ones(4, device=card())
    dist.all_reduce(x)
    graph = torch.openreg.Graph()

    def capture():
        with torch.openreg.graph(graph):
            dist.all_reduce(x)

    assert "graph" in str(raised_by(capture))
    torch.openreg.synchronize()
    dist.all_reduce(x)
    assert x[0].item() == 4


@pytest.mark.native
def test_capture_is_refused(pair):
    pair.run(captured)


def lost_store(rank, path):
    class Lost(dist.Store):
        def wait(self, *args):
            raise RuntimeError("the store is gone")

        def get(self, key):
            raise RuntimeError("the store is gone")

        def set(self, key, value):
            raise RuntimeError("the store is gone")

    lost = Lost()
    index = torch.openreg.current_device()
    dist.init_process_group("occl", store=dist.FileStore(path, 1), rank=0, world_size=1)
    dist.destroy_process_group()
    dist.init_process_group("occl", store=lost, rank=rank, world_size=2)
    try:
        error = raised_by(lambda: dist.all_reduce(torch.ones(3, device=f"{DEV}:{index}")))
    finally:
        dist.destroy_process_group()
    assert "the store is gone" in str(error), error


@pytest.mark.native
def test_lost_store(new_ranks):
    ranks = new_ranks(1)
    ranks.send(0, lost_store, 0, ranks.path())
    ranks.result(0)
