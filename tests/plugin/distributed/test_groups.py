# SPDX-License-Identifier: BSD-3-Clause
"""Process groups: how they begin, split and end, and what their works do."""

import datetime
import time

import pytest
import torch
import torch.distributed as dist
from ranks import DEV, card, start_group
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.multiprocessing.reductions import reduce_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore


def sum_of_ranks(group=None):
    x = torch.full((10,), float(dist.get_rank()), device=card())
    dist.all_reduce(x, group=group)
    return x[0].item()


def name_of_backend():
    return dist.get_backend(), dist.get_default_backend_for_device(DEV)


@pytest.mark.native
def test_device_alone_chooses_the_backend(pair):
    assert pair.run(name_of_backend) == [("occl", "occl")] * 2


def begins(rank, size, path, backend, bind):
    start_group(rank, size, path, backend=backend, bind=bind)
    try:
        result = sum_of_ranks()
        if "gloo" in backend:
            x = torch.ones(3)
            dist.all_reduce(x)
            assert x.tolist() == [size] * 3
        return result
    finally:
        dist.destroy_process_group()


@pytest.mark.native
@pytest.mark.parametrize("bind", [False, True])
@pytest.mark.parametrize("backend", ["occl", "cpu:gloo,openreg:occl"])
def test_begins(new_ranks, backend, bind):
    ranks = new_ranks(2)
    for _ in range(2):
        path = ranks.path()
        for rank in range(2):
            ranks.send(rank, begins, rank, 2, path, backend, bind)
        assert [ranks.result(rank) for rank in range(2)] == [1.0, 1.0]


def one_rank():
    group = dist.new_group([dist.get_rank()], use_local_synchronization=True)
    x = torch.ones(4, device=card())
    dist.all_reduce(x, group=group)
    dist.broadcast(x, dist.get_rank(), group=group)
    out = [torch.zeros(4, device=card())]
    dist.all_gather(out, x, group=group)
    dist.barrier(group=group)
    assert out[0].tolist() == [1] * 4
    dist.destroy_process_group(group)


@pytest.mark.native
def test_group_of_one_rank(pair):
    pair.run(one_rank)


def gloo_beside():
    rank, size = dist.get_rank(), dist.get_world_size()
    group = dist.new_group(backend="gloo")
    x = torch.tensor([rank, 1.0])
    dist.all_reduce(x, group=group)
    assert x.tolist() == [sum(range(size)), size]
    dist.barrier(group=group)
    names = [None] * size
    dist.all_gather_object(names, f"rank {rank}", group=group)
    assert names == [f"rank {r}" for r in range(size)]
    for call in (
        lambda x: dist.all_reduce(x, group=group),
        lambda x: dist.send(x, 1 - rank, group=group),
        lambda x: dist.recv(x, 1 - rank, group=group),
    ):
        try:
            call(x.to(card()))
            raise AssertionError("gloo takes a tensor of the card")
        except RuntimeError as error:
            assert "device type openreg" in str(error), error
    dist.destroy_process_group(group)
    assert sum_of_ranks() == sum(range(size))


@pytest.mark.native
def test_gloo_beside(pair):
    pair.run(gloo_beside)


def shared_while_in_use():
    x = torch.ones(1 << 16, device=card())
    if dist.get_rank():
        time.sleep(1)
    work = dist.all_reduce(x, async_op=True)
    if not dist.get_rank():
        with pytest.raises(RuntimeError, match="a collective that nothing has waited for"):
            reduce_tensor(x)
    y = torch.full((1 << 16,), 7.0, device=card())
    work.wait()
    reduce_tensor(x)
    assert x.eq(dist.get_world_size()).all() and y.eq(7).all()


@pytest.mark.native
def test_shared_while_in_use(pair):
    pair.run(shared_while_in_use)


def pretends():
    dist.init_process_group("openreg:fake", rank=2, world_size=8, store=FakeStore())
    try:
        x = torch.ones(4, device="openreg")
        dist.all_reduce(x)
        mesh = init_device_mesh(DEV, (8,))
        part = distribute_tensor(torch.arange(16.0, device="openreg"), mesh, [Shard(0)])
        assert part.to_local().shape == (2,) and (part * 2).full_tensor().shape == (16,)
    finally:
        dist.destroy_process_group()


@pytest.mark.native
def test_fake_group(new_ranks):
    """One process stands for eight ranks, which do not exist."""
    ranks = new_ranks(1)
    ranks.send(0, pretends)
    ranks.result(0)


def subgroup():
    rank = dist.get_rank()
    group = dist.new_group([0, 2])
    if rank != 1:
        assert sum_of_ranks(group) == 2
        x = torch.full((3,), float(rank), device=card())
        dist.broadcast(x, 2, group=group)
        assert x.tolist() == [2] * 3
        dist.destroy_process_group(group)
    assert sum_of_ranks() == 3


@pytest.mark.native
def test_subgroup(trio):
    trio.run(subgroup)


def split():
    group = dist.split_group(split_ranks=[[0, 2], [1]])
    assert sum_of_ranks(group) == (1 if dist.get_rank() == 1 else 2)
    dist.destroy_process_group(group)


@pytest.mark.native
def test_split_group(trio):
    trio.run(split)


def mesh():
    grid = init_device_mesh(DEV, (2, 2), mesh_dim_names=("rows", "columns"))
    rank = dist.get_rank()
    assert sum_of_ranks(grid["rows"].get_group()) == 2 * (rank % 2) + 2
    assert sum_of_ranks(grid["columns"].get_group()) == 4 * (rank // 2) + 1


@pytest.mark.native
def test_mesh_of_two_dimensions(new_ranks):
    ranks = new_ranks(4)
    ranks.start()
    ranks.run(mesh)
    ranks.stop()


def asynchronous():
    rank = dist.get_rank()
    x = torch.full((1_000_000,), float(rank), device=card())
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    assert x.sum().item() == 1e6
    assert work.is_completed() and work.is_success() and work.exception() is None
    assert work.result()[0].data_ptr() == x.data_ptr()
    future = dist.all_reduce(x, async_op=True).get_future()
    doubled = future.then(lambda f: f.value()[0] * 2)
    assert doubled.wait()[0].item() == 4
    result = dist.all_reduce(x, async_op=True).get_future_result()
    assert result.wait() == 0


@pytest.mark.native
def test_asynchronous_work(pair):
    pair.run(asynchronous)


def temporaries():
    """Their memory is not used again before the collective has read it."""
    works, outputs = [], []
    for n in range(20):
        source = torch.full((300_000,), float(n), device=card())
        output = torch.empty(600_000, device=card())
        works.append(dist.all_gather_into_tensor(output, source, async_op=True))
        outputs.append(output)
        del source
        torch.full((300_000,), -1.0, device=card())
    for n, (work, output) in enumerate(zip(works, outputs)):
        work.wait()
        assert bool((output == n).all()), n


@pytest.mark.native
def test_memory_of_dropped_tensors(pair):
    pair.run(temporaries)


def other_streams():
    stream = torch.openreg.Stream()
    x = torch.zeros(1_000_000, device=card())
    stream.wait_stream(torch.openreg.current_stream())
    with torch.openreg.stream(stream):
        x += dist.get_rank() + 1
        work = dist.all_reduce(x, async_op=True)
    work.wait()  # the default stream waits
    assert x.sum().item() == 3e6


@pytest.mark.native
def test_collective_on_another_stream(pair):
    pair.run(other_streams)


def does_not_block():
    rank = dist.get_rank()
    x = torch.ones(1000, device=card())
    if rank == 0:
        dist.all_reduce(x)  # returns although rank 1 has not come
        store = dist.distributed_c10d._get_default_store()
        store.set("has-returned", "1")
        assert x[0].item() == 2
    else:
        store = dist.distributed_c10d._get_default_store()
        store.wait(["has-returned"], datetime.timedelta(seconds=60))
        dist.all_reduce(x)


@pytest.mark.native
def test_host_does_not_wait(pair):
    pair.run(does_not_block)


def barrier_waits():
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() == 0:
        dist.barrier()
        assert store.check(["came"])
    else:
        store.set("came", "1")
        dist.barrier()


@pytest.mark.native
def test_barrier_blocks_the_host(pair):
    pair.run(barrier_waits)


def sequence():
    group = dist.group.WORLD._get_backend(torch.device(DEV))
    before = group._get_sequence_number_for_group()
    x = torch.ones(3, device=card())
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    after = group._get_sequence_number_for_group()
    return after - before, work._get_sequence_number() - before


@pytest.mark.native
def test_sequence_numbers(pair):
    assert pair.run(sequence) == [(1, 1)] * 2


def duration():
    group = dist.group.WORLD._get_backend(torch.device(DEV))
    group._enable_collectives_timing()
    work = dist.all_reduce(torch.ones(1_000_000, device=card()), async_op=True)
    work.wait()
    torch.openreg.synchronize()
    return work._get_duration()


@pytest.mark.native
def test_duration(pair):
    assert all(ms > 0 for ms in pair.run(duration))


def traced():
    import pickle

    from torch._C import _distributed_c10d as c10d

    recorder = c10d.FlightRecorderHook.attach(dist.group.WORLD)
    x = torch.ones(3, 4, device=card())
    dist.all_reduce(x)
    dist.broadcast(x, 0)
    recorder.remove()
    dist.all_reduce(x)
    entries = pickle.loads(c10d._dump_fr_trace())["entries"]
    return [(e["profiling_name"], e["input_sizes"], e["state"]) for e in entries]


@pytest.mark.native
def test_flight_recorder(pair):
    for entries in pair.run(traced):
        names = [name for name, _, _ in entries[-2:]]
        assert names == ["c10d:allreduce", "c10d:broadcast"], entries
        assert list(map(list, entries[-2][1])) == [[3, 4]]


def barrier_before_the_first_tensor(rank, path):
    """Rank 1 has not chosen its card yet when it calls barrier()."""
    dist.init_process_group(
        "occl",
        store=dist.FileStore(path, 2),
        rank=rank,
        world_size=2,
        timeout=datetime.timedelta(seconds=20),
    )
    dist.barrier()
    torch.openreg.set_device(rank % torch.openreg.device_count())
    dist.barrier()
    x = torch.full((5,), float(rank + 1), device="openreg")
    dist.all_reduce(x)
    dist.barrier()
    dist.destroy_process_group()
    return x.tolist()


@pytest.mark.native
def test_barrier_before_the_first_tensor(new_ranks):
    ranks = new_ranks(2)
    path = ranks.path()
    for rank in range(2):
        ranks.send(rank, barrier_before_the_first_tensor, rank, path)
    for rank in range(2):
        assert ranks.result(rank) == [3.0] * 5


def with_options():
    """High priority changes no result; a split has the options of its parent."""
    Options, Base = dist.ProcessGroupOCCL.Options, torch._C._distributed_c10d.Backend.Options
    options = Options(is_high_priority_stream=True)
    assert isinstance(options, Base) and options.backend == "occl"
    assert not Options().is_high_priority_stream
    hour = datetime.timedelta(hours=1)
    group = dist.new_group(pg_options=options, timeout=hour)
    assert sum_of_ranks(group) == 1
    backend = group._get_backend(torch.device(DEV))
    of_group = backend.options
    assert type(of_group) is Options and of_group.is_high_priority_stream
    assert of_group._timeout == hour and of_group.global_ranks_in_group == [0, 1]
    assert of_group.group_name == group.group_name
    assert options.group_name == "" and options._timeout != hour  # the caller's object stays
    split = dist.split_group(group, split_ranks=[[0, 1]])
    assert sum_of_ranks(split) == 1
    assert split._get_backend(torch.device(DEV)).options.is_high_priority_stream
    split = dist.split_group(group, split_ranks=[[0, 1]], pg_options=Options())
    assert sum_of_ranks(split) == 1
    assert not split._get_backend(torch.device(DEV)).options.is_high_priority_stream
    for wrong in (Base("occl"), dist.ProcessGroupGloo._Options(), "fast"):
        with pytest.raises(TypeError, match="ProcessGroupOCCL.Options|incompatible"):
            dist.new_group(pg_options=wrong)
        with pytest.raises(TypeError, match="ProcessGroupOCCL.Options|incompatible"):
            dist.split_group(group, split_ranks=[[0, 1]], pg_options=wrong)
    dist.destroy_process_group(group)


@pytest.mark.native
def test_options(pair):
    pair.run(with_options)


def of_class(rank, path):
    """The class itself makes a group, as ProcessGroupNCCL does."""
    group = dist.ProcessGroupOCCL(
        dist.FileStore(path, 2), rank, 2, dist.ProcessGroupOCCL.Options()
    )
    x = torch.full((10,), float(rank), device=f"{DEV}:{rank % torch.openreg.device_count()}")
    group.allreduce([x]).wait()
    with pytest.raises(TypeError):
        dist.ProcessGroupOCCL(dist.FileStore(path, 2), rank, 2, None)
    group.shutdown()
    return x.tolist()


@pytest.mark.native
def test_group_of_the_class(new_ranks):
    ranks = new_ranks(2)
    path = ranks.path()
    for rank in range(2):
        ranks.send(rank, of_class, rank, path)
    for rank in range(2):
        assert ranks.result(rank) == [1.0] * 10
