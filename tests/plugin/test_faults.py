# SPDX-License-Identifier: BSD-3-Clause
"""The effects of a bad packet on the process that launched it, and on others."""

import gc

import packets
import pytest
import torch
from torch_openreg import _C

DEV = "openreg"
NO_SEGMENT = packets.NO_SEGMENT


def fault(packet, device=0):
    """Launches the packet; returns the text of the error that follows."""
    _C._launch_raw(packet, device)
    with pytest.raises(RuntimeError) as caught:
        torch.openreg.synchronize(device)
    return str(caught.value)


own_segment = pytest.mark.unchecked("a red zone follows each tensor in its segment")


@pytest.fixture
def memory():
    """Begin and end of a segment that belongs to one tensor alone."""
    t = torch.empty(32 << 20, dtype=torch.uint8, device=DEV)
    segments = torch.openreg.memory_snapshot(include_traces=False)
    (segment,) = (s for s in segments if s["address"] == t.data_ptr())
    assert len(segment["blocks"]) == 1
    yield t.data_ptr(), t.data_ptr() + segment["total_size"]


def test_no_such_segment():
    text = fault(packets.fill(NO_SEGMENT, 4))
    assert "FILL" in text and "operand 0" in text and f"{NO_SEGMENT:x}" in text
    assert "torch.openreg.reset()" in text


@own_segment
def test_one_past_the_end(memory):
    begin, end = memory
    count = (end - begin) // 4
    _C._launch_raw(packets.fill(begin, count), 0)
    torch.openreg.synchronize()
    text = fault(packets.fill(begin, count + 1))
    assert "operand 0" in text and f"{end:x}" in text


@pytest.mark.parametrize(
    "stride, count", [(-1, 2), (2**61, 3), (-(2**61), 3), (2**62, 2**30)]
)
@own_segment
def test_strides_that_leave_the_segment(memory, stride, count):
    text = fault(packets.fill(memory[0], count, stride=stride))
    assert "FILL" in text and "operand 0" in text


@own_segment
def test_bad_dtype(memory):
    text = fault(packets.fill(memory[0], 4, dtype=77))
    assert "FILL" in text and "operand 0" in text


def test_bad_opcode():
    text = fault(packets.packet(63))
    assert "malformed packet" in text and "no operator" in text


@own_segment
def test_bad_program(memory):
    bad = packets.packet(
        packets.VECTOR,
        (4,),
        [(memory[0], packets.F32, (1,))],
        instrs=bytes([250, 0, 0, 0, 0, 0, 0, 0]),
    )
    assert "VECTOR" in fault(bad)


@own_segment
def test_unaligned(memory):
    text = fault(packets.fill(memory[0] + 1, 4))
    assert f"{memory[0] + 1:x}" in text


def test_the_operator_is_named():
    """The packet's cookie is the number of the operator."""
    assert "has faulted in aten::" in fault(packets.fill(NO_SEGMENT, 4, cookie=1))


def test_sticky_until_reset():
    fault(packets.fill(NO_SEGMENT, 4))
    with pytest.raises(RuntimeError, match="has faulted"):
        torch.arange(3.0).to(DEV)
    with pytest.raises(RuntimeError, match="has faulted"):
        torch.openreg.synchronize()
    torch.openreg.reset()
    assert torch.arange(3.0).to(DEV).tolist() == [0, 1, 2]
    torch.openreg.synchronize()


def test_other_streams_go_on():
    x = torch.arange(1000.0)
    fault(packets.fill(NO_SEGMENT, 4))
    with torch.openreg.stream(torch.openreg.Stream()):
        assert torch.equal(x.to(DEV).cpu(), x)
    assert torch.equal(x.to("openreg:1").cpu(), x)


def test_waiting_for_a_faulted_stream_raises():
    """A wait for a signal that a fault prevents must raise, not hang."""
    bad, good = torch.openreg.Stream(), torch.openreg.Stream()
    with torch.openreg.stream(bad):
        _C._launch_raw(packets.fill(NO_SEGMENT, 4), 0)
        with pytest.raises(RuntimeError, match="has faulted"):
            event = bad.record_event()
            good.wait_event(event)
            with torch.openreg.stream(good):
                torch.arange(3.0).to(DEV).cpu()
    torch.openreg.reset()
    with torch.openreg.stream(good):
        assert torch.arange(3.0).to(DEV).tolist() == [0, 1, 2]


def long_work(seconds=0.5):
    """Launches work for so many seconds on the current stream, by the card's clock."""
    x = torch.zeros(16 << 20, device=DEV)
    begin, end = (torch.openreg.Event(enable_timing=True) for _ in range(2))
    begin.record()
    x.sin_()
    end.record()
    end.synchronize()
    for _ in range(int(seconds * 1e3 / begin.elapsed_time(end)) + 1):
        x.sin_()
    return x


def test_a_fault_does_not_break_long_waits_of_others():
    fault(packets.fill(NO_SEGMENT, 4))
    good, feeder = torch.openreg.Stream(), torch.openreg.Stream()
    with torch.openreg.stream(feeder):
        x = long_work()
        done = feeder.record_event()
    good.wait_event(done)
    with torch.openreg.stream(good):
        y = x.clone()
        assert not good.query()
        good.synchronize()
        assert y[:4].cpu().isfinite().all()
    with pytest.raises(RuntimeError, match="has faulted"):
        torch.openreg.synchronize()


def largest(unit):
    """The size of the largest possible tensor, in units: memory that other tests left in
    use may be anywhere."""
    for n in range(15, 1, -1):
        try:
            torch.empty(n * unit, dtype=torch.uint8, device=DEV)
            return n
        except torch.OutOfMemoryError:
            pass
    raise AssertionError("not an eighth of the free memory in one piece")


def test_a_fault_does_not_break_the_allocator_of_others():
    gc.collect()  # the frames of a caught error hold tensors in a reference cycle
    torch.openreg.empty_cache()
    kept = torch.empty(1 << 20, device=DEV)
    unit = torch.openreg.mem_get_info()[0] // 16
    n = largest(unit)
    torch.openreg.empty_cache()
    fault(packets.fill(NO_SEGMENT, 4))
    with torch.openreg.stream(torch.openreg.Stream()):
        for _ in range(2):
            a = torch.empty((n - 1) * unit, dtype=torch.uint8, device=DEV)
            del a
            torch.openreg.empty_cache()
        a = torch.empty((n - 1) * unit, dtype=torch.uint8, device=DEV)
        del a
        a = torch.empty(n * unit, dtype=torch.uint8, device=DEV)
        del a
    del kept


def test_query_behind_a_fault_raises():
    bad, middle, good = (torch.openreg.Stream() for _ in range(3))
    release = packets.stuck(bad, middle, good)
    event, late = middle.record_event(), good.record_event()
    for query in [event.query, middle.query, late.query, good.query, good.synchronize]:
        with pytest.raises(RuntimeError, match=f"stream {bad.stream_id} has faulted"):
            query()
    torch.openreg.empty_cache()
    with pytest.raises(RuntimeError, match="has faulted"):
        torch.openreg.Stream().wait_event(event)
    release()
    good.synchronize()
    assert late.query() and middle.query()


def test_a_signal_before_the_fault_counts():
    """A wait raises only if its signal can no longer come."""
    bad, good = torch.openreg.Stream(), torch.openreg.Stream()
    gate = packets.Gate()
    with torch.openreg.stream(bad):
        gate.__enter__()
        event = bad.record_event()
        _C._launch_raw(packets.fill(NO_SEGMENT, 4), 0)
    with torch.openreg.stream(good):
        long_work()
        good.wait_event(event)
    gate.__exit__()
    good.synchronize()
    with pytest.raises(RuntimeError, match="has faulted"):
        bad.synchronize()


FAULT = """
import packets, torch
from torch_openreg import _C
_C._launch_raw(packets.fill(packets.NO_SEGMENT, 4), 0)
try:
    torch.openreg.synchronize()
except RuntimeError as error:
    print("has faulted" in str(error))
"""


def test_fault_does_not_affect_another_process(run_forked):
    x = torch.arange(1 << 16)
    y = x.to(DEV)
    with packets.Gate():
        z = y.clone()
        assert run_forked(FAULT) == "True\n"
    assert torch.equal(z.cpu(), x)
    for _ in range(20):
        assert torch.equal(y.clone().cpu(), x)


def test_raw_packets_have_a_size():
    for size in (0, 32 * 64 + 1):
        with pytest.raises(ValueError, match="1 to 2048 bytes"):
            _C._launch_raw(bytes(size), 0)
