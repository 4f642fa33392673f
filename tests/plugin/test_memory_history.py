# SPDX-License-Identifier: BSD-3-Clause
"""The allocator's history, in the format that pytorch.org/memory_viz reads."""

import pickle

import pytest
import torch
from torch.cuda import _memory_viz
from torch_openreg import _C

DEV = "openreg"
MIB = 1 << 20
memory = torch.openreg.memory


@pytest.fixture
def recording():
    torch.openreg.empty_cache()
    memory._record_memory_history("all", stacks="python", clear_history=True)
    yield
    memory._record_memory_history(None, clear_history=True)


def trace_of(index=0):
    return memory._snapshot()["device_traces"][index]


def asks_for_memory(size):
    return torch.empty(size, dtype=torch.uint8, device=DEV)


def test_trace(recording):
    a = asks_for_memory(3 * MIB)
    address = a.data_ptr()
    del a
    torch.openreg.empty_cache()
    events = [e for e in trace_of() if e["action"] != "snapshot"]
    assert [e["action"] for e in events] == [
        "segment_alloc",
        "alloc",
        "free_requested",
        "free_completed",
        "segment_free",
    ]
    assert all(e["addr"] == address and e["stream"] == 0 for e in events)
    assert [e["size"] // MIB for e in events] == [20, 3, 3, 3, 20]
    times = [e["time_us"] for e in events]
    assert times == sorted(times) and times[0] > 1e15
    assert trace_of(1)[-1]["action"] == "snapshot"


def test_stacks_name_the_caller(recording):
    kept = asks_for_memory(100)
    (event,) = [e for e in trace_of() if e["action"] == "alloc"]
    names = [frame["name"] for frame in event["frames"]]
    assert names.index("asks_for_memory") < names.index("test_stacks_name_the_caller")
    assert event["frames"][0]["filename"].endswith("test_memory_history.py")
    assert event["frames"][0]["line"] > 0
    blocks = [b for s in memory._snapshot()["segments"] for b in s["blocks"]]
    (block,) = [b for b in blocks if b["address"] == kept.data_ptr()]
    assert block["frames"] == event["frames"]


def test_segments_add_up():
    torch.openreg.empty_cache()
    parts = [asks_for_memory(4 * MIB + 1000) for _ in range(3)]
    del parts[1]
    segments = torch.openreg.memory_snapshot()
    for s in segments:
        assert sum(b["size"] for b in s["blocks"]) == s["total_size"]
        assert s["blocks"][0]["address"] == s["address"]
        for b, after in zip(s["blocks"], s["blocks"][1:]):
            assert b["address"] + b["size"] == after["address"]
    reserved = sum(s["total_size"] for s in segments if s["device"] == 0)
    allocated = sum(s["allocated_size"] for s in segments if s["device"] == 0)
    assert reserved == torch.openreg.memory_reserved(0)
    assert allocated == torch.openreg.memory_allocated(0)
    (mine,) = [s for s in segments if s["address"] == parts[0].data_ptr()]
    assert mine["segment_type"] == "large" and mine["total_size"] == 20 * MIB
    assert [b["state"] for b in mine["blocks"]] == [
        "active_allocated",
        "inactive",
        "active_allocated",
        "inactive",
    ]
    assert mine["blocks"][0]["requested_size"] == 4 * MIB + 1000


def test_snapshots_of_a_pool_and_without_traces(recording):
    kept = asks_for_memory(100)
    addresses = [s["address"] for s in torch.openreg.memory_snapshot()]
    for options in ({"mempool_id": (0, 0)}, {"include_traces": False}):
        segments = torch.openreg.memory_snapshot(**options)
        assert [s["address"] for s in segments] == addresses != []
    with pytest.raises(ValueError, match=r"memory pool \(0, 1\) does not exist"):
        torch.openreg.memory_snapshot((0, 1))
    assert _C.memory_snapshot(False)["device_traces"][0] == []
    assert "alloc" in [e["action"] for e in _C.memory_snapshot(True)["device_traces"][0]]
    del kept


def test_include_traces_is_passed_on(recording, monkeypatch):
    asked = []
    snapshot = _C.memory_snapshot
    monkeypatch.setattr(_C, "memory_snapshot", lambda t: asked.append(t) or snapshot(t))
    torch.openreg.memory_snapshot()
    torch.openreg.memory_snapshot(include_traces=False)
    assert asked == [True, False]


@pytest.mark.unchecked("the sizes of blocks have no red zones")
def test_merging_backwards_moves_the_first_block():
    torch.openreg.empty_cache()
    parts = [asks_for_memory(4 * MIB) for _ in range(3)]
    address = parts[0].data_ptr()
    del parts[0], parts[0]  # the second block merges with the first
    (mine,) = [s for s in torch.openreg.memory_snapshot() if s["address"] == address]
    assert mine["blocks"][0]["state"] == "inactive"
    assert mine["blocks"][0]["size"] == 8 * MIB


def test_waits_for_another_stream(recording, gate):
    side = torch.openreg.Stream()
    with torch.openreg.stream(side), gate:
        x = torch.openreg.default_stream()
        with torch.openreg.stream(x):
            a = asks_for_memory(3 * MIB)
        address = a.data_ptr()
        a.record_stream(side)
        del a
        blocks = [b for s in torch.openreg.memory_snapshot() for b in s["blocks"]]
        (block,) = [b for b in blocks if b["address"] == address]
        assert block["state"] == "active_awaiting_free"
        actions = [e["action"] for e in trace_of() if e["action"] != "snapshot"]
        assert actions[-1] == "free_requested"


def test_out_of_memory_is_in_the_trace(recording):
    total = torch.openreg.mem_get_info()[1]
    with pytest.raises(torch.OutOfMemoryError):
        asks_for_memory(2 * total)
    (event,) = [e for e in trace_of() if e["action"] == "oom"]
    assert event["size"] == 2 * total and 0 < event["device_free"] <= total


def test_only_the_last_entries_are_kept():
    few = {"stacks": "python", "max_entries": 4}
    memory._record_memory_history("all", clear_history=True, **few)
    try:
        for n in range(1, 10):
            asks_for_memory(n * 512)
        actions = trace_of()
        assert len(actions) == 4 and actions[-1]["action"] == "snapshot"
        times = [e["time_us"] for e in actions]
        assert times == sorted(times)
        memory._record_memory_history("all", stacks="python", max_entries=8)
        asks_for_memory(512)
        assert [e["action"] for e in trace_of()][-2] == "free_completed"
    finally:
        memory._record_memory_history(None, clear_history=True)


@pytest.mark.parametrize(("enabled", "frames"), [("state", ["asks_for_memory"]), (None, [])])
def test_no_trace_unless_asked(enabled, frames):
    memory._record_memory_history(enabled, stacks="python", clear_history=True)
    try:
        kept = asks_for_memory(100)
        assert trace_of() == []
        blocks = [b for s in torch.openreg.memory_snapshot() for b in s["blocks"]]
        (block,) = [b for b in blocks if b["address"] == kept.data_ptr()]
        assert [frame["name"] for frame in block["frames"]][:1] == frames
    finally:
        memory._record_memory_history(None)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="enabled is one of"):
        memory._record_memory_history("always")
    with pytest.raises(ValueError, match="context is one of"):
        memory._record_memory_history(context="some")
    with pytest.raises(ValueError, match="stacks is one of"):
        memory._record_memory_history(stacks="c")


def test_memory_viz_reads_the_dump(recording, tmp_path):
    """torch's own module _memory_viz reads the dump."""
    kept = [asks_for_memory(n * MIB) for n in (1, 2, 30)]
    del kept[1]
    memory._dump_snapshot(tmp_path / "dump.pickle")
    data = pickle.loads((tmp_path / "dump.pickle").read_bytes())
    assert "segments: " in _memory_viz.segsum(data)
    assert "= cudaMalloc(" in _memory_viz.trace(data)
    for lines in (
        _memory_viz.segments(data, format_flamegraph=str),
        _memory_viz.memory(data, format_flamegraph=str),
    ):
        assert "asks_for_memory" in lines
    assert "<script" in _memory_viz.trace_plot(data)
    assert "<script" in _memory_viz.segment_plot(data)
