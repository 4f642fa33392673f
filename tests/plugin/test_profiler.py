# SPDX-License-Identifier: BSD-3-Clause
"""torch.profiler: a record of each packet on the card, linked to its launch and operator."""

import collections
import json
import re
import threading
import time

import pytest
import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

BOTH = (ProfilerActivity.CPU, ProfilerActivity.PrivateUse1)
# with_stack=True can hang in torch while other threads run Python, as those of other tests.
ALONE = "import pathlib, test_profiler\ntest_profiler.{0}(pathlib.Path({1!r}))"


def trace_of(prof, tmp_path):
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path))
    return json.loads(path.read_text())


def rows(trace, *categories):
    return [e for e in trace["traceEvents"] if e.get("cat") in categories and e["ph"] == "X"]


WORK = ("kernel", "gpu_memcpy", "gpu_memset")


def op_of(row):
    return row["args"]["operator"]


def check_links(trace):
    """Every row of the card has one launch, of the right time, and the launch's operator."""
    on_threads = rows(trace, "privateuse1_runtime")
    launches = {e["args"]["correlation"]: e for e in on_threads if e["name"] == "openreg_launch"}
    waits = sum(e["name"] == "openreg_synchronize" for e in on_threads)
    assert len(launches) + waits == len(on_threads)
    ops = {e["args"]["External id"]: e for e in rows(trace, "cpu_op") if "External id" in e["args"]}
    found = []
    for e in rows(trace, *WORK):
        launch = launches[e["args"]["correlation"]]
        assert e["dur"] >= 0
        assert e["ts"] >= launch["ts"]
        assert e["args"].get("External id") == launch["args"].get("External id")
        found.append((ops.get(e["args"].get("External id"), {}).get("name"), op_of(e)))
    flows = [e for e in trace["traceEvents"] if e.get("cat") == "ac2g"]
    starts = {e["id"] for e in flows if e["ph"] == "s"}
    assert {e["id"] for e in flows if e["ph"] == "f"} <= starts
    return found


def test_operators_and_kernels(tmp_path):
    x = torch.randn(64, 64, device="openreg")
    with profile(activities=BOTH) as prof:
        y = (x @ x).add_(1)
        y.zero_()
    trace = trace_of(prof, tmp_path)
    found = check_links(trace)
    assert ("aten::mm", "aten::mm") in found
    assert ("aten::add_", "aten::add_.Tensor") in found
    assert ("aten::zero_", "aten::zero_") in found
    assert [e["name"] for e in rows(trace, "gpu_memset")] == ["Memset (aten::zero_)"]
    kernel = next(e for e in rows(trace, "kernel") if op_of(e) == "aten::mm")
    assert kernel["name"] == "MATMUL kernel (aten::mm)"
    assert kernel["pid"] == 0 and kernel["tid"] == 0
    assert kernel["args"]["packet"] == "MATMUL"
    assert kernel["args"]["bytes"] == 3 * 64 * 64 * 4
    assert 0 <= int(trace["openreg_clock_error_ns"]) < 20_000
    assert int(trace["openreg_lost_records"]) == 0
    assert int(trace["openreg_launches_without_record"]) == 0
    names = {e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
    assert "openreg:0" in names


@pytest.mark.native
def test_every_launch_has_one_record():
    n = 100_000
    x = torch.zeros(16, device="openreg")
    x.add_(1)
    torch.openreg.synchronize()
    with profile(activities=BOTH) as prof:
        for _ in range(n):
            x.add_(1)
    events = prof.profiler.kineto_results.events()
    launches, kernels = {}, {}
    for e in events:
        if e.activity_type() == "kernel":
            assert e.correlation_id() not in kernels
            kernels[e.correlation_id()] = e
        elif e.name() == "openreg_launch":
            assert e.correlation_id() not in launches
            launches[e.correlation_id()] = e
    assert len(kernels) == len(launches) == n
    assert kernels.keys() == launches.keys()
    end = 0
    for i, kernel in sorted(kernels.items()):
        assert launches[i].start_ns() <= kernel.start_ns() <= kernel.end_ns()
        assert kernel.start_ns() >= end  # a stream runs one packet after another
        end = kernel.start_ns()
        assert kernel.linked_correlation_id() == launches[i].linked_correlation_id() > 0
    assert x[0].item() == n + 1


def test_copies(tmp_path):
    host = torch.randn(1000)
    pinned = torch.empty(1000).pin_memory()
    large = torch.empty(3 << 20)
    card = host.to("openreg")
    with profile(activities=BOTH) as prof:
        card.copy_(host)
        card.clone()
        pinned.copy_(card)
        card.copy_(pinned, non_blocking=True)
        card.cpu()
        large.to("openreg").cpu()
    trace = trace_of(prof, tmp_path)
    check_links(trace)
    counts = collections.Counter(e["name"].split()[1] for e in rows(trace, "gpu_memcpy"))
    assert counts["DtoD"] == 1
    assert counts["HtoD"] > 2 and counts["DtoH"] > 2  # the large copy has parts
    moved = collections.Counter()
    for e in rows(trace, "gpu_memcpy"):
        moved[e["name"].split()[1]] += e["args"]["bytes"] // 2
    assert moved["HtoD"] == moved["DtoH"] == 2 * 4000 + large.nbytes
    for e in rows(trace, "gpu_memcpy"):
        if e["dur"] > 1:
            rate = e["args"]["bytes"] / 2 / e["dur"] / 1000
            assert e["args"]["memory bandwidth (GB/s)"] == pytest.approx(rate, rel=0.01)


@pytest.mark.unchecked("the profile has NOTE packets")
def test_key_averages():
    x = torch.randn(256, 256, device="openreg")
    with profile(activities=BOTH) as prof:
        for _ in range(5):
            x @ x
    averages = {e.key: e for e in prof.key_averages() if e.device_type.name == "CPU"}
    on_card = {e.key: e for e in prof.key_averages() if e.device_type.name == "OPENREG"}
    assert averages["aten::mm"].count == on_card["MATMUL kernel (aten::mm)"].count == 5
    assert on_card["MATMUL kernel (aten::mm)"].self_device_time_total > 0
    assert averages["aten::mm"].device_time_total == pytest.approx(
        on_card["MATMUL kernel (aten::mm)"].self_device_time_total)
    assert averages["aten::matmul"].device_time_total == averages["aten::mm"].device_time_total
    assert averages["aten::matmul"].self_device_time_total == 0
    table = prof.key_averages().table(sort_by="self_device_time_total")
    assert "Self OPENREG" in table and "OPENREG total" in table
    assert re.search(r"Self OPENREG time total: \d", table)


@pytest.mark.unchecked("the profile has NOTE packets")
def test_ranges(tmp_path):
    x = torch.randn(64, 64, device="openreg")
    with profile(activities=BOTH) as prof:
        with record_function("outer"):
            x + x
            with record_function("inner"):
                x @ x
            with record_function("second"), record_function("third"):
                x.exp()
    trace = trace_of(prof, tmp_path)
    kernels = {op_of(e): e for e in rows(trace, "kernel")}
    ranges = {e["name"]: e for e in rows(trace, "gpu_user_annotation")}
    inner, mm = ranges["inner"], kernels["aten::mm"]
    assert (inner["pid"], inner["tid"]) == (mm["pid"], mm["tid"])
    assert inner["ts"] == pytest.approx(mm["ts"], abs=0.01)
    assert ranges["outer"]["ts"] <= kernels["aten::add.Tensor"]["ts"] + 0.01
    exp = next(e for op, e in kernels.items() if op.startswith("aten::exp"))
    end = exp["ts"] + exp["dur"]
    for name in "outer", "second", "third":  # a range has the packets of those inside
        assert ranges[name]["ts"] + ranges[name]["dur"] == pytest.approx(end, abs=0.01), name
    averages = {(e.key, e.device_type.name): e for e in prof.key_averages()}
    outer = averages["outer", "CPU"]
    assert outer.device_time_total == pytest.approx(
        sum(k["dur"] for k in kernels.values()), abs=0.1)


def memory(tmp_path):
    with profile(activities=BOTH, profile_memory=True, record_shapes=True, with_stack=True) as prof:
        x = torch.ones(1 << 18, device="openreg")
        y = x + 1
        del x
        y.sum().item()
    averages = {e.key: e for e in prof.key_averages() if e.device_type.name == "CPU"}
    assert averages["aten::add"].self_device_memory_usage == 1 << 20
    assert "OPENREG Mem" in prof.key_averages().table()
    trace = trace_of(prof, tmp_path)
    memory = [e for e in trace["traceEvents"] if e.get("name") == "[memory]"]
    on_card = [e["args"]["Bytes"] for e in memory if e["args"]["Device Type"] == 20]
    assert on_card.count(1 << 20) == 2 and on_card.count(-(1 << 20)) >= 1
    timeline = tmp_path / "timeline.json"
    prof.export_memory_timeline(str(timeline), device="openreg:0")
    times, sizes = json.loads(timeline.read_text())
    assert max(sum(at) for at in sizes) >= 2 << 20


@pytest.mark.unchecked("the profile has NOTE packets")
def test_memory(run_forked, tmp_path):
    run_forked(ALONE.format('memory', str(tmp_path)))


def test_schedule():
    x = torch.zeros(16, device="openreg")
    seen = []

    def ready(prof):
        seen.append(sum(e.activity_type() == "kernel"
                        for e in prof.profiler.kineto_results.events()))

    plan = schedule(wait=1, warmup=1, active=2, repeat=2)
    with profile(activities=BOTH, schedule=plan, on_trace_ready=ready) as prof:
        for _ in range(10):
            for _ in range(7):
                x.add_(1)
            prof.step()
    assert seen == [14, 14]


@pytest.mark.unchecked("the profile has NOTE packets")
def test_threads_and_backward(tmp_path):
    """Threads on streams of their own, and autograd's thread."""
    w = torch.randn(32, 32, device="openreg", requires_grad=True)
    out = []

    def work(i):
        with torch.openreg.stream(torch.openreg.Stream()):
            out.append(torch.full((8,), float(i), device="openreg").mul_(2))
            torch.openreg.synchronize()

    with profile(activities=BOTH) as prof:
        (w @ w).sum().backward()
        threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    trace = trace_of(prof, tmp_path)
    check_links(trace)
    launches = {e["args"]["correlation"]: e for e in rows(trace, "privateuse1_runtime")}
    mul = [e for e in rows(trace, "kernel") if op_of(e).startswith("aten::mul")]
    streams = {e["tid"] for e in mul}
    assert len([e for e in mul if e["tid"]]) == 3 and len(streams - {0}) == 3
    assert len({launches[e["args"]["correlation"]]["tid"] for e in mul if e["tid"]}) == 3
    assert sum(op_of(e) == "aten::mm" for e in rows(trace, "kernel")) == 3


@pytest.mark.unchecked("the profile has NOTE packets")
def test_order_of_streams(gate, tmp_path):
    """A kernel behind an event begins after the kernel before the event."""
    a = torch.randn(512, 512, device="openreg")
    side = torch.openreg.Stream()
    with profile(activities=BOTH) as prof, gate:
        for _ in range(5):
            a @ a
            event = torch.openreg.Event()
            event.record()
            side.wait_event(event)  # no packet, if the event is over
            with torch.openreg.stream(side):
                a.exp()
    trace = trace_of(prof, tmp_path)
    check_links(trace)
    mm = [e for e in rows(trace, "kernel") if op_of(e) == "aten::mm"]
    exp = [e for e in rows(trace, "kernel") if op_of(e).startswith("aten::exp")]
    waits = [e for e in rows(trace, "gpu_user_annotation") if e["name"] == "openreg::event_wait"]
    assert len(mm) == len(exp) == len(waits) == 5
    assert {e["tid"] for e in waits} == {side.stream_id}
    for wait, after in zip(waits, exp):
        assert after["ts"] >= wait["ts"] + wait["dur"] - 0.002
    work = sum(e["dur"] for e in mm + exp)
    total = re.search(r"Self OPENREG time total: ([\d.]+)([mu]?)s", prof.key_averages().table())
    scale = {"u": 1, "m": 1e3, "": 1e6}[total[2]]
    assert float(total[1]) * scale == pytest.approx(work, rel=1e-2)  # without the waits
    for before, after in zip(mm, exp):
        assert after["ts"] >= before["ts"] + before["dur"] - 0.002


def test_two_cards(tmp_path):
    a = torch.ones(16, device="openreg:0")
    b = torch.ones(16, device="openreg:1")
    with profile(activities=BOTH) as prof:
        a.add_(1)
        b.mul_(2)
        b.copy_(a)
        torch.openreg.synchronize(1)
    trace = trace_of(prof, tmp_path)
    check_links(trace)
    kernels = {op_of(e): e["pid"] for e in rows(trace, "kernel")}
    assert kernels["aten::add_.Tensor"] == 0
    assert kernels["aten::mul_.Tensor"] == 1
    copies = {(e["name"].split()[1], e["pid"]) for e in rows(trace, "gpu_memcpy")}
    assert {("DtoH", 0), ("HtoD", 1)} <= copies


def test_graph(tmp_path):
    x = torch.zeros(16, device="openreg")
    graph = torch.openreg.Graph()
    with torch.openreg.graph(graph):
        for _ in range(5):
            x.add_(1)
    with profile(activities=BOTH) as prof:
        graph.replay()
        graph.replay()
    trace = trace_of(prof, tmp_path)
    check_links(trace)
    nodes = [e["args"]["node of graph"] for e in rows(trace, "kernel")
             if "node of graph" in e["args"]]
    assert nodes == [1, 2, 3, 4, 5] * 2
    assert int(trace["openreg_launches_without_record"]) == 0


@pytest.mark.native
@pytest.mark.parametrize("waits, replays", [(True, 12), (False, 25)])
@pytest.mark.unchecked("the profile has NOTE packets")
def test_large_graph(waits, replays):
    """Replays with more nodes than a ring of records lose none, waiting or not."""
    x = torch.zeros(16, device="openreg")
    graph = torch.openreg.Graph()
    with torch.openreg.graph(graph):
        for _ in range(3000):
            x.add_(1)
    with profile(activities=BOTH) as prof:
        for _ in range(replays):
            graph.replay()
            if waits:
                torch.openreg.synchronize()
    kernels = sum(e.activity_type() == "kernel" for e in prof.profiler.kineto_results.events())
    assert kernels == replays * 3000
    assert x.eq(replays * 3000).all()


def test_large_graph_behind_a_closed_gate(gate, tmp_path):
    """The thread that would wait for records opens the gate later: it must not wait for ever."""
    x = torch.zeros(16, device="openreg")
    graph = torch.openreg.Graph()
    with torch.openreg.graph(graph):
        for _ in range(3000):
            x.add_(1)
    with profile(activities=BOTH) as prof:
        with gate:
            for _ in range(14):
                graph.replay()
        torch.openreg.synchronize()
    assert x.eq(14 * 3000).all()
    assert int(trace_of(prof, tmp_path)["openreg_lost_records"]) > 0


def test_without_the_card(tmp_path):
    x = torch.zeros(16, device="openreg")
    with profile(activities=(ProfilerActivity.CPU,)) as prof:
        x.add_(1)
    trace = trace_of(prof, tmp_path)
    assert not rows(trace, *WORK, "privateuse1_runtime")
    assert any(e["name"] == "aten::add_" for e in rows(trace, "cpu_op"))
    # The next profile has the card again.
    with profile(activities=BOTH) as prof:
        x.add_(1)
    assert len(rows(trace_of(prof, tmp_path), "kernel")) == 1


def test_waits_of_the_host(tmp_path):
    x = torch.randn(2048, 2048, device="openreg")
    with profile(activities=BOTH) as prof:
        (x @ x).sum().item()
        torch.openreg.synchronize()
    trace = trace_of(prof, tmp_path)
    ops = {e["args"].get("External id"): e["name"] for e in rows(trace, "cpu_op")}
    waits = [e for e in rows(trace, "privateuse1_runtime") if e["name"] == "openreg_synchronize"]
    assert "aten::_local_scalar_dense" in {ops.get(e["args"].get("External id")) for e in waits}
    assert any("External id" not in e["args"] for e in waits)


def test_fault(tmp_path):
    """A stream that faults ends its rows; the profile is still there."""
    table = torch.zeros(4, device="openreg")
    index = torch.tensor([9], device="openreg")
    with pytest.raises(torch.AcceleratorError), profile(activities=BOTH) as prof:
        table.add_(1)
        table[index]
        table.add_(1)
        torch.openreg.synchronize()
    torch.openreg.reset()
    with profile(activities=BOTH) as prof:
        table.add_(1)
    trace = trace_of(prof, tmp_path)
    assert [op_of(e) for e in rows(trace, "kernel")] == ["aten::add_.Tensor"]


def shapes_stacks_and_flops(tmp_path):
    x = torch.randn(64, 64, device="openreg")
    with profile(activities=BOTH, record_shapes=True, with_stack=True, with_flops=True,
                 with_modules=True) as prof:
        x @ x
    mm = next(e for e in prof.key_averages(group_by_input_shape=True) if e.key == "aten::mm")
    assert mm.input_shapes == [[64, 64], [64, 64]]
    assert mm.flops == 2 * 64**3
    trace_of(prof, tmp_path)


def test_shapes_stacks_and_flops(run_forked, tmp_path):
    run_forked(ALONE.format('shapes_stacks_and_flops', str(tmp_path)))


def test_execution_trace(tmp_path):
    path = tmp_path / "et.json"
    observer = torch.profiler.ExecutionTraceObserver().register_callback(str(path))
    x = torch.randn(16, 16, device="openreg")
    with profile(activities=BOTH, execution_trace_observer=observer) as prof:
        (x @ x).relu()
    del prof
    nodes = json.loads(path.read_text())["nodes"]
    names = [n["name"] for n in nodes]
    assert "aten::mm" in names and "aten::relu" in names
    assert "openreg:0" in path.read_text()


def test_device_times_without_kineto():
    x = torch.randn(512, 512, device="openreg")
    (x @ x).sum().item()
    start = time.perf_counter()
    with torch.autograd.profiler.profile(use_device="openreg", use_kineto=False) as prof:
        y = x @ x
        y.add_(1)
        torch.openreg.synchronize()
    wall = (time.perf_counter() - start) * 1e6
    times = {e.key: e.device_time_total for e in prof.key_averages()}
    assert 0 < times["aten::mm"] <= wall
    assert 0 < times["aten::add_"] <= wall
    assert all(0 <= t <= wall for t in times.values())
    assert "-" not in str(sum(e.self_device_time_total for e in prof.key_averages()))
    assert "aten::mm" in prof.key_averages().table(sort_by="device_time_total")
