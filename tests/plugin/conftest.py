# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures of the plugin's tests, which need two cards of normal speed (scripts/suite
plugin)."""

import contextlib
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import traceback

import packets
import pytest
import torch


def serve(ours, requests):
    """Runs each piece of code that it receives in a fork of a process that has used no
    card yet."""
    ours.close()
    while True:
        try:
            code, output = requests.recv()
        except EOFError:  # the test process has exited
            return
        pid = os.fork()
        if pid == 0:
            status = 1
            with open(output, "w") as file, contextlib.redirect_stdout(file):
                try:
                    exec(code, {"__name__": "__main__"})
                    status = 0
                except BaseException:
                    traceback.print_exc(file=file)
            os._exit(status)
        requests.send(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def pytest_addoption(parser):
    parser.addoption(
        "--cases", type=int, help="run at most so many cases of each test, evenly spaced"
    )
    parser.addoption(
        "--operators",
        type=int,
        help="run at most so many tests of each file of operators, evenly spaced",
    )


# What these files test computes the same in a VM as in a process.
OPERATORS = re.compile(
    "test_(ops_|sparse|complex|distributions|gamma|dropout|expanded|float8|fake_quantize"
    "|scaled_mm|formats|refused|autocast|amp|vmap|ends_of_range|layouts|many_dims|promotion"
    "|out|cpu_errors|fallback|package_fallback|autograd|deterministic|nested|random)"
)


def sample(items, most, group):
    """Keeps at most so many items with the same group, evenly spaced; all without a group."""
    groups = {}
    for item in items:
        groups.setdefault(group(item) or item, []).append(item)
    kept = []
    for members in groups.values():
        count = min(most, len(members))
        kept += [members[i * len(members) // count] for i in range(count)]
    return kept


def pytest_collection_modifyitems(config, items):
    cases, operators = config.getoption("--cases"), config.getoption("--operators")
    kept = list(items)
    if cases:
        kept = sample(kept, cases, lambda item: item.nodeid.partition("[")[0])
    if operators:
        kept = sample(
            kept, operators, lambda item: OPERATORS.match(item.path.name) and item.path.name
        )
    left_out = set(items).difference(kept)
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
    items[:] = kept
    if os.environ.get("OPENREG_CHECK"):
        for item in items:
            for mark in item.iter_markers("unchecked"):
                item.add_marker(pytest.mark.skip(reason=mark.args[0]))


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "native: has the same result on every card, and is slow on an emulated processor",
    )
    config.addinivalue_line("markers", "long: only the suite sim-plugin-long runs it")
    config.addinivalue_line(
        "markers",
        "unchecked(reason): not for a card that checks programs (OPENREG_CHECK)",
    )
    config.forks, theirs = multiprocessing.Pipe()
    # Use os.fork(): a multiprocessing.Process would drop Python's atexit functions.
    config.fork_server = os.fork()
    if config.fork_server == 0:
        try:
            serve(config.forks, theirs)
        finally:
            os._exit(0)
    os.setpgid(config.fork_server, config.fork_server)
    theirs.close()


def pytest_unconfigure(config):
    os.killpg(config.fork_server, signal.SIGKILL)
    os.waitpid(config.fork_server, 0)


@pytest.fixture(autouse=True)
def settled():
    """Every test leaves idle streams, device 0 and no cached memory behind. A card that checks
    programs (OPENREG_CHECK) finds nothing."""
    known = len(torch.openreg.check_findings()) if torch.openreg.is_initialized() else 0
    yield
    for left in list(packets.Gate.closed):
        left.__exit__()
    if torch.openreg.is_available():
        for index in range(torch.openreg.device_count()):
            torch.openreg.reset(index)
            torch.openreg.synchronize(index)
        torch.openreg.set_device(0)
        torch.openreg.empty_cache()
        found = torch.openreg.check_findings()[known:]
        assert not found, "\n".join(f["text"] for f in found)


@pytest.fixture
def gate():
    """A context that blocks the current stream until its end."""
    return packets.Gate()


@pytest.fixture
def run_forked(request, tmp_path):
    """
    Runs code in a fork that has imported torch but used no card; returns its standard
    output. Prefer it to run_python unless the test is about the start of Python: it saves
    the seconds of a start on an emulated processor. The fork skips Python's shutdown,
    unless the code calls Py_Exit().
    """

    def run(code: str) -> str:
        output = tmp_path / "output"
        forks = request.config.forks
        forks.send((code, str(output)))
        if not forks.poll(300):
            os.killpg(request.config.fork_server, signal.SIGKILL)
            pytest.fail("the process does not end")
        assert forks.recv() == 0, output.read_text()
        return output.read_text()

    return run


@pytest.fixture
def run_python():
    """Runs code in a new Python process; returns its standard output."""

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
