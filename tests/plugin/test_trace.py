# SPDX-License-Identifier: BSD-3-Clause
"""openreg-trace: operators, library and card on one clock, and what it says of bad input."""

import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys

import pytest
import trace_files
from trace_files import check_arrows, check_nesting, end, marks, row, spans

pytestmark = [
    pytest.mark.native,
    pytest.mark.unchecked("the trace has NOTE packets"),
    pytest.mark.skipif(not shutil.which("openreg-trace"), reason="openreg-trace is not there"),
]

SOUND = ("openreg_lost_records", "openreg_bad_records", "openreg_packets_without_record",
         "openreg_dropped_events", "openreg_unfinished_processes")

PROGRAM = """
import time
import torch
from torch.profiler import ProfilerActivity, profile, record_function

a = torch.rand(16, device="openreg")
for _ in range(100):
    b = a + a
torch.openreg.synchronize()
with record_function("the one"):
    (a @ a).item()

for _ in range(5_000):
    a.add_(1)
torch.openreg.synchronize()

time.sleep(0.05)
m = torch.rand(512, 512, device="openreg")
m @ m
torch.openreg.synchronize()

with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as prof:
    for _ in range(50):
        b = a * a
kernels = [e for e in prof.profiler.kineto_results.events() if e.activity_type() == "kernel"]
assert len(kernels) == 50, len(kernels)
b = a * a

side = torch.openreg.Stream()
large = torch.rand(2048, 2048, device="openreg")
large @ large  # no event below is over when the other stream is to wait for it
for _ in range(20):
    c = m @ m
    event = torch.openreg.current_stream().record_event()
    side.wait_event(event)
    with torch.openreg.stream(side):
        m.exp()
torch.openreg.synchronize()

table = torch.zeros(4, device="openreg")
index = torch.tensor([9], device="openreg")
try:
    table[index]
    torch.openreg.synchronize()
except RuntimeError:
    torch.openreg.reset()
table.sub_(1).sum().item()
"""


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return trace_files.python(tmp_path_factory.mktemp("trace"), PROGRAM)[0]


def packets_of(trace, operator):
    return [e for e in spans(trace, "card") if e["args"]["operator"] == operator]


def test_sound(trace):
    """Spans nest, no packet is before its launch, and nothing is lost."""
    check_nesting(trace)
    check_arrows(trace)
    assert [trace[key] for key in SOUND] == [0] * len(SOUND)
    assert trace["openreg_clock_error_ns"] < 20_000


def test_launch_in_operator(trace):
    adds = [e for e in spans(trace, "operator") if e["name"] == "aten::add"]
    packets = packets_of(trace, "aten::add.Tensor")
    submits = [e for e in spans(trace, "library") if e["name"] == "submit"]
    assert len(adds) == len(packets) == 100
    for add, packet in zip(adds, packets):
        inside = [e for e in submits[:1000]
                  if row(e) == row(add) and add["ts"] <= e["ts"] and end(e) <= end(add)]
        assert len(inside) == 1
        args = inside[0]["args"]
        assert args["first packet"] <= packet["args"]["sequence"] <= args["last packet"]
        assert packet["ts"] >= inside[0]["ts"]


def test_item_waits(trace):
    the_one = next(e for e in spans(trace, "operator") if e["name"] == "the one")
    product = next(e for e in spans(trace, "card") if the_one["ts"] <= e["ts"])
    assert end(product) <= end(the_one)


def test_every_launch(trace):
    packets = packets_of(trace, "aten::add_.Tensor")
    numbers = [e["args"]["sequence"] for e in packets]
    assert len(numbers) == len(set(numbers)) == 5_000
    assert numbers == sorted(numbers)


def test_library(trace):
    library = spans(trace, "library")
    names = {e["name"] for e in library}
    assert {"submit", "doorbell", "wait"} <= names
    submits = [e for e in library if e["name"] == "submit"]
    for e in library:
        if e["name"] == "doorbell":
            assert any(o["ts"] <= e["ts"] and end(e) <= end(o) for o in submits)


def test_two_streams(trace):
    """A packet behind a WAIT begins after the packets before the SIGNAL."""
    products = packets_of(trace, "aten::mm")[-20:]
    after = [e for e in spans(trace, "card") if "aten::exp" in e["args"]["operator"]]
    waits = [e for e in spans(trace, "card") if e["args"]["packet"] == "WAIT"]
    assert len(products) == len(after) == len(waits) == 20
    assert {row(e) for e in waits} == {row(e) for e in after} != {row(e) for e in products}
    for product, wait, last in zip(products, waits, after):
        assert end(product) <= end(wait) + 0.002
        assert end(wait) <= last["ts"] + 0.002


def test_profiler_inside(trace):
    """torch.profiler and openreg-trace each see all packets."""
    assert len(packets_of(trace, "aten::mul.Tensor")) == 51


def test_fault_and_reset(trace):
    assert trace["openreg_faults"] == 1
    assert trace["openreg_resets"] >= 1
    faults = marks(trace, "fault")
    assert any("index" in e["args"].get("text", "") for e in faults)
    reset = marks(trace, "reset of the queue")[0]
    assert all(e["ts"] <= reset["ts"] for e in faults)
    assert any("aten::sub_" in e["name"] and e["ts"] > reset["ts"] for e in spans(trace, "card"))


def test_processes(tmp_path):
    """A COMMAND that forks: each process that uses a card has rows."""
    trace, said = trace_files.python(tmp_path, """
import os, sys
import torch
pid = os.fork()
if not pid:
    torch.zeros(16, device="openreg").add_(1).sum().item()
    sys.exit(0)
os.waitpid(pid, 0)
torch.zeros(16, device="openreg").add_(3).sum().item()
""")
    check_arrows(trace)
    assert "2 processes" in said
    adds = [e for e in spans(trace, "operator") if e["name"] == "aten::add_"]
    assert len({e["pid"] for e in adds}) == 2


def record(seq, begin, finish, opcode=3, stall=0):
    return struct.pack("<QQQQQQIHHIHH", seq, begin, finish, stall, 0, 0, 0, opcode, 0, 1, 1, 0)


def test_hostile_records(tmp_path):
    """A card that writes nonsense: no row, a mark, and the good records are there."""
    sys.path.insert(0, os.path.join(os.path.dirname(shutil.which("openreg-trace")),
                                    "../share/openreg-trace"))
    import chrome
    import timeline

    def event(kind, time, number=0, value=0, ns=0, rest=b""):
        more = -(-len(rest) // 32)
        return struct.pack("<QQIIIHH", time, value, ns or len(rest), number, 7, kind, more) + \
            rest.ljust(more * 32, b"\0")

    good = [record(2, 2000, 3000), record(3, 3000, 4000), record(6, 7000, 8000)]
    bad = [record(4, 5000, 4500), record(4, 100, 200), record(999, 5000, 6000),
           record(1, 5000, 6000), record(5, 1 << 63, (1 << 63) + 5), record(5, 5000, 6000, 99),
           record(5, 5000, 6000, stall=1 << 60), os.urandom(64)]
    events = [event(timeline.THREAD, 1000, rest=b"main"),
              event(timeline.DEVICE, 1000, 1, 1, rest=b"card"),
              event(timeline.CLOCK, 1000, 1, 1000, 10),
              event(timeline.QUEUE, 1000, 2, 1 | 5 << 32),
              event(timeline.SUBMIT, 1500, 2, 6, 100)]
    events += [event(timeline.CARD_RECORD, 9000, 2, rest=r) for r in good[:2] + bad + good[2:]]
    events += [event(timeline.QUEUE_END, 9500, 2, 6)]
    head = struct.pack("<QIIQQQ64s", timeline.MAGIC, 7, 0, 0, 900, 9900, b"hostile").ljust(4096, b"\0")
    path = tmp_path / "7-0.timeline"
    path.write_bytes(head + b"".join(events) + bytes(64))
    out = tmp_path / "trace.json"
    facts = chrome.write(out, [timeline.Timeline(path)], [], 0)
    assert facts["openreg_bad_records"] == len(bad)
    assert facts["openreg_packets"] == len(good)
    assert facts["openreg_packets_without_record"] == 2
    # A file that ends in the middle of an event, or has one of no known kind.
    path.write_bytes(head + b"".join(events)[:-40])
    assert timeline.Timeline(path).queues
    for broken in (head[:100], bytes(8192), head + event(200, 1000)):
        path.write_bytes(broken)
        with pytest.raises(ValueError):
            timeline.Timeline(path)


def test_host(tmp_path):
    """QEMU's events get the VM's time, in the VM's order; a migration is a mark."""
    at = 1_700_000_000_000_000_000  # the host's time when CLOCK is 0

    def line(card_us, event):
        ns = at + card_us * 1000
        return f"9@{ns // 10**9}.{ns // 1000 % 10**6:06}:{event}\n"

    def read(card_us):
        return line(card_us, f"openreg_reg_read register 0x058 size 8 is {card_us * 1000 - 2000:#x}")

    (tmp_path / "qemu.41").write_text(
        read(100) + line(150, "openreg_doorbell page 3") + read(900_100) +
        line(900_200, "openreg_pause reasons 1") + line(970_000, "openreg_save 512 bytes") + "garbage\n9@1.000001:openreg_")
    # The second QEMU runs a second later, and the clock stood still in between.
    at += 1_000_000_000
    (tmp_path / "qemu.42").write_text(
        line(700_000, "openreg_load 512 bytes") + line(900_250, "openreg_unpause reasons 0") +
        read(900_400))
    (tmp_path / "threads").write_text(f"42 9 {at + 900_300_000} {at + 905_300_000} 2500000 CPU 0/TCG\n")
    path = tmp_path / "trace.json"
    offset = 5_000_000_000  # CLOCK_MONOTONIC in the VM when CLOCK is 0
    path.write_text(json.dumps({
        "traceEvents": [], "openreg_base_monotonic_ns": offset, "openreg_clock_error_ns": 100,
        "openreg_clocks": {"/dev/openreg": [[0, offset], [10**9, offset + 10**9]]}}))
    tool = pathlib.Path(__file__).parents[2] / "scripts/lib/host_trace.py"
    done = subprocess.run([sys.executable, "-B", tool, tmp_path, path], check=True,
                          capture_output=True, text=True)
    assert "5 events of 2 QEMU" in done.stdout
    trace = json.loads(path.read_text())
    error = trace["openreg_host_clock_error_ns"] / 1000
    assert 10 <= error < 20
    found = {e["name"]: e for e in trace["traceEvents"] if e["ph"] == "i"}
    assert found["openreg_doorbell"]["ts"] == pytest.approx(150, abs=error)
    saved, loaded = (found[f"migration: the card is {how} here"] for how in ("saved", "loaded"))
    assert saved["ts"] == pytest.approx(900_200, abs=error)
    assert loaded["ts"] == pytest.approx(900_250, abs=error)
    shares = [e for e in trace["traceEvents"] if e["ph"] == "C"]
    assert [e["args"]["share"] for e in shares] == [50, 0] and "CPU 0/TCG" in shares[0]["name"]
    (tmp_path / "qemu.41").write_text("")
    (tmp_path / "qemu.42").write_text("")
    done = subprocess.run([sys.executable, "-B", tool, tmp_path, path], capture_output=True, text=True)
    assert done.returncode and "no read of the clock" in done.stderr
