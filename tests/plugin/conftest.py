# SPDX-License-Identifier: BSD-3-Clause
"""The suite wants two cards: scripts/suite plugin."""

import os
import subprocess
import sys

import packets
import pytest
import torch


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "starts_python: the same on any card; slow where the processor is emulated",
    )


@pytest.fixture(autouse=True)
def settled():
    """Every test leaves idle streams, device 0 and no cached memory behind."""
    yield
    for left in list(packets.Gate.closed):
        left.__exit__()
    if torch.openreg.is_available():
        for index in range(torch.openreg.device_count()):
            torch.openreg.reset(index)
            torch.openreg.synchronize(index)
        torch.openreg.set_device(0)
        torch.openreg.empty_cache()


@pytest.fixture
def gate():
    """A context in which the current stream stands still; it goes on after."""
    return packets.Gate()


@pytest.fixture
def run_python():
    """Runs code in a process of its own; returns its standard output."""

    def run(code: str, status: int = 0, **env: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    return run
