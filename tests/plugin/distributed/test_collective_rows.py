# SPDX-License-Identifier: BSD-3-Clause
"""torch.profiler: a row of the card for each collective, with what core records of it."""

import json

import pytest
import torch
import torch.distributed as dist
from ranks import card
from torch.profiler import ProfilerActivity, profile

BOTH = (ProfilerActivity.CPU, ProfilerActivity.PrivateUse1)
NOTES = ("Collective name", "In msg nelems", "Out msg nelems", "dtype", "Group size", "Rank",
         "Process Group Name")


def profiled(work, path):
    """Returns the rows of the collectives on the card, of core, and of the launches."""
    with profile(activities=BOTH) as prof:
        work()
        torch.openreg.synchronize()
    prof.export_chrome_trace(path)
    with open(path) as file:
        trace = json.load(file)
    rows = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    return (
        sorted((e for e in rows if e["name"].startswith("OCCL kernel")), key=lambda e: e["ts"]),
        {e["args"]["External id"]: e for e in rows if e["name"] == "record_param_comms"},
        {e["args"]["correlation"]: e for e in rows if e["name"] == "openreg_launch"},
    )


def some_collectives():
    x = torch.ones(1000, device=card())
    large = torch.ones(3 << 20, device=card())
    out = torch.empty(2000, device=card())
    dist.all_reduce(x)
    dist.all_gather_into_tensor(out, x, async_op=True).wait()
    dist.all_reduce(large)
    dist.barrier()


def collectives(path):
    some_collectives()
    return profiled(some_collectives, path)


@pytest.mark.native
def test_collectives(pair, tmp_path):
    for rank in range(2):
        pair.send(rank, collectives, str(tmp_path / f"{rank}.json"))
    for rank in range(2):
        found, of_core, launches = pair.result(rank)
        first, gather, large = [e for e in found if e["args"]["In msg nelems"] > 1]
        assert first["args"]["Collective name"] == "allreduce"
        assert first["name"] == large["name"] == "OCCL kernel (allreduce)"
        assert first["args"]["In msg nelems"] == 1000
        assert (gather["args"]["In msg nelems"], gather["args"]["Out msg nelems"]) == (1000, 2000)
        assert large["args"]["In msg nelems"] == 3 << 20
        assert large["args"]["packets"] > first["args"]["packets"]
        assert large["args"]["bytes"] >= 12 << 20 and large["args"]["busy ns"] > 0
        end = 0
        for e in found:
            assert e["ts"] >= end - 0.002  # one queue runs them in order
            end = e["ts"] + e["dur"]
            assert e["ts"] >= launches[e["args"]["correlation"]]["ts"]
            core = of_core[e["args"]["External id"]]
            for note in NOTES:
                assert e["args"][note] == core["args"][note], note
            assert e["args"]["Group size"] == 2 and e["args"]["Rank"] == rank
            assert e["args"]["stream"] == e["tid"] != 0


def transfers(path):
    x = torch.ones(500, device=card())
    peer = 1 - dist.get_rank()

    def work():
        if dist.get_rank():
            dist.recv(x, peer)
            dist.send(x, peer)
        else:
            dist.send(x, peer)
            dist.recv(x, peer)

    work()
    return profiled(work, path)


@pytest.mark.native
def test_transfers(pair, tmp_path):
    for rank in range(2):
        pair.send(rank, transfers, str(tmp_path / f"{rank}.json"))
    for rank in range(2):
        found, of_core, _ = pair.result(rank)
        names = sorted(e["name"] for e in found)
        assert names == ["OCCL kernel (recv)", "OCCL kernel (send)"]
        assert {e["args"]["In msg nelems"] for e in found} == {500}
        assert all(e["args"]["External id"] in of_core for e in found)


def short_group(path):
    x = torch.ones(10, device=card())

    def work():
        group = dist.new_group()
        for _ in range(3):
            dist.all_reduce(x, group=group)
        torch.openreg.synchronize()
        dist.destroy_process_group(group)

    return profiled(work, path)


@pytest.mark.native
def test_group_that_begins_and_ends_in_the_profile(pair, tmp_path):
    for rank in range(2):
        pair.send(rank, short_group, str(tmp_path / f"{rank}.json"))
    for rank in range(2):
        found, *_ = pair.result(rank)
        assert sum(e["args"]["In msg nelems"] == 10 for e in found) == 3
        assert len({e["args"]["correlation"] for e in found}) == len(found)


def times(path):
    x = torch.ones(1 << 20, device=card())
    with profile(activities=BOTH) as prof:
        for _ in range(20):
            dist.all_reduce(x)
            x.mul_(0.5)
        torch.openreg.synchronize()
    averages = {(e.key, e.device_type.name): e for e in prof.key_averages()}
    row = averages["OCCL kernel (allreduce)", "OPENREG"]
    return row.count, row.self_device_time_total, averages["record_param_comms", "CPU"]\
        .device_time_total, torch.equal(x.cpu(), torch.ones(1 << 20))


def test_key_averages(pair):
    for count, on_card, of_core, right in (pair.run(times, "")):
        assert count == 20 and right
        assert of_core == pytest.approx(on_card) and on_card > 0


def calls(path):
    """Calls each collective, and returns its rows of the CPU: names, shapes, core's counts."""
    rank = dist.get_rank()
    x = torch.ones(6, device=card())
    small = torch.ones(3, device=card())
    parts = [small + 1, small + 2]
    with profile(activities=(ProfilerActivity.CPU,), record_shapes=True) as prof:
        dist.all_reduce(torch.ones(4, dtype=torch.complex64, device=card()))
        dist.broadcast(x, 0)
        dist.all_gather(parts, small)
        dist.scatter(small, parts if rank == 0 else None, 0)
        dist.reduce_scatter(small, parts)
        dist.reduce_scatter_tensor(small, x)
        dist.all_to_all(parts, [small, small * 2])
        dist.all_to_all_single(x, torch.ones(6, device=card()))
        dist.send(x, 1) if rank == 0 else dist.recv(x, 0)
        torch.openreg.synchronize()
    rows = [e for e in prof.events() if e.name.startswith("occl:")]
    prof.export_chrome_trace(path)
    with open(path) as file:
        core = [e for e in json.load(file)["traceEvents"] if e["name"] == "record_param_comms"]
    return (
        [(e.name.removeprefix("occl:"), e.input_shapes) for e in rows],
        all(e.is_async and e.device_type.name == "CPU" and e.cpu_time >= 0 for e in rows),
        [[e["args"][n] for n in ("Collective name", "In msg nelems", "Out msg nelems")]
         for e in core if e["args"]["Collective name"] != "wait"],
        sum(e["args"]["Collective name"] == "wait" for e in core),
    )


def test_calls(pair, tmp_path):
    for rank in range(2):
        pair.send(rank, calls, str(tmp_path / f"{rank}.json"))
    for rank in range(2):
        rows, right, core, waits = pair.result(rank)
        sends = rank == 0
        assert rows == [
            ("all_reduce", [[4, 2]]),
            ("broadcast", [[6]]),
            ("all_gather", [[3]]),
            ("scatter", [[3], [3]] if sends else []),
            ("reduce_scatter", [[3], [3]]),
            ("reduce_scatter_tensor", [[6]]),
            ("all_to_all", [[3], [3]]),
            ("all_to_all", [[6]]),
            ("send" if sends else "recv", [[6]]),
        ]
        assert right and waits == 9
        assert core == [
            ["allreduce", 8, 8],
            ["broadcast", 6, 6],
            ["all_gather", 3, 6],
            ["scatter", 6 if sends else 0, 3],
            ["reduce_scatter", 6, 3],
            ["_reduce_scatter_base", 6, 3],
            ["all_to_all", 6, 6],
            ["all_to_all", 6, 6],
            ["send" if sends else "recv", 6, 6],
        ]


def off():
    before = dist.get_rank()
    x = torch.ones(1000, device=card())
    with profile(activities=(ProfilerActivity.CPU,)) as prof:
        dist.all_reduce(x)
        torch.openreg.synchronize()
    return before, [e.name() for e in prof.profiler.kineto_results.events()]


@pytest.mark.native
def test_profile_of_the_cpu(pair):
    for _, names in pair.run(off):
        assert "record_param_comms" in names and "occl:all_reduce" in names
        assert not any(name.startswith("OCCL") for name in names)
