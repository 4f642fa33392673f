# SPDX-License-Identifier: BSD-3-Clause
"""Processes: autoload of the plugin, fork, spawn, exit."""

import multiprocessing
import os
import subprocess
import sys

import pytest
import torch


@pytest.mark.native
def test_autoload_and_explicit_import(run_python):
    for code in (
        "import torch; print(torch.openreg.device_count())",
        "import torch_openreg, torch; print(torch.openreg.device_count())",
        "import torch.openreg; print(torch.openreg.device_count())",
    ):
        assert run_python(code) == "2\n"


@pytest.mark.native
def test_autoload_can_be_switched_off(run_python):
    code = "import torch; print(hasattr(torch, 'openreg'))"
    assert run_python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0") == "False\n"


LOADS_TORCH = "import torch; print(torch.ones(2).sum().item())"
LOADS_IT_WITH_WARNINGS_AS_ERRORS = """
import warnings, torch_openreg_autoload
warnings.simplefilter('error')
torch_openreg_autoload.autoload()
print('fine')
"""


@pytest.mark.parametrize(
    ("code", "output"),
    [
        pytest.param(LOADS_TORCH, "2.0\n", marks=pytest.mark.native),
        (LOADS_IT_WITH_WARNINGS_AS_ERRORS, "fine\n"),
    ],
)
def test_broken_plugin_does_not_break_torch(code, output, tmp_path):
    package = tmp_path / "torch_openreg"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('broken on purpose')\n")
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ['PYTHONPATH']}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and done.stdout == output, done.stderr
    assert "broken on purpose" in done.stderr


def pin_in_child(queue):
    try:
        queue.put(torch.ones(1000).pin_memory().data_ptr())
    except RuntimeError as error:
        queue.put(str(error))


def test_forked_child_gets_no_pinned_memory_of_its_parent():
    x = torch.zeros(1000).pin_memory()
    del x  # the cache keeps the memory
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=pin_in_child, args=(queue,))
    child.start()
    assert "forked subprocess" in str(queue.get(timeout=120))
    child.join()


@pytest.mark.skipif(os.getenv("OPENREG_TRANSPORT") == "sim", reason="is about nodes")
def test_init_opens_the_card(run_forked):
    """A card without permission to open it counts as missing, and init() raises."""
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


@pytest.mark.native
def test_exit_with_work_in_flight(run_python):
    run_python(WORK)


def test_a_fork_exits_with_work_in_flight(run_forked):
    """Py_Exit() runs Python's shutdown and then exit()."""
    run_forked(WORK + "ctypes.pythonapi.Py_Exit(0)")


def test_data_loader_with_pinned_memory():
    data = torch.utils.data.TensorDataset(torch.arange(64.0))
    loader = torch.utils.data.DataLoader(data, batch_size=8, pin_memory=True)
    seen = []
    for (batch,) in loader:
        assert batch.is_pinned()
        seen += batch.to("openreg", non_blocking=True).tolist()
    assert seen == list(range(64))


def drop_in_child(pinned):
    pinned.clear()
    torch.openreg.memory.empty_cache()


def test_a_child_drops_pinned_memory():
    """A child may drop inherited pinned memory. Only the parent must wait for the card."""
    pinned = [torch.ones(1000).pin_memory()]
    x = pinned[0].to("openreg", non_blocking=True)
    child = torch.multiprocessing.get_context("fork").Process(
        target=drop_in_child, args=(pinned,)
    )
    child.start()
    child.join(300)
    assert child.exitcode == 0 and x.sum().item() == 1000


def use_in_child(x, done, pending, streams, queue):
    """Tries every call on the inherited objects in the child."""
    stream, other = streams
    calls = {
        "an operator": lambda: x + 1,
        "cpu": lambda: x.cpu(),
        "print": lambda: str(x),
        "item": lambda: x[0].item(),
        "copy_": lambda: x.copy_(torch.ones(8)),
        "new": lambda: torch.empty(8, device="openreg"),
        "tolist": lambda: x.tolist(),
        "query of a stream": stream.query,
        "query of an idle one": other.query,
        "synchronize a stream": stream.synchronize,
        "record_event": stream.record_event,
        "wait_stream": lambda: other.wait_stream(stream),
        "native_handle": lambda: stream.native_handle,
        "current_stream": torch.openreg.current_stream,
        "enter a stream": lambda: torch.openreg.stream(stream).__enter__(),
        "synchronize": torch.openreg.synchronize,
        "synchronize all": torch.accelerator.synchronize,
        "reset": torch.openreg.reset,
        "queue_stats": torch.openreg.queue_stats,
        "utilization": torch.openreg.utilization,
        "mem_get_info": torch.openreg.mem_get_info,
        "memory_allocated": torch.openreg.memory_allocated,
        "memory_summary": torch.openreg.memory_summary,
        "reset_peak_memory_stats": torch.openreg.reset_peak_memory_stats,
        "_snapshot": torch.openreg.memory._snapshot,
        "record_stream": lambda: x.record_stream(other),
    }
    for name, event in (("done", done), ("pending", pending)):
        calls |= {
            f"query of an event {name}": event.query,
            f"record an event {name}": event.record,
            f"record an event {name} on a stream": lambda e=event: e.record(stream),
            f"wait for an event {name}": event.wait,
            f"a stream waits for an event {name}": lambda e=event: other.wait_event(e),
            f"synchronize an event {name}": event.synchronize,
            f"elapsed_time to an event {name}": lambda e=event: done.elapsed_time(e),
        }
    for name, call in calls.items():
        try:
            result = f"{call()!r:.40}"
        except RuntimeError as error:
            result = str(error)
        except BaseException as error:
            result = repr(error)
        queue.put((name, result))
    del x, done, pending, stream, other, streams, calls
    torch.openreg.empty_cache()
    queue.put(None)


def test_inherited_objects_are_refused(gate):
    """Every call on them raises in a child. A query of the parent's work would never return
    true there."""
    streams = torch.openreg.Stream(), torch.openreg.Stream()
    done = torch.openreg.Event(enable_timing=True)
    pending = torch.openreg.Event(enable_timing=True)
    done.record()
    done.synchronize()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    with torch.openreg.stream(streams[0]):
        x = torch.ones(8, device="openreg")
        with gate:
            pending.record()
            child = context.Process(
                target=use_in_child, args=(x, done, pending, streams, queue)
            )
            child.start()
            seen = dict(iter(lambda: queue.get(timeout=300), None))
            child.join(300)
            assert not pending.query()
    assert child.exitcode == 0
    usual = "Cannot re-initialize openreg in forked subprocess"
    wrong = {name: text for name, text in seen.items() if usual not in text}
    assert not wrong and len(seen) == 40
    torch.openreg.synchronize()
    assert pending.query() and (x + 1).tolist() == [2] * 8


@pytest.mark.native
@pytest.mark.long
def test_environment_for_accelerate(run_python):
    code = "import os, torch; print(os.environ.get('ACCELERATE_TORCH_DEVICE'))"
    env = dict(os.environ)
    os.environ.pop("ACCELERATE_TORCH_DEVICE", None)
    try:
        assert run_python(code) == "openreg\n"
        assert run_python(code, ACCELERATE_TORCH_DEVICE="cpu") == "cpu\n"
        assert run_python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0") == "None\n"
        for none_visible in ("", " ", "-1", "-1,0"):
            assert run_python(code, OPENREG_VISIBLE_DEVICES=none_visible) == "None\n"
        none = {"OPENREG_TRANSPORT": "sim", "OPENREG_SIM_CARDS": "0"}
        assert run_python(code, **none) == "None\n"
    finally:
        os.environ.update(env)


@pytest.mark.native
def test_collect_env(run_python):
    code = "import runpy; runpy.run_module('torch_openreg.collect_env', run_name='__main__')"
    text = run_python(code, OPENREG_VISIBLE_DEVICES="1,0")
    assert "openreg cards: 2\n" in text and "openreg:0: card 1 at " in text
    assert "OPENREG_VISIBLE_DEVICES=1,0\n" in text and "PyTorch version: " in text
    text = run_python(code, OPENREG_VISIBLE_DEVICES="")
    assert "none that can be used" in text and "PyTorch version: " in text


@pytest.mark.native
def test_visible_devices(run_python):
    code = """
import torch
cards = [torch.openreg.get_device_properties(i).card for i in range(torch.openreg.device_count())]
print(cards, [torch.full((2,), i, device=f"openreg:{i}").cpu().tolist() for i in range(len(cards))])
x = torch.arange(3.0, device=f"openreg:{len(cards) - 1}")
assert (x.to("openreg:0") + 1).tolist() == [1, 2, 3]
"""
    assert run_python(code, OPENREG_VISIBLE_DEVICES="1") == "[1] [[0, 0]]\n"
    assert run_python(code, OPENREG_VISIBLE_DEVICES="1,0") == "[1, 0] [[0, 0], [1, 1]]\n"
    code = """
import torch
assert not torch.openreg.is_available() and torch.openreg.device_count() == 0
try:
    torch.ones(1, device="openreg")
except RuntimeError as error:
    print(error)
"""
    text = run_python(code, OPENREG_VISIBLE_DEVICES="x")
    assert "OPENREG_VISIBLE_DEVICES='x' leaves 0 of" in text
