# SPDX-License-Identifier: BSD-3-Clause
"""Autoload, fork, spawn, exit."""

import multiprocessing
import os
import subprocess
import sys

import pytest
import torch


@pytest.mark.starts_python
def test_autoload_and_explicit_import(run_python):
    for code in (
        "import torch; print(torch.openreg.device_count())",
        "import torch_openreg, torch; print(torch.openreg.device_count())",
        "import torch.openreg; print(torch.openreg.device_count())",
    ):
        assert run_python(code) == "2\n"


@pytest.mark.starts_python
def test_autoload_can_be_switched_off(run_python):
    code = "import torch; print(hasattr(torch, 'openreg'))"
    assert run_python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0") == "False\n"


@pytest.mark.starts_python
def test_a_broken_plugin_does_not_take_torch_along(run_python, tmp_path):
    package = tmp_path / "torch_openreg"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('broken on purpose')\n")
    done = subprocess.run(
        [sys.executable, "-c", "import torch; print(torch.ones(2).sum().item())"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ['PYTHONPATH']}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and done.stdout == "2.0\n", done.stderr
    assert "broken on purpose" in done.stderr


def test_a_broken_plugin_when_warnings_are_errors(tmp_path):
    package = tmp_path / "torch_openreg"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('broken on purpose')\n")
    code = (
        "import warnings, torch_openreg_autoload\n"
        "warnings.simplefilter('error')\n"
        "torch_openreg_autoload.autoload()\n"
        "print('fine')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ['PYTHONPATH']}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and done.stdout == "fine\n", done.stderr
    assert "broken on purpose" in done.stderr


def pin_in_child(queue):
    try:
        queue.put(torch.ones(1000).pin_memory().data_ptr())
    except RuntimeError as error:
        queue.put(str(error))


def test_a_forked_child_is_not_handed_the_parents_pinned_memory():
    x = torch.zeros(1000).pin_memory()
    del x  # to the cache
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=pin_in_child, args=(queue,))
    child.start()
    assert "forked subprocess" in str(queue.get(timeout=120))
    child.join()


@pytest.mark.skipif(os.getenv("OPENREG_TRANSPORT") == "sim", reason="is about nodes")
def test_init_opens_the_card(run_forked):
    """A card that may not be opened is none, and init() says so."""
    code = (
        "import glob, os, torch\n"
        "nodes = glob.glob('/dev/openreg*') + glob.glob('/dev/accel/accel*')\n"
        "modes = {node: os.stat(node).st_mode for node in nodes}\n"
        "if os.fork() == 0:\n"
        "    for node in nodes:\n"
        "        os.chmod(node, 0o600)\n"
        "    os.setuid(65534)\n"
        "    ok = not torch.openreg.is_available()\n"
        "    try:\n"
        "        torch.openreg.init()\n"
        "        ok = False\n"
        "    except RuntimeError as error:\n"
        "        ok = ok and '/dev/openreg' in str(error)\n"
        "    os._exit(0 if ok else 1)\n"
        "print(os.waitstatus_to_exitcode(os.wait()[1]))\n"
        "for node, mode in modes.items():\n"
        "    os.chmod(node, mode)\n"
    )
    assert run_forked(code) == "0\n"


def in_child(queue):
    try:
        assert torch.openreg._is_in_bad_fork()
        torch.ones(2).to("openreg")
        queue.put("worked")
    except RuntimeError as error:
        queue.put(str(error))


def test_fork_after_use_is_refused():
    torch.ones(2).to("openreg")
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=in_child, args=(queue,))
    child.start()
    text = queue.get(timeout=120)
    child.join()
    assert child.exitcode == 0
    assert "Cannot re-initialize openreg in forked subprocess" in text
    assert "spawn" in text
    assert torch.ones(2).to("openreg").tolist() == [1, 1]


def test_fork_before_use_works(run_forked):
    code = (
        "import os, torch\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    ok = torch.ones(2).to('openreg').tolist() == [1, 1]\n"
        "    os._exit(0 if ok else 1)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    assert run_forked(code) == "0\n"


WORK = """
import ctypes, __main__, torch
__main__.t = torch.empty(8 << 20, device="openreg")
for _ in range(50):
    __main__.t = __main__.t.clone()
"""


@pytest.mark.starts_python
def test_exit_with_work_in_flight(run_python):
    run_python(WORK)


def test_a_fork_exits_with_work_in_flight(run_forked):
    """As Python does: it takes its modules down, and calls exit()."""
    run_forked(WORK + "ctypes.pythonapi.Py_Exit(0)")


def test_data_loader_with_pinned_memory():
    data = torch.utils.data.TensorDataset(torch.arange(64.0))
    loader = torch.utils.data.DataLoader(data, batch_size=8, pin_memory=True)
    seen = []
    for (batch,) in loader:
        assert batch.is_pinned()
        seen += batch.to("openreg", non_blocking=True).tolist()
    assert seen == list(range(64))
