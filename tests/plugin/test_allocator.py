# SPDX-License-Identifier: BSD-3-Clause
"""The caching allocator of device memory."""

import time

import pytest
import torch

DEV = "openreg"
MIB = 1 << 20


def bytes_tensor(n, device=DEV):
    return torch.empty(n, dtype=torch.uint8, device=device)


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
    """The same stream gets the same block at once, and nothing new is taken."""
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
    # Only parts that have merged are as large as two, and as all of them.
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
    """Many sizes in a fixed disorder; contents tell whether blocks overlap."""
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


def test_empty_cache_gives_back():
    free, total = torch.openreg.mem_get_info()
    a = bytes_tensor(64 * MIB)
    assert torch.openreg.mem_get_info()[0] <= free - 64 * MIB
    del a
    assert torch.openreg.mem_get_info()[0] <= free - 64 * MIB
    torch.openreg.empty_cache()
    # The driver gives memory back when the card has let go of it.
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


def test_more_than_any_card_has():
    ooms = torch.openreg.memory_stats()["num_ooms"]
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate"):
        bytes_tensor((1 << 38) + 1)
    assert torch.openreg.memory_stats()["num_ooms"] == ooms + 1


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
    """A block in use on another stream is not handed out before that is done."""
    side = torch.openreg.Stream()
    gate = torch.openreg.Stream()
    x = torch.arange(1 << 14)
    for _ in range(20):
        y = x.to(DEV)
        torch.openreg.synchronize()
        with torch.openreg.stream(gate):
            slow = torch.empty(4 << 20, device=DEV).clone()
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


def test_new_memory_of_another_process_is_zero(run_python):
    """What one process left in device memory, the next one does not see."""
    write = (
        "import torch\n"
        "t = torch.full((32 << 20,), 165, dtype=torch.uint8).to('openreg')\n"
        "torch.openreg.synchronize()\n"
    )
    read = (
        "import torch\n"
        "t = torch.empty(32 << 20, dtype=torch.uint8, device='openreg')\n"
        "print(t.cpu().count_nonzero().item())\n"
    )
    run_python(write)
    assert run_python(read) == "0\n"
