# SPDX-License-Identifier: BSD-3-Clause
"""The caching allocator of device memory."""

import time

import pytest
import torch

DEV = "openreg"
MIB = 1 << 20
without_red_zones = pytest.mark.unchecked("the sizes of blocks have no red zones")


def bytes_tensor(n, device=DEV):
    return torch.empty(n, dtype=torch.uint8, device=device)


@without_red_zones
def test_counts():
    base = torch.openreg.memory_allocated()
    a = bytes_tensor(1000)
    assert torch.openreg.memory_allocated() == base + 1024
    b = bytes_tensor(513)
    assert torch.openreg.memory_allocated() == base + 2048
    assert torch.openreg.memory_stats()["requested_bytes.all.current"] >= 1513
    del a, b
    assert torch.openreg.memory_allocated() == base
    assert torch.openreg.memory_reserved() >= 2 * MIB


def test_peak():
    torch.openreg.reset_peak_memory_stats()
    base = torch.openreg.memory_allocated()
    a = bytes_tensor(8 * MIB)
    del a
    assert torch.openreg.max_memory_allocated() >= base + 8 * MIB
    assert torch.openreg.max_memory_reserved() >= 8 * MIB
    torch.openreg.reset_peak_memory_stats()
    assert torch.openreg.max_memory_allocated() == base


@pytest.mark.parametrize("size", [1, 512, 700_000, 3 * MIB, 30 * MIB])
def test_reuse(size):
    """The same stream gets the freed block at once, without new memory."""
    a = bytes_tensor(size)
    where = a.data_ptr()
    taken = torch.openreg.memory_stats()["num_device_alloc"]
    del a
    b = bytes_tensor(size)
    assert b.data_ptr() == where
    assert torch.openreg.memory_stats()["num_device_alloc"] == taken


def test_alignment_and_disjointness():
    tensors = [bytes_tensor(n) for n in range(1, 4000, 97)]
    spans = sorted((t.data_ptr(), t.data_ptr() + t.nbytes) for t in tensors)
    assert all(begin % 512 == 0 for begin, _ in spans)
    assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:]))


@without_red_zones
def test_split_and_merge():
    torch.openreg.empty_cache()
    reserved = torch.openreg.memory_reserved()
    parts = [bytes_tensor(4 * MIB) for _ in range(5)]
    assert torch.openreg.memory_reserved() == reserved + 20 * MIB
    taken = torch.openreg.memory_stats()["num_device_alloc"]
    split = torch.openreg.memory_stats()["inactive_split_bytes.all.current"]
    del parts[1], parts[2]
    stats = torch.openreg.memory_stats()
    assert stats["inactive_split_bytes.all.current"] == split + 8 * MIB
    # Only merged parts are large enough for an allocation of two parts, and of all.
    del parts[1]
    assert bytes_tensor(9 * MIB).data_ptr() == parts[0].data_ptr() + 4 * MIB
    del parts
    whole = bytes_tensor(18 * MIB)
    assert torch.openreg.memory_reserved() == reserved + 20 * MIB
    assert torch.openreg.memory_stats()["num_device_alloc"] == taken
    del whole
    torch.openreg.empty_cache()
    assert torch.openreg.memory_reserved() == reserved


def test_random_sizes_stay_disjoint():
    """Many sizes in a fixed random order. Each block is filled, so an overlap shows."""
    live, state = [], 12345
    for step in range(300):
        state = (state * 1103515245 + 12345) % 2**31
        if live and state % 3 == 0:
            index = state // 3 % len(live)
            value, t = live.pop(index)
            assert t[:1].item() == value and t[-1:].item() == value
        else:
            size = 1 + (state // 7) % (40_000 if state % 5 else 3 * MIB)
            t = torch.full((size,), step % 251, dtype=torch.uint8).to(DEV)
            live.append((step % 251, t))
    for value, t in live:
        assert t[:1].item() == value and t[-1:].item() == value


def test_empty_cache_frees_memory():
    free, total = torch.openreg.mem_get_info()
    a = bytes_tensor(64 * MIB)
    assert torch.openreg.mem_get_info()[0] <= free - 64 * MIB
    del a
    assert torch.openreg.mem_get_info()[0] <= free - 64 * MIB
    torch.openreg.empty_cache()
    # The driver frees memory only after the card has released the segment.
    deadline = time.monotonic() + 30
    while torch.openreg.mem_get_info()[0] < free and time.monotonic() < deadline:
        time.sleep(0.01)
    assert torch.openreg.mem_get_info()[0] >= free
    assert torch.openreg.mem_get_info()[1] == total


def test_empty_cache_waits_for_work():
    x = torch.arange(1 << 20)
    y = x.to(DEV)
    z = y.clone()
    del y
    torch.openreg.empty_cache()
    assert torch.equal(z.cpu(), x)


def test_out_of_memory():
    total = torch.openreg.mem_get_info()[1]
    with pytest.raises(torch.OutOfMemoryError) as caught:
        bytes_tensor(total + 4096)
    text = str(caught.value)
    assert "Tried to allocate" in text and "GiB" in text and "openreg:0" in text
    assert torch.openreg.memory_stats()["num_ooms"] >= 1
    assert torch.arange(3.0).to(DEV).tolist() == [0, 1, 2]


def test_sizes_larger_than_the_card():
    ooms = torch.openreg.memory_stats()["num_ooms"]
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate"):
        bytes_tensor((1 << 38) + 1)
    assert torch.openreg.memory_stats()["num_ooms"] == ooms + 1


@pytest.mark.parametrize("size", [-1, -511, -512, -(1 << 62)])
def test_sizes_that_wrap(size):
    x = torch.arange(128, dtype=torch.uint8, device=DEV)
    with pytest.raises((torch.OutOfMemoryError, RuntimeError)):
        x.untyped_storage().resize_(size)
    with pytest.raises((torch.OutOfMemoryError, RuntimeError)):
        torch.UntypedStorage(size, device=DEV)
    with pytest.raises(torch.OutOfMemoryError):
        torch.openreg.caching_allocator_alloc(size % (1 << 64))
    others = [torch.full((n,), 9, dtype=torch.uint8, device=DEV) for n in (1, 128, 512)]
    assert x.data_ptr() not in [t.data_ptr() for t in others]
    assert x.untyped_storage().nbytes() == 128 and x.tolist() == list(range(128))


def test_cache_is_flushed_before_giving_up():
    free = torch.openreg.mem_get_info()[0]
    half = free // 8 * 5
    a = bytes_tensor(half)
    del a
    retries = torch.openreg.memory_stats()["num_alloc_retries"]
    b = bytes_tensor(half + 32 * MIB)
    assert torch.openreg.memory_stats()["num_alloc_retries"] == retries + 1
    del b


def test_streams_have_their_own_blocks():
    a = bytes_tensor(5000)
    where = a.data_ptr()
    del a
    with torch.openreg.stream(torch.openreg.Stream()):
        b = bytes_tensor(5000)
        assert b.data_ptr() != where
    c = bytes_tensor(5000)
    assert c.data_ptr() == where


def test_record_stream():
    """A block that another stream uses is not reused before that stream is done."""
    side = torch.openreg.Stream()
    gate = torch.openreg.Stream()
    x = torch.arange(1 << 14)
    for _ in range(20):
        y = x.to(DEV)
        torch.openreg.synchronize()
        with torch.openreg.stream(gate):
            slow = torch.zeros(4 << 20, device=DEV).clone()
            opened = gate.record_event()
        with torch.openreg.stream(side):
            side.wait_event(opened)
            kept = y.clone()
        y.record_stream(side)
        del y, slow
        other = (-x).to(DEV)
        side.synchronize()
        assert torch.equal(kept.cpu(), x)
        assert torch.equal(other.cpu(), -x)


@without_red_zones
def test_devices_are_counted_apart():
    base = torch.openreg.memory_allocated(0), torch.openreg.memory_allocated(1)
    a = bytes_tensor(1024, "openreg:1")
    assert torch.openreg.memory_allocated(0) == base[0]
    assert torch.openreg.memory_allocated(1) == base[1] + 1024
    del a


def test_accelerator_sees_the_same():
    a = bytes_tensor(2048)
    assert torch.accelerator.memory_allocated() == torch.openreg.memory_allocated()
    assert torch.accelerator.get_memory_info(0) == torch.openreg.mem_get_info(0)
    del a
    torch.accelerator.empty_cache()


def test_new_memory_of_another_process_is_zero(run_forked):
    """A process must not see the data of an earlier process in device memory."""
    t = torch.full((32 << 20,), 165, dtype=torch.uint8, device="openreg")
    torch.openreg.synchronize()
    del t
    torch.openreg.empty_cache()
    read = (
        "import torch\n"
        "t = torch.empty(32 << 20, dtype=torch.uint8, device='openreg')\n"
        "print(t.cpu().count_nonzero().item())\n"
    )
    assert run_forked(read) == "0\n"


def in_words(size):
    """A size in the form in which core writes it."""
    unit, name = (2**30, "GiB") if size > 2**30 else (2**20, "MiB")
    return f"{size / unit:.2f} {name}"


def test_out_of_memory_says_how_much():
    kept = bytes_tensor(3 * MIB)
    total = torch.openreg.mem_get_info()[1]
    with pytest.raises(torch.OutOfMemoryError) as caught:
        bytes_tensor(64 * total)
    text = str(caught.value)
    for part in (
        f"Tried to allocate {in_words(64 * total)}",
        f"openreg:0 has {in_words(total)} of which",
        "are free, the largest block",
        "MiB in tensors and",
        "empty_cache()",
    ):
        assert part in text, text
    assert "fraction" not in text
    assert isinstance(caught.value, RuntimeError)
    del kept


def test_fraction_of_memory():
    torch.openreg.empty_cache()
    total = torch.openreg.mem_get_info()[1]
    held = torch.openreg.memory_reserved()
    fraction = (held + 64 * MIB) / total
    assert torch.openreg.get_per_process_memory_fraction() == 1.0
    torch.openreg.set_per_process_memory_fraction(fraction)
    try:
        assert torch.openreg.get_per_process_memory_fraction() == fraction
        assert torch.openreg.get_per_process_memory_fraction(1) == 1.0
        a = bytes_tensor(60 * MIB)
        with pytest.raises(torch.OutOfMemoryError, match="memory_fraction.. allows it"):
            bytes_tensor(60 * MIB)
        del a
        # The allocator frees cached blocks before it raises an error for the limit.
        b = bytes_tensor(62 * MIB)
        del b
    finally:
        torch.openreg.set_per_process_memory_fraction(1.0)
    a, b = bytes_tensor(60 * MIB), bytes_tensor(60 * MIB)
    del a, b


def test_wrong_fractions():
    for fraction in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="between 0 and 1"):
            torch.openreg.set_per_process_memory_fraction(fraction)
    with pytest.raises(TypeError, match="number"):
        torch.openreg.set_per_process_memory_fraction("half")


def test_statistics_flat_and_nested():
    a = bytes_tensor(12 * MIB)
    nested = torch.openreg.memory_stats_as_nested_dict()
    flat = torch.openreg.memory_stats()
    assert list(flat) == sorted(flat)
    for what in ("allocation", "segment", "active", "inactive_split", "requested_bytes"):
        for pool in ("all", "large_pool", "small_pool"):
            for when in ("current", "peak", "allocated", "freed"):
                value = flat[f"{what}.{pool}.{when}"]
                assert value == nested[what][pool][when] >= 0
    assert flat["oversize_allocations.current"] >= 1
    assert flat["oversize_segments.current"] >= 1
    before = flat["oversize_allocations.freed"]
    del a
    after = torch.openreg.memory_stats()
    assert after["oversize_allocations.freed"] == before + 1


def test_resets():
    a = bytes_tensor(8 * MIB)
    held = torch.openreg.memory_allocated()
    del a
    for reset in (
        torch.openreg.reset_peak_memory_stats,
        torch.openreg.reset_max_memory_allocated,
        torch.openreg.reset_max_memory_cached,
    ):
        a = bytes_tensor(8 * MIB)
        del a
        assert torch.openreg.max_memory_allocated() >= held
        reset()
        assert torch.openreg.max_memory_allocated() == torch.openreg.memory_allocated()
        assert torch.openreg.max_memory_cached() == torch.openreg.memory_cached()
    torch.openreg.reset_accumulated_memory_stats()
    assert torch.openreg.memory_stats()["allocation.all.allocated"] == 0
    assert torch.openreg.memory_stats()["num_device_alloc"] == 0


def test_summary():
    a = bytes_tensor(3 * MIB)
    text = torch.openreg.memory_summary()
    lines = text.splitlines()
    assert "device ID 0" in lines[1] and len({len(line) for line in lines}) == 1
    (row,) = [line for line in lines if "Allocated memory" in line]
    mib = torch.openreg.memory_allocated() // MIB
    assert f"{mib} MiB" in row or f"{torch.openreg.memory_allocated() // 1024} KiB" in row
    short = torch.openreg.memory_summary(1, abbreviated=True)
    assert "device ID 1" in short and "pool" not in short and "from large pool" in text
    del a


def test_host_statistics():
    torch.openreg.empty_host_cache()
    before = torch.openreg.host_memory_stats()
    a = torch.empty(3 * MIB, dtype=torch.uint8).pin_memory()
    stats = torch.openreg.host_memory_stats()
    assert stats["allocated_bytes.current"] >= before["allocated_bytes.current"] + 3 * MIB
    assert stats["num_host_alloc"] == before["num_host_alloc"] + 1
    assert stats == stats | torch.openreg.host_memory_stats()
    del a
    torch.openreg.empty_host_cache()
    torch.openreg.reset_accumulated_host_memory_stats()
    torch.openreg.reset_peak_host_memory_stats()
    stats = torch.openreg.host_memory_stats()
    assert stats["num_host_alloc"] == 0
    assert stats["allocated_bytes.peak"] == stats["allocated_bytes.current"]


@without_red_zones
def test_blocks_without_a_tensor():
    before = torch.openreg.memory_allocated()
    address = torch.openreg.caching_allocator_alloc(1000)
    side = torch.openreg.Stream()
    other = torch.openreg.caching_allocator_alloc(1000, stream=side)
    assert address >> 56 == 0x4F and other != address
    assert torch.openreg.memory_allocated() == before + 2048
    torch.openreg.caching_allocator_delete(address)
    torch.openreg.caching_allocator_delete(other)
    assert torch.openreg.memory_allocated() == before
    with pytest.raises(ValueError, match="freed already"):
        torch.openreg.caching_allocator_delete(address)
    with pytest.raises(ValueError, match="at least one byte"):
        torch.openreg.caching_allocator_alloc(0)


def test_memory_used_on_the_card():
    free, total = torch.openreg.mem_get_info()
    # Memory of an earlier test may be freed between the two calls.
    assert total - free >= torch.openreg.device_memory_used() > 0
    assert torch.openreg.get_allocator_backend() == "native"


@without_red_zones
def test_cache_is_freed_before_out_of_memory():
    cached = [bytes_tensor(12 * MIB) for _ in range(3)]
    del cached
    before = torch.openreg.memory_stats()
    reserved = torch.openreg.memory_reserved()
    assert reserved >= 36 * MIB
    with pytest.raises(torch.OutOfMemoryError):
        # one block may be this large, but the card does not have so much memory free
        bytes_tensor(torch.openreg.mem_get_info()[1])
    after = torch.openreg.memory_stats()
    for name in ("num_alloc_retries", "num_ooms"):
        assert after[name] == before[name] + 1, name
    assert after["num_device_free"] >= before["num_device_free"] + 3
    assert torch.openreg.memory_reserved() <= reserved - 36 * MIB


def test_gradient_read_by_another_stream_is_kept(gate):
    """Core records the use of the gradient on the other stream by its pointer. When
    backward() returns, the gradient is freed, but its reader has not started yet."""
    ours, forward, caller = (torch.openreg.Stream() for _ in range(3))
    n, pointers = 1 << 16, []
    x = torch.ones(n, device=DEV, requires_grad=True)
    torch.openreg.synchronize()
    with torch.openreg.stream(forward):
        y = x * 2
        y.register_hook(lambda grad: pointers.append(grad.data_ptr()))
    ours.wait_stream(forward)
    with torch.openreg.stream(ours):
        z = y * 3
        ones = torch.ones(n, device=DEV)
    torch.openreg.synchronize()
    with torch.openreg.stream(forward):
        gate.__enter__()
    with torch.openreg.stream(caller):
        z.backward(ones)
    with torch.openreg.stream(ours):
        others = [torch.full((n,), 99.0, device=DEV) for _ in range(4)]
    assert not forward.query()
    assert len(pointers) == 1 and pointers[0] not in [t.data_ptr() for t in others]
    gate.__exit__()
    torch.openreg.synchronize()
    assert x.grad.unique().tolist() == [6.0]
    with torch.openreg.stream(ours):
        others += [torch.empty(n, device=DEV) for _ in range(4)]
    assert pointers[0] in [t.data_ptr() for t in others]


WHILE_THE_CACHE_SLEEPS = """
import faulthandler
import threading
import time
import torch
from packets import Gate

faulthandler.dump_traceback_later(100, exit=True)
memory, side = torch.openreg.memory, torch.openreg.Stream()
t, u = (torch.zeros(8, device="openreg") for _ in range(2))
gate = Gate()
gate.__enter__()
sleeps = torch.openreg.queue_stats()["sleeps"]
threads = [threading.Thread(target=torch.openreg.empty_cache)]
threads[0].start()
while torch.openreg.queue_stats()["sleeps"] == sleeps:
    time.sleep(0.001)

def free():
    global t
    del t

begun = []
for call in [
    free,
    *[CALLS] * 4,
]:
    def run(call=call):
        begun.append(call)
        call()
    threads.append(threading.Thread(target=run))
    threads[-1].start()
while len(begun) < len(threads) - 1:
    time.sleep(0.001)
time.sleep(0.05)
gate.__exit__()
for thread in threads:
    thread.join()
"""


@pytest.mark.parametrize(
    "call",
    [
        "memory.memory_stats",
        "memory.get_per_process_memory_fraction",
        "lambda: memory.set_per_process_memory_fraction(1.0)",
        "lambda: memory._record_memory_history(None, clear_history=True)",
        "memory.reset_peak_memory_stats",
        "memory.reset_accumulated_memory_stats",
        "memory.memory_snapshot",
        "lambda: u.record_stream(side)",
        "lambda: torch.empty(3, device='openreg')",
    ],
)
def test_empty_cache_waits_without_the_gil(run_forked, call):
    """empty_cache() waits for the card in one thread, while others call the allocator.
    Meanwhile the main thread must be able to open the gate."""
    run_forked(WHILE_THE_CACHE_SLEEPS.replace("CALLS", call))


def test_there_are_no_pools_of_memory():
    for name in ("MemPool", "use_mem_pool"):
        assert not hasattr(torch.openreg, name)
        with pytest.raises(AttributeError, match=f"no {name}: core .* CUDA and XPU"):
            getattr(torch.openreg, name)
