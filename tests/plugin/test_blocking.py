# SPDX-License-Identifier: BSD-3-Clause
"""OPENREG_LAUNCH_BLOCKING: errors at the launch. set_sync_debug_mode(): waits are found."""

import os
import subprocess
import sys

import pytest
import torch

BLOCKING = """
import torch
table, index = torch.zeros(4, device="openreg"), torch.tensor([9], device="openreg")
try:
    table[index]
except torch.AcceleratorError as error:
    print("at the launch:", error)
torch.openreg.reset()
x = torch.zeros(8, device="openreg")
for _ in range(3):
    x.add_(1)
    assert torch.openreg.current_stream().query()
graph = torch.openreg.Graph()
with torch.openreg.graph(graph):
    x.add_(1)
graph.replay()
assert x.tolist() == [4] * 8
"""


def run(**variables):
    return subprocess.run((sys.executable, "-c", BLOCKING), env={**os.environ, **variables},
                          capture_output=True, text=True, timeout=300)


@pytest.mark.native
def test_error_at_its_launch():
    done = run(OPENREG_LAUNCH_BLOCKING="1")
    assert done.returncode == 0, done.stderr
    assert "at the launch:" in done.stdout and "index 9 is out of bounds" in done.stdout


@pytest.fixture
def mode():
    yield torch.openreg.set_sync_debug_mode
    torch.openreg.set_sync_debug_mode("default")


WAITS = {
    "item": lambda x: x.sum().item(),
    "cpu": lambda x: x.cpu(),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "bool": lambda x: bool((x == 0).all()),
    "stream": lambda x: torch.openreg.current_stream().synchronize(),
}


@pytest.mark.parametrize("name", WAITS)
def test_waits_are_found(mode, name):
    x = torch.ones(16, device="openreg")
    mode("warn")
    with pytest.warns(UserWarning, match="waits for the card"):
        WAITS[name](x)
    mode("error")
    with pytest.raises(RuntimeError, match="waits for the card"):
        WAITS[name](x)
    mode("default")
    WAITS[name](x)


def test_what_does_not_wait(mode):
    host = torch.ones(16).pin_memory()
    mode("error")
    x = torch.ones(16, device="openreg")
    (x + 1).mul_(2).sum()
    x.copy_(host, non_blocking=True)
    host.copy_(x, non_blocking=True)
    x.clone()
    torch.openreg.synchronize()  # as in torch.cuda: the program asks for it


def test_modes(mode):
    assert torch.openreg.get_sync_debug_mode() == 0
    for number, name in enumerate(("default", "warn", "error")):
        mode(name)
        assert torch.openreg.get_sync_debug_mode() == number
        mode(number)
        assert torch.openreg.get_sync_debug_mode() == number
    for bad in ("never", 3, -1, None):
        with pytest.raises(RuntimeError, match="sync debug mode"):
            mode(bad)
