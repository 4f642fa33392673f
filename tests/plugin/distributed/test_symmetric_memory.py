# SPDX-License-Identifier: BSD-3-Clause
"""Symmetric memory: tensors of all ranks that each rank reads and writes."""

import datetime
import gc
import os
import threading
import time

import packets
import pytest
import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem
from ranks import DEV, Failure, card
from torch_openreg import _C

OPS = torch.ops.symm_mem
SUMS = [(torch.float32, 1), (torch.float32, 1001), (torch.bfloat16, 1 << 12), (torch.int64, 77)]


def meet(*shape, dtype=torch.float32, group=None):
    """A new symmetric tensor of zeros, and its handle."""
    tensor = symm_mem.empty(*shape, dtype=dtype, device=card()).zero_()
    handle = symm_mem.rendezvous(tensor, group or dist.group.WORLD)
    handle.barrier()
    return tensor, handle


def others():
    return [r for r in range(dist.get_world_size()) if r != dist.get_rank()]


def name():
    return dist.group.WORLD.group_name


def reads_and_writes():
    rank, size = dist.get_rank(), dist.get_world_size()
    mine, handle = meet(4, 25)
    assert (handle.rank, handle.world_size, handle.buffer_size) == (rank, size, 400)
    assert handle.device == card() and handle.offset == 0
    assert handle.buffer_ptrs[rank] == mine.data_ptr()
    assert symm_mem.is_symm_mem_tensor(mine)
    assert symm_mem.get_backend(card()) == "OPENREG"
    assert symm_mem.rendezvous(mine, dist.group.WORLD).buffer_ptrs == handle.buffer_ptrs
    mine.copy_(torch.arange(100.0).view(4, 25) + 1000 * rank)
    handle.barrier()
    for r in range(size):
        expected = torch.arange(100.0).view(4, 25) + 1000 * r
        theirs = handle.get_buffer(r, (4, 25), torch.float32)
        assert theirs.device == card()
        assert torch.equal(theirs.cpu(), expected)
        assert torch.equal((theirs * 2 + mine).cpu(), expected * 2 + mine.cpu())
        assert torch.equal(theirs.t().contiguous().cpu(), expected.t())
        assert torch.equal(theirs.sum(1).cpu(), expected.sum(1))
        assert theirs[3, 24].item() == expected[3, 24]
        assert torch.equal(handle.get_remote_tensor(r, (4, 25), torch.float32).cpu(), expected)
        part = handle.get_buffer(r, (2, 5), torch.float32, storage_offset=90)
        assert torch.equal(part.cpu(), expected.flatten()[90:].view(2, 5))
        assert torch.equal(handle.get_buffer(r, (3,), torch.int32).view(torch.float32).cpu(),
                           expected.flatten()[:3])
    handle.barrier()
    for r in others():  # each rank writes a row of each other
        handle.get_buffer(r, (25,), torch.float32, 25 * rank).copy_(torch.full((25,), 7.0 + rank))
        handle.get_buffer(r, (), torch.float32, 75 + rank).fill_(9.0 + rank)
    handle.barrier()
    seen = mine.cpu()
    for r in others():
        assert seen[r].eq(7.0 + r).all() and seen[3, r] == 9.0 + r
    handle.barrier()


@pytest.mark.parametrize("ranks", ["pair", "trio"])
def test_reads_and_writes(ranks, request):
    request.getfixturevalue(ranks).run(reads_and_writes)


def signals():
    """Each rank hands a number on to the next one, on two channels, and back on a third."""
    rank, size = dist.get_rank(), dist.get_world_size()
    mine, handle = meet(2, dtype=torch.int64)
    following, before = (rank + 1) % size, (rank - 1) % size
    for step in range(50):
        for channel in 0, 1:
            to = handle.get_buffer(following, (1,), torch.int64, channel)
            to.fill_(step * 10 + rank)
            handle.put_signal(following, channel)
        seen = []
        for channel in 1, 0:
            handle.wait_signal(before, channel)
            seen.append(mine[channel].clone())
        assert [x.item() for x in seen] == [step * 10 + before] * 2
        handle.put_signal(before, 2)
        handle.wait_signal(following, 2)
    handle.put_signal(rank)  # to itself
    handle.wait_signal(rank)
    torch.openreg.synchronize()


def pads():
    _, handle = meet(1)
    for r in range(dist.get_world_size()):
        pad = handle.get_signal_pad(r)
        assert (pad.dtype, pad.numel()) == (torch.uint32, handle.signal_pad_size // 4)
        assert pad.eq(0).all()  # the signals of the handle are in other memory
    handle.barrier()
    for r in others():
        handle.get_signal_pad(r, (2, 2), torch.int32)[0, 1] = 5
    handle.barrier()
    assert handle.get_signal_pad(dist.get_rank(), (4,), torch.int32).tolist() == [0, 5, 0, 0]
    t = symm_mem.empty(0, device=card())
    assert symm_mem.rendezvous(t, dist.group.WORLD).buffer_size == 0
    handle.barrier()


@pytest.mark.parametrize("case", [signals, pads])
@pytest.mark.parametrize("ranks", ["pair", "trio"])
def test_signals(ranks, case, request):
    request.getfixturevalue(ranks).run(case)


def two_groups():
    """The signals of one group do not end the waits of another one."""
    rank = dist.get_rank()
    mine, world = meet(3)
    ends = dist.new_group([0, 2])
    if rank != 1:
        handle = symm_mem.rendezvous(mine, ends)
        assert (handle.rank, handle.world_size) == (rank // 2, 2)
        handle.get_buffer(1 - rank // 2, (1,), torch.float32, rank).fill_(rank + 1)
        handle.barrier()
        with pytest.raises(RuntimeError, match="rank 2|rank 0"):
            handle.wait_signal(1 - rank // 2, timeout_ms=300)
            torch.openreg.synchronize()
        torch.openreg.reset()
    world.barrier()
    assert mine.tolist() == {0: [0, 0, 3], 1: [0, 0, 0], 2: [1, 0, 0]}[rank]
    world.barrier()


@pytest.mark.native
def test_two_groups(trio):
    trio.run(two_groups)


def operators(dtype, numel):
    rank, size = dist.get_rank(), dist.get_world_size()
    numbers = (torch.arange(numel) % 13 + rank).to(dtype)
    total = sum((torch.arange(numel) % 13 + r) for r in range(size)).to(dtype)
    mine, handle = meet(numel + 8, dtype=dtype)
    for x in mine[:numel], mine[8:]:  # the tensor may begin within its memory
        x.copy_(numbers)
        assert torch.equal(OPS.one_shot_all_reduce(x, "sum", name()).cpu(), total)
        out = torch.empty(numel, dtype=dtype, device=card())
        assert OPS.one_shot_all_reduce_out(x, "sum", name(), out) is out
        assert torch.equal(out.cpu(), total)
        assert torch.equal(x.cpu(), numbers)
        assert OPS.two_shot_all_reduce_(x, "sum", name()).data_ptr() == x.data_ptr()
        assert torch.equal(x.cpu(), total)
        x.copy_(numbers)
        assert torch.equal(OPS.two_shot_all_reduce_out(x, "sum", name(), out).cpu(), total)
        x.zero_()
        local = numbers.to(card())
        assert torch.equal(OPS.one_shot_all_reduce_copy(mine, local, "sum", name()).cpu(), total)


@pytest.mark.parametrize("dtype, numel", SUMS)
@pytest.mark.parametrize("ranks", ["pair", "trio"])
def test_operators(ranks, dtype, numel, request):
    request.getfixturevalue(ranks).run(operators, dtype, numel)


def rounds_once(dtype):
    """Sums are computed in 32 bits, and are the same on all ranks."""
    rank, size = dist.get_rank(), dist.get_world_size()
    numbers = [
        torch.randn(4099, generator=torch.Generator().manual_seed(r)).to(dtype)
        for r in range(size)
    ]
    total = sum(x.float() for x in numbers).to(dtype)
    mine, _ = meet(4099, dtype=dtype)
    for op in OPS.one_shot_all_reduce, OPS.two_shot_all_reduce_:
        mine.copy_(numbers[rank])
        found = op(mine, "sum", name()).clone()
        assert torch.equal(found.cpu(), total)
        every = [torch.empty_like(found) for _ in range(size)]
        dist.all_gather(every, found)
        assert all(torch.equal(x, found) for x in every)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sums_are_rounded_once(pair, dtype):
    pair.run(rounds_once, dtype)


def large():
    """More than a packet reads of other cards at once."""
    numel = (5 << 20) + 3
    mine, handle = meet(numel)
    mine.copy_(torch.arange(numel, dtype=torch.float32))
    expected = torch.arange(numel, dtype=torch.float32) * dist.get_world_size()
    assert torch.equal(OPS.one_shot_all_reduce(mine, "sum", name()).cpu(), expected)
    theirs = handle.get_buffer(others()[0], (numel,), torch.float32)
    assert torch.equal(theirs.clone(), mine)
    with pytest.raises(RuntimeError, match="reads at most 4 MiB of other cards' memory"):
        theirs + 1
    handle.barrier()
    OPS.two_shot_all_reduce_(mine, "sum", name())
    assert torch.equal(mine.cpu(), expected)
    handle.barrier()


@pytest.mark.native
def test_large(pair):
    pair.run(large)


def scatters():
    rank, size = dist.get_rank(), dist.get_world_size()
    whole = torch.arange(60.0 * size).view(5 * size, 12) * (rank + 1)
    times = size * (size + 1) // 2
    mine, _ = meet(5 * size, 12)
    mine.copy_(whole)
    total = torch.arange(60.0 * size).view(5 * size, 12) * times
    for last, split in (False, total.chunk(size)[rank]), (True, total.chunk(size, -1)[rank]):
        out = torch.empty(split.shape, device=card())
        OPS.reduce_scatter_out(mine, name(), last, out)
        assert torch.equal(out.cpu(), split)
    row = torch.arange(60.0, device=card()).view(5, 12) + rank
    for x in row, symm_mem.empty(5, 12, device=card()).copy_(row):
        symmetric = symm_mem.is_symm_mem_tensor(x)
        if symmetric:
            symm_mem.rendezvous(x, dist.group.WORLD)
        out = OPS._low_contention_all_gather(x, name())
        out = torch.ops._c10d_functional.wait_tensor(out)
        expected = torch.cat([torch.arange(60.0).view(5, 12) + r for r in range(size)])
        assert torch.equal(out.cpu(), expected), symmetric
    out = OPS._low_contention_reduce_scatter(mine, "avg", name())
    out = torch.ops._c10d_functional.wait_tensor(out)
    torch.testing.assert_close(out.cpu(), total.chunk(size)[rank] / size)


def products():
    rank, size = dist.get_rank(), dist.get_world_size()
    g = torch.Generator().manual_seed(3)
    a, b = torch.randn(8 * size, 16, generator=g), torch.randn(16, 8, generator=g)
    shard = a.chunk(size)[rank].to(card())
    gathered, (product,) = OPS.fused_all_gather_matmul(shard, [b.to(card())], 0, name())
    assert torch.equal(gathered.cpu(), a)
    torch.testing.assert_close(product.cpu(), a @ b)
    part = OPS.fused_matmul_reduce_scatter(a.to(card()), b.to(card()), "sum", 0, name())
    torch.testing.assert_close(part.cpu(), (a @ b).chunk(size)[rank] * size)
    found = OPS.get_remote_tensors(meet(4)[0].fill_(rank), name())
    dist.barrier()
    assert [x[0].item() for x in found] == list(range(size))
    dist.barrier()


@pytest.mark.parametrize("case", [scatters, products])
def test_core_operators(pair, case):
    pair.run(case)


def refused():
    mine, handle = meet(8, 8)
    theirs = handle.get_buffer(others()[0], (8, 8), torch.float32)
    plain = torch.ones(8, 8, device=card())
    graph = torch.openreg.Graph()

    def capture():
        with torch.openreg.graph(graph):
            handle.barrier()

    assert symm_mem.rendezvous(plain, dist.group.WORLD) is None  # core wants no error
    for call, words in (
        (lambda: theirs @ plain, "mm: this operator cannot use the memory of another card"),
        (lambda: torch.cumsum(theirs, 0), "cannot use the memory of another card"),
        (lambda: theirs.add_(1), "add.*: only copies write the memory of another card"),
        (lambda: torch.exp(plain, out=theirs), "only copies write"),
        (lambda: OPS.one_shot_all_reduce(plain, "sum", name()), "not in symmetric memory"),
        (lambda: OPS.one_shot_all_reduce(mine, "max", name()), "only sums"),
        (lambda: OPS.two_shot_all_reduce_(mine.t(), "sum", name()), "contiguous"),
        (lambda: OPS.one_shot_all_reduce_out(mine, "sum", name(), plain[0]), "64 elements"),
        (lambda: OPS.multimem_all_reduce_(mine, "sum", name()), "multicast, which openreg"),
        (lambda: OPS.all_to_all_vdev(mine, mine, mine, mine, name()), "not implemented"),
        (lambda: OPS.reduce_scatter_out(mine[:3], name(), False, plain[0]), "size 3 cannot be divided"),
        (lambda: handle.barrier(channel=1 << 20), "channel 1048576 does not exist"),
        (lambda: handle.barrier(channel=-1), "channel -1 does not exist"),
        (lambda: handle.put_signal(2), "rank"),
        (lambda: handle.wait_signal(-1), "rank"),
        (lambda: handle.get_buffer(2, (1,), torch.float32), "rank"),
        (lambda: handle.get_buffer(0, (65,), torch.float32), "64|256|260"),
        (lambda: handle.buffer_ptrs_dev, "Use buffer_ptrs"),
        (lambda: symm_mem.rendezvous(mine, "none"), "none"),
        (lambda: OPS.one_shot_all_reduce_out(mine, "sum", name(), mine), "of its own"),
        (lambda: dist.all_reduce(theirs), "memory of another card"),
        (capture, "cannot be part of the graph"),
    ):
        with pytest.raises((RuntimeError, ValueError, NotImplementedError), match=words):
            call()
    assert not handle.has_multicast_support(torch._C._autograd.DeviceType.PrivateUse1, 0)
    handle.barrier()  # nothing of this has stopped the stream
    torch.openreg.synchronize()


def other_shape():
    tensor = symm_mem.empty(4 + dist.get_rank(), device=card())
    with pytest.raises(ValueError, match="rank 0 has 16 bytes, and that of rank 1 has 20"):
        symm_mem.rendezvous(tensor, dist.group.WORLD)
    meet(4)


def other_device():
    if torch.openreg.device_count() < 2:
        return
    tensor = symm_mem.empty(4, device=f"{DEV}:{others()[0]}")
    with pytest.raises(RuntimeError, match="bound to"):
        symm_mem.rendezvous(tensor, dist.group.WORLD)
    meet(4)


@pytest.mark.parametrize("case", [refused, other_shape, other_device])
def test_refused(pair, case):
    pair.run(case)


def outlives():
    """The other rank's memory stays until this rank has no handle any more."""
    rank = dist.get_rank()
    mine, handle = meet(1 << 16)
    mine.fill_(rank + 1)
    handle.barrier()
    if rank == 1:
        torch.openreg.synchronize()
        before = torch.openreg.memory_allocated()
        del mine, handle
        gc.collect()
        torch.openreg.empty_cache()
        assert torch.openreg.memory_allocated() <= before - (1 << 18)
    dist.barrier()
    if rank == 0:
        assert handle.get_buffer(1, (1 << 16,), torch.float32).eq(2).all()
        del mine  # the handle keeps this rank's own memory
        assert handle.get_buffer(0, (1 << 16,), torch.float32).eq(1).all()
    dist.barrier()


def makes_room():
    """A freed tensor does not keep its memory from other allocations."""
    numel = torch.openreg.mem_get_info()[0] // 4 * 5 // 8
    for _ in range(3):
        mine, handle = meet(numel)
        handle.barrier()
        del mine, handle
        gc.collect()
        torch.empty(numel, device=card())
        torch.openreg.empty_cache()
        dist.barrier()


def few_descriptors():
    """The tensors of a group share the descriptors of the ranks' processes."""

    def processes():
        count = 0
        for fd in os.listdir("/proc/self/fd"):
            try:
                count += "pidfd" in os.readlink(f"/proc/self/fd/{fd}")
            except FileNotFoundError:
                pass  # it was that of the list
        return count

    first = meet(100)
    before = processes()
    assert before >= 1
    more = [meet(100) for _ in range(4)]
    assert processes() == before
    del first, more


def many_groups():
    """A tensor does not keep the streams of groups that are destroyed."""
    tensor, _ = meet(100)
    for _ in range(40):
        group = dist.new_group()
        handle = symm_mem.rendezvous(tensor, group)
        handle.barrier()
        torch.openreg.synchronize()
        dist.destroy_process_group(group)
    handle.get_buffer(handle.rank, (100,), torch.float32).fill_(1)
    assert tensor.eq(1).all()


def own_memory_by_another_name():
    tensor, handle = meet(100)
    mine = handle.get_buffer(dist.get_rank(), (100,), torch.float32)
    with pytest.raises(ValueError, match="a tensor of its own"):
        OPS.one_shot_all_reduce_out(tensor, "sum", name(), mine)
    handle.barrier()


def rounds():
    """No descriptor and no memory is left of a tensor."""

    def use(count):
        for _ in range(count):
            mine, handle = meet(1 << 20)
            OPS.one_shot_all_reduce(mine, "sum", name())
            del mine, handle
        gc.collect()
        torch.openreg.synchronize()
        dist.barrier()

    def left():
        torch.openreg.empty_cache()
        return len(os.listdir("/proc/self/fd")), torch.openreg.mem_get_info()[0]

    use(1)
    dist.barrier()
    fds, free = left()
    dist.barrier()
    for _ in range(3):
        use(3)
        end = time.monotonic() + 30
        now = left()
        # Memory of an earlier test may be freed after the first look.
        while (now[0] > fds or now[1] < free) and time.monotonic() < end:
            time.sleep(0.05)
            now = left()
        assert now[0] <= fds and now[1] >= free, (now, fds, free)
        dist.barrier()


# Ranks that share a card of a VM have no room for this.
@pytest.mark.native
def test_makes_room(pair):
    pair.run(makes_room)


@pytest.mark.parametrize("case", [outlives, few_descriptors, many_groups, own_memory_by_another_name, rounds])
def test_lifetime(pair, case):
    pair.run(case)


def dropped():
    """A reset drops a signal behind a fault: the ranks have counted different signals."""
    _, handle = meet(4)
    torch.openreg.synchronize()
    dist.barrier()
    if dist.get_rank() == 0:
        with pytest.raises(RuntimeError, match="has faulted|FILL"):
            _C._launch_raw(packets.fill(packets.NO_SEGMENT, 4), card().index)
            handle.put_signal(1, channel=5)
            torch.openreg.synchronize()
        torch.openreg.reset()
        with pytest.raises(RuntimeError, match="Allocate a new symmetric tensor on all ranks"):
            handle.put_signal(1, channel=5)
    dist.barrier()
    meet(4)


def test_dropped_signal(pair):
    pair.run(dropped)


def late(call, words):
    _, handle = meet(4)
    dist.barrier()
    if dist.get_rank() == 0:
        call = getattr(handle, call)
        args = () if call == handle.barrier else (1,)
        if call == handle.put_signal:
            call(*args, channel=3)
        begin = time.monotonic()
        with pytest.raises(RuntimeError, match=words):
            call(*args, channel=3, timeout_ms=500)
            handle.barrier(timeout_ms=2**63 - 1)  # the reset drops this wait, too
            torch.openreg.synchronize()
        assert 0.4 < time.monotonic() - begin < 30
        torch.openreg.reset()
        assert torch.ones(4, device=card()).sum().item() == 4
        with pytest.raises(RuntimeError, match="Allocate a new symmetric tensor on all ranks"):
            handle.barrier()
    dist.barrier()
    meet(4)  # a new tensor has new signals


@pytest.mark.native
@pytest.mark.parametrize(
    "call, words",
    [
        ("barrier", r"waits for barrier\(\) with rank 1 on channel 3 .*: rank 1 is late, after 500 ms"),
        ("wait_signal", r"waits for wait_signal\(\) for rank 1 on channel 3 .*: rank 1 is late"),
        ("put_signal", r"waits for put_signal\(\) to rank 1 on channel 3 .*: rank 1 is late"),
    ],
)
def test_a_late_rank(pair, call, words):
    pair.run(late, call, words)


def make_handle():
    global kept
    kept = meet(4)


def wait_for_rank_1():
    kept[1].barrier()
    torch.openreg.synchronize()


@pytest.mark.native
def test_a_rank_ends(new_ranks):
    ranks = new_ranks(2)
    ranks.start()
    ranks.run(make_handle)
    ranks.send(0, wait_for_rank_1)
    time.sleep(0.5)
    ranks.kill(1)
    with pytest.raises(Failure, match=r"barrier\(\) with rank 1 on channel 0 .* rank 1 has ended"):
        ranks.result(0)
    ranks.send(0, meet, 4)
    with pytest.raises(Failure, match="rank 1 has ended"):
        ranks.result(0)


def signal_behind_long_work():
    x = torch.ones(1 << 22, device=card())
    for _ in range(40):
        x.sin_()
    kept[1].put_signal(1, 0)


def wait_for_the_signal():
    kept[1].wait_signal(0, 0)
    torch.openreg.synchronize()


@pytest.mark.native
def test_a_rank_ends_behind_its_signal(new_ranks):
    ranks = new_ranks(2)
    ranks.start()
    ranks.run(make_handle)
    ranks.send(1, wait_for_the_signal)
    ranks.send(0, signal_behind_long_work)
    ranks.result(0)
    ranks.pipes[0].close()  # the process returns from its main function
    ranks.processes[0].join(60)
    assert ranks.processes[0].exitcode == 0
    ranks.result(1)


def text_of(call):
    try:
        call()
    except RuntimeError as error:
        return str(error)


def collective_beside_a_rendezvous():
    """Rank 1 comes to neither."""
    tensor = symm_mem.empty(4, device=card())
    options = dist.AllreduceOptions()
    options.timeout = datetime.timedelta(seconds=3)
    texts = []
    begin = time.monotonic()
    work = dist.group.WORLD.allreduce([torch.ones(4, device=card())], options)
    thread = threading.Thread(
        target=lambda: texts.append(
            text_of(lambda: symm_mem.rendezvous(tensor, dist.group.WORLD))
        )
    )
    thread.start()
    work.wait()
    texts.append(text_of(torch.openreg.synchronize))
    thread.join()
    return time.monotonic() - begin, texts


@pytest.mark.native
def test_a_rendezvous_does_not_hold_up_the_timeout_of_a_collective(new_ranks):
    ranks = new_ranks(2)
    ranks.start(timeout=200)
    ranks.run(make_handle)
    ranks.send(0, collective_beside_a_rendezvous)
    seconds, texts = ranks.result(0)
    assert seconds < 100
    for text in texts:
        assert "rank 1 is late" in text
        assert "in all_reduce" in text
        assert text.endswith("call destroy_process_group(), then create a new group")


@pytest.mark.native
def test_a_rank_does_not_come(new_ranks):
    ranks = new_ranks(2)
    ranks.start(timeout=3)
    ranks.send(0, meet, 4)
    with pytest.raises(Failure, match="rank 1 is late: rank 0 has waited .* for its descriptors"):
        ranks.result(0)


def on_the_cpu():
    with pytest.raises(RuntimeError, match="openreg:occl"):
        symm_mem.rendezvous(symm_mem.empty(4, device=card()), dist.group.WORLD)


@pytest.mark.native
def test_a_group_without_the_backend(new_ranks):
    ranks = new_ranks(2)
    ranks.start(backend="gloo", bind=False)
    ranks.run(on_the_cpu)


def current_device():
    """A device without an index is the current one."""
    mine = symm_mem.empty(64, dtype=torch.uint32, device=DEV).fill_(0)
    handle = symm_mem.rendezvous(mine, dist.group.WORLD)
    assert handle.device == card()
    symm_mem._SymmetricMemory.memset32(mine, offset=60, val=2**32 - 1, count=3)
    symm_mem._SymmetricMemory.stream_write_value32(mine, offset=1, val=5)
    handle.barrier()
    theirs = handle.get_buffer(others()[0], (64,), torch.uint32)
    assert theirs.tolist() == [0, 5] + [0] * 58 + [2**32 - 1] * 3 + [0]
    handle.barrier()


def test_current_device(pair):
    pair.run(current_device)
