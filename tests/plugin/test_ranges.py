# SPDX-License-Identifier: BSD-3-Clause
"""torch.openreg.profiler: ranges of operators in the kernel's trace_marker, or in a file."""

import os
import re
import threading

import pytest
import torch
from torch.profiler import record_function

profiler = torch.openreg.profiler


@pytest.fixture
def lines(tmp_path, monkeypatch):
    """Returns the lines that were written since the test began."""
    path = tmp_path / "marker"
    path.touch()
    monkeypatch.setenv("OPENREG_TRACE_MARKER", str(path))
    return lambda: path.read_text().splitlines()


def tree(lines):
    """Returns the ranges as nested lists [name, child, ...], and checks that they nest."""
    top = ["top"]
    stack = [top]
    for line in lines:
        kind, pid, *name = line.split("|", 2)
        assert int(pid) == os.getpid()
        if kind == "B":
            stack.append([*name])
            stack[-2].append(stack[-1])
        else:
            assert kind == "E" and not name and len(stack) > 1
            stack.pop()
    assert len(stack) == 1
    return top[1:]


def names(ranges):
    return [r[0].split(",")[0] for r in ranges]


def test_operators(lines):
    x = torch.randn(4, 8, device="openreg")
    with profiler.emit_ranges():
        with record_function("step"):
            x.t() @ x
        x.add_(1)
    x.mul_(2)
    step, add = tree(lines())
    assert names([step, add]) == ["step", "aten::add_"]
    assert names(step[1:]) == ["aten::t", "aten::matmul"]
    assert names(step[2][1:]) == ["aten::mm"]


def test_shapes_and_backward(lines):
    w = torch.randn(3, 3, device="openreg", requires_grad=True)
    with profiler.emit_ranges(record_shapes=True):
        loss = (w @ w).sum()
        loss.backward()
    text = lines()
    assert any(re.fullmatch(r"B\|\d+\|aten::mm, seq = \d+, sizes = \[\[3, 3\], \[3, 3\]\]", line)
               for line in text), text
    # Backward runs in autograd's thread, and names the number of its forward operator.
    (number,) = {line.split("seq = ")[1].split(",")[0] for line in text if "|aten::matmul" in line}
    assert any("|MmBackward0, seq = " + number in line for line in text), text


def test_ranges_of_the_program(lines):
    with profiler.range("outer"):
        profiler.range_push("a|b\nc")
        profiler.range_pop()
    profiler.mark("moment")
    *ranges, moment = lines()
    assert tree(ranges) == [["outer", ["a|b c"]]]
    assert moment == f"I|{os.getpid()}|moment"


def test_off(lines):
    with profiler.emit_ranges(enabled=False):
        torch.ones(3, device="openreg")
    with profiler.emit_ranges():
        pass
    torch.ones(3, device="openreg")
    assert not lines()


def test_other_thread(lines):
    """Ranges are those of the thread that asked for them."""
    x = torch.zeros(4, device="openreg")
    thread = threading.Thread(target=lambda: x.add_(1))
    with profiler.emit_ranges():
        thread.start()
        thread.join()
    assert not lines()


def test_after_a_profile(lines):
    """A profile and the ranges do not disturb each other, one after the other."""
    x = torch.zeros(4, device="openreg")
    for _ in range(2):
        with torch.profiler.profile() as prof:
            x.add_(1)
        assert any(e.key == "aten::add_" for e in prof.key_averages())
        with profiler.emit_ranges():
            x.add_(1)
    assert names(tree(lines())) == ["aten::add_"] * 2


def test_long_name(lines):
    profiler.mark("n" * 5000)
    (line,) = lines()
    assert 500 < len(line) < 1024


def test_bad_file(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENREG_TRACE_MARKER", str(tmp_path / "none"))
    for call in profiler.emit_ranges().__enter__, lambda: profiler.mark("x"):
        with pytest.raises(RuntimeError, match="No such file.*OPENREG_TRACE_MARKER"):
            call()
    torch.ones(3, device="openreg")


def test_full_file(monkeypatch):
    monkeypatch.setenv("OPENREG_TRACE_MARKER", "/dev/full")
    x = torch.zeros(4, device="openreg")
    with pytest.warns(UserWarning, match="a range was not emitted: No space left"), \
            profiler.emit_ranges():
        x.add_(1)
    assert x.sum().item() == 4
