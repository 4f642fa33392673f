# SPDX-License-Identifier: BSD-3-Clause
"""The callbacks of torch.openreg._gpu_trace, and TORCH_OPENREG_SANITIZER."""

import os
import subprocess
import sys

import pytest

# Each test starts a Python with torch.
pytestmark = pytest.mark.native

CALLBACKS = """
import torch
from torch_openreg import _gpu_trace as trace
seen = []
for name in ("event_creation", "event_deletion", "event_record", "event_wait",
             "memory_allocation", "memory_deallocation", "stream_creation",
             "device_synchronization", "stream_synchronization", "event_synchronization"):
    getattr(trace, "register_callback_for_" + name)(
        lambda *numbers, name=name: seen.append((name, *numbers)))
torch._C._activate_gpu_trace()
def take():
    found = list(seen)
    seen.clear()
    return found
assert torch.openreg._gpu_trace is trace
main = torch.openreg.current_stream()
here = main.native_handle
take()
x = torch.empty(9, device="openreg")
assert take() == [("memory_allocation", x.data_ptr())]
address = x.data_ptr()
del x
assert take() == [("memory_deallocation", address)]
side = torch.openreg.Stream()
assert take() == [("stream_creation", side.native_handle)]
event = torch.openreg.Event()
assert not take()
event.record()
assert take() == [("event_creation", event.event_id), ("event_record", event.event_id, here)]
event.record(side)
assert take() == [("event_record", event.event_id, side.native_handle)]
event.wait(main)
assert take() == [("event_wait", event.event_id, here)]
event.synchronize()
assert take() == [("event_synchronization", event.event_id)]
number = event.event_id
del event
assert take() == [("event_deletion", number)]
main.synchronize()
assert take() == [("stream_synchronization", here)]
torch.openreg.synchronize()
assert take() == [("device_synchronization",)]
x = torch.ones(9, device="openreg")
take()
x.cpu(), x[0].item()
assert take() == [("stream_synchronization", here)] * 2
torch.ones(9)  # of the CPU
assert not take()
"""

RACE = """
import torch
x = torch.ones(9, device="openreg")
side = torch.openreg.Stream()
with torch.openreg.stream(side):
    x.mul_(2)
"""

ORDERED = """
import torch
x = torch.ones(9, device="openreg")
side = torch.openreg.Stream()
side.wait_stream(torch.openreg.current_stream())
with torch.openreg.stream(side):
    x.mul_(2)
torch.openreg.synchronize()
x.add_(1)
torch.nn.Linear(4, 4, device="openreg")(torch.ones(2, 4, device="openreg")).sum().backward()
assert (torch.ones(3) + 1).tolist() == [2, 2, 2]
print(x.tolist()[0])
"""


OTHER_CARD = """
import torch
from torch_openreg._sanitizer import OpenregSanitizerErrors
x = torch.ones(9, device="openreg:1")
with torch.openreg.device(1):
    x.add_(1)  # on the same stream, although it is not that of the current device
y = torch.ones(9, device="openreg:1")
assert torch.openreg.current_device() == 0
torch.openreg.set_stream(torch.openreg.Stream(1))
torch.openreg.set_device(0)
try:
    y.mul_(2)
except OpenregSanitizerErrors as error:
    assert "data race" in str(error.errors[0])
else:
    raise AssertionError("the race on card 1 was not found")
"""


def run(program, **variables):
    return subprocess.run((sys.executable, "-c", program), env={**os.environ, **variables},
                          capture_output=True, text=True, timeout=300)


def test_callbacks():
    done = run(CALLBACKS)
    assert done.returncode == 0, done.stderr


def test_race():
    done = run(RACE, TORCH_OPENREG_SANITIZER="1")
    assert done.returncode
    assert "OpenregSanitizerErrors: detected 1 errors" in done.stderr
    assert "possible data race on tensor" in done.stderr
    for name in ("aten::mul_", "aten::ones"):
        assert name in done.stderr
    assert run(RACE, TORCH_OPENREG_SANITIZER="0").returncode == 0


def test_order():
    done = run(ORDERED, TORCH_OPENREG_SANITIZER="1")
    assert (done.returncode, done.stdout) == (0, "3.0\n"), done.stderr


def test_other_card():
    """An operator runs on the stream of its tensors' device, not of the current device."""
    done = run(OTHER_CARD, TORCH_OPENREG_SANITIZER="1")
    assert done.returncode == 0, done.stderr
