# SPDX-License-Identifier: BSD-3-Clause
"""OPENREG_CHECK: planted races, uninitialised reads and overruns are found, with operators,
streams and stacks; models and correct programs have no finding."""

import functools
import json
import os
import pathlib
import subprocess
import sys

import pytest

# OPENREG_CHECK is for a card inside the process; x-check of QEMU chooses it for a VM.
pytestmark = pytest.mark.native

HERE = pathlib.Path(__file__).parent

# The names of the cases. Their tensors stay, so that each case has memory of its own.
PROLOGUE = """
import torch
from packets import *
from torch_openreg import _C
D = "openreg"
side, third = torch.openreg.Stream(), torch.openreg.Stream()
def on(stream, work):
    with torch.openreg.stream(stream):
        return work()
x, y = torch.ones(64, device=D), torch.ones(64, device=D)
m = torch.ones(16, 16, device=D)
room = torch.zeros(4096, device=D)
torch.openreg.synchronize()
"""

RUNNER = """
import json, sys
sys.path.insert(0, sys.argv[1])
import torch
prologue, cases = json.load(sys.stdin)
kept, seen, results = [], 0, {}
for name, body in cases.items():
    names = {}
    for part in prologue, body:
        exec(compile(part, "case", "exec"), names)
    kept.append(names)
    found = torch.openreg.check_findings()
    results[name] = found[seen:]
    seen = len(found)
print(json.dumps(results))
"""


def run(cases, what, **variables):
    """Runs the cases in one process. Returns the findings of each, and the standard error."""
    done = subprocess.run(
        (sys.executable, "-c", RUNNER, str(HERE)),
        env={**os.environ, "OPENREG_CHECK": what, "OPENREG_CHECK_LOG": "", **variables},
        input=json.dumps((PROLOGUE, cases)),
        capture_output=True,
        text=True,
        timeout=1500,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def check(body, what="race,init,bounds", **variables):
    found, errors = run({"it": body}, what, **variables)
    return found["it"], errors


@functools.cache
def all_cases():
    cases = {"race " + name: body for name, (body, *_) in RACES.items()}
    cases |= {"init " + name: body for name, (body, *_) in UNWRITTEN.items()}
    cases |= {"bounds " + name: f"_C._launch_raw({made}, 0)"
              for name, (made, *_) in OUT_OF_BOUNDS.items()}
    cases |= {"zone " + name: body for name, (body, *_) in RED_ZONES.items()}
    cases |= {"ordered " + name: body for name, body in ORDERED.items()}
    cases |= {"written": WRITTEN}
    return run(cases, "race,init,bounds")


def found_in(name):
    results, errors = all_cases()
    return results[name], errors


# Two accesses without an order, and the operators that the report must name.
RACES = {
    "write_write": ("x.add_(1); on(side, lambda: x.mul_(2))", "aten::mul", "aten::add"),
    "write_read": ("x.fill_(1); on(side, lambda: x + y)", "aten::add", "aten::fill_"),
    "read_write": ("z = x * y; on(side, lambda: x.sub_(1))", "aten::sub", "aten::mul"),
    "one_row": ("m.add_(1); on(side, lambda: m[3].mul_(2))", "aten::mul", "aten::add"),
    "columns": ("m[:, ::2].add_(1); on(side, lambda: m[:, 2].mul_(2))", "aten::mul", "aten::add"),
    "product": ("m.add_(1); on(side, lambda: m @ m)", "aten::mm", "aten::add"),
    "sum": ("x.exp_(); on(side, lambda: x.sum())", "aten::sum", "aten::exp"),
    "early_event": (
        "x.add_(1); e = torch.openreg.current_stream().record_event(); y.mul_(2)\n"
        "def work():\n    torch.openreg.current_stream().wait_event(e)\n    y.sub_(1)\n"
        "on(side, work)",
        "aten::sub",
        "aten::mul",
    ),
    "third_stream": (
        "x.add_(1)\nside.wait_stream(torch.openreg.current_stream())\non(side, lambda: x.mul_(2))\n"
        "third.wait_stream(torch.openreg.default_stream())\non(third, lambda: x.sub_(1))",
        "aten::sub",
        "aten::mul",
    ),
    # The block of z goes to the next tensor while the other stream still reads it.
    "used_again": (
        "z = torch.ones(1 << 22, device=D)\nside.wait_stream(torch.openreg.current_stream())\n"
        "w = on(side, lambda: z * 2)\ndel z\nz = torch.zeros(1 << 22, device=D)",
        "aten::zero_",
        "aten::mul",
    ),
}


@pytest.mark.parametrize("name", RACES)
def test_race(name):
    _, *operators = RACES[name]
    found, errors = found_in("race " + name)
    assert [f["kind"] for f in found] == ["race"], errors
    (one,) = found
    # The card may run either first.
    named = sorted((one["access"]["op"], one["other"]["op"]))
    assert all(op.startswith(part) for op, part in zip(named, sorted(operators))), one["text"]
    assert one["access"]["stream"] != one["other"]["stream"]
    for access in (one["access"], one["other"]):
        assert any('File "case", line ' in line for line in access["stack"]), one["text"]
    assert "openreg:0 race: " in errors


ORDERED = {
    "wait_stream": "x.add_(1); side.wait_stream(torch.openreg.current_stream())\n"
    "on(side, lambda: x.mul_(2))\ntorch.openreg.current_stream().wait_stream(side)\nx.sub_(1)",
    "synchronize": "x.add_(1); torch.openreg.synchronize(); on(side, lambda: x.mul_(2))\n"
    "side.synchronize(); x.sub_(1)",
    "event": "x.add_(1); e = torch.openreg.Event(); e.record(); e.synchronize()\n"
    "on(side, lambda: x.mul_(2))",
    "query": "x.add_(1); e = torch.openreg.Event(); e.record()\nwhile not e.query(): pass\n"
    "on(side, lambda: x.mul_(2))",
    "item": "x.add_(1); x.sum().item(); on(side, lambda: x.mul_(2))",
    "chain": "x.add_(1); side.wait_stream(torch.openreg.current_stream())\n"
    "third.wait_stream(side)\non(third, lambda: x.mul_(2))",
    "readers": "on(side, lambda: x + y); on(third, lambda: x * y)",
    "columns": "m[:, ::2].add_(1); on(side, lambda: m[:, 1::2].mul_(2))",
    "record_stream": "z = torch.ones(5000, device=D)\n"
    "side.wait_stream(torch.openreg.current_stream())\nw = on(side, lambda: z * 2)\n"
    "z.record_stream(side)\ndel z\nfor _ in range(9): torch.zeros(5000, device=D)",
    "pinned": "h = torch.ones(64).pin_memory()\nfor _ in range(9):\n"
    "    x.copy_(h, non_blocking=True); torch.openreg.synchronize(); h.add_(1)\n"
    "    on(side, lambda: h.copy_(x, non_blocking=True)); side.synchronize()",
    "graph": "g = torch.openreg.Graph()\nwith torch.openreg.graph(g):\n    z = (x + y) * 2\n"
    "for _ in range(3): g.replay()\nz.sum().item()",
}


@pytest.mark.parametrize("name", ORDERED)
def test_no_race(name):
    found, errors = found_in("ordered " + name)
    assert not found, errors


UNWRITTEN = {
    "empty": ("z = torch.empty(100, device=D); z + 1", "aten::add", 400),
    "cpu": ("z = torch.empty(100, device=D); z.cpu()", "Memcpy DtoH", 400),
    "part": ("z = torch.empty(100, device=D); z[:99] = 1; z.sum()", "aten::sum", 4),
    "columns": ("z = torch.empty(8, 8, device=D); z[:, ::2] = 1; z * 2", "aten::mul", 128),
    "product": ("z = torch.empty(16, 16, device=D); m @ z", "aten::mm", 1024),
    "in_place": ("z = torch.empty(100, device=D); z.add_(1)", "aten::add", 400),
}


@pytest.mark.parametrize("name", UNWRITTEN)
def test_uninitialised_read(name):
    _, op, size = UNWRITTEN[name]
    found, errors = found_in("init " + name)
    assert [f["kind"] for f in found] == ["init"], errors
    (one,) = found
    assert one["access"]["op"].startswith(op), one["text"]
    assert one["bytes"] == size
    assert one["other"]["op"] == "openreg::allocate"
    for access in (one["access"], one["other"]):
        assert any('File "case", line ' in line for line in access["stack"]), one["text"]


WRITTEN = """
z = torch.empty(100, device=D); z.fill_(1); z + 1
z = torch.empty(8, 8, device=D); z[:, ::2] = 1; z[:, 1::2] = 2; z * 2
z = torch.empty(8, 8, device=D).t(); z.copy_(torch.ones(8, 8)); z.cpu()
torch.cat([x, y, x]).sum().item()
torch.nn.functional.pad(m, (1, 1, 1, 1)) @ torch.ones(18, 2, device=D)
for n in range(1, 40): torch.ones(n * 37, device=D).sort()[0].sum()
torch.ones(3, 0, device=D).sum()
p = torch.nn.Parameter(torch.ones(8, device=D)); p.grad = torch.ones_like(p)
torch.optim.SGD([p], lr=0.1, momentum=0.9, fused=True).step()
"""


def test_written_memory():
    found, errors = found_in("written")
    assert not found, errors


# Packets that begin in x, of 64 floats, and leave it.
OUT_OF_BOUNDS = {
    "one_more": ("fill(x.data_ptr(), 65)", True, 4),
    "next_block": ("fill(x.data_ptr() + 128, 160)", True, 512),
    "stride": ("fill(x.data_ptr(), 64, stride=2)", True, 252),
    "before": ("fill(x.data_ptr() + 8, 4, stride=-1)", True, 4),
    "read": (
        "packet(COPY, (80,), [(room.data_ptr(), F32, (1,)), (x.data_ptr(), F32, (1,))])",
        False,
        64,
    ),
}


@pytest.mark.parametrize("name", OUT_OF_BOUNDS)
def test_out_of_bounds(name):
    _, written, size = OUT_OF_BOUNDS[name]
    found, errors = found_in("bounds " + name)
    assert [f["kind"] for f in found] == ["bounds"], errors
    (one,) = found
    assert one["access"]["written"] is written
    assert one["bytes"] == size
    assert "outside of its block of 256 bytes" in one["text"]
    assert any('File "case", line ' in line for line in one["access"]["stack"])
    assert any('File "case", line ' in line for line in one["other"]["stack"])


# Two tensors beside each other, of 512 bytes: a red zone separates them.
NEIGHBOURS = """
made = [torch.zeros(128, device=D) for _ in range(40)]
a, b = next((p, q) for p in made for q in made if q.data_ptr() == p.data_ptr() + 1024)
"""
# What each packet accesses, how many bytes, and how far behind the first tensor.
RED_ZONES = {
    "write_behind": (NEIGHBOURS + "_C._launch_raw(fill(a.data_ptr() + 512, 1), 0)", True, 4, 0),
    "write_farther": (NEIGHBOURS + "_C._launch_raw(fill(a.data_ptr() + 600, 8), 0)", True, 32, 88),
    "write_before": (NEIGHBOURS + "_C._launch_raw(fill(b.data_ptr() - 4, 1), 0)", True, 4, 508),
    "write_into_next": (
        NEIGHBOURS + "_C._launch_raw(fill(b.data_ptr() - 64, 32), 0)", True, 128, 448),
    "read_before": (
        NEIGHBOURS + "_C._launch_raw(packet(COPY, (2,), [(room.data_ptr(), F32, (1,)), "
        "(b.data_ptr() - 8, F32, (1,))]), 0)", False, 8, 504),
    "copy_behind": (
        NEIGHBOURS + "_C._launch_raw(packet(COPY, (4,), [(a.data_ptr() + 512, F32, (1,)), "
        "(b.data_ptr(), F32, (1,))]), 0)", True, 16, 0),
}


@pytest.mark.parametrize("name", RED_ZONES)
def test_red_zone(name):
    _, written, size, behind = RED_ZONES[name]
    found, errors = found_in("zone " + name)
    assert [f["kind"] for f in found] == ["bounds"], errors
    (one,) = found
    assert one["access"]["written"] is written and one["bytes"] == size
    place = f"{behind} bytes behind a block of 512" if behind else "outside of its block of 512"
    assert place in one["text"]
    assert one["access"]["stack"] and one["other"]["op"] == "openreg::allocate"
    # The first tensor is named, by the line that allocated it.
    assert 'File "case", line 2' in one["other"]["stack"][0], one["text"]


def test_reported_once_and_to_a_file(tmp_path):
    log = tmp_path / "log"
    body = "for _ in range(20):\n    x.add_(1)\n    on(side, lambda: x.mul_(2))\n"
    found, errors = check(body, OPENREG_CHECK_LOG=str(log))
    assert 1 <= len(found) <= 2
    assert "race" not in errors
    assert log.read_text().count("openreg:0 race: ") == len(found)


def test_choice():
    found, _ = check("x.add_(1); on(side, lambda: x.mul_(2))", what="init,bounds")
    assert not found
    found, _ = check("torch.empty(9, device=D) + 1", what="race,bounds")
    assert not found


def test_unknown_word():
    done = subprocess.run(
        (sys.executable, "-c", "import torch; torch.ones(1, device='openreg')"),
        env={**os.environ, "OPENREG_CHECK": "race,uninit"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode
    assert "OPENREG_CHECK is 'race,uninit': the words are race, init and bounds" in done.stderr


MODEL = """
import test_models
case, model = test_models.on_card({name!r})
inputs = [t.to(D) for t in case.inputs]
test_models.losses(
    case, model, test_models.optimizer_of(case, model, {optimizer!r}), inputs, torch.{dtype})
"""


@pytest.mark.long
def test_models():
    cases = {
        f"{name} {optimizer}": MODEL.format(name=name, optimizer=optimizer, dtype=dtype)
        for name in ("resnet18", "gpt2")
        for optimizer, dtype in (("sgd", "float32"), ("adamw", "bfloat16"))
    }
    found, errors = run(cases, "race,init,bounds")
    assert not any(found.values()), errors


def test_off():
    found, errors = check("x.add_(1); on(side, lambda: x.mul_(2))", what="")
    assert not found and "race" not in errors
