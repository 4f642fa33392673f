# SPDX-License-Identifier: BSD-3-Clause
"""torch.accelerator: functions for programs that name no device."""

import pytest
import torch

accelerator = torch.accelerator
LEFT_OUT = {
    "Graph",  # openreg does not capture graphs yet
    "current_device_idx",  # old names of the functions *_index
    "set_device_idx",
}


def test_every_name_is_tested():
    """A new name of torch.accelerator fails this test until another test here uses it."""
    here = open(__file__, encoding="utf-8").read()
    names = set(accelerator.__all__) - LEFT_OUT
    assert {name for name in names if f"accelerator.{name}(" not in here} == set()


def test_devices():
    assert accelerator.is_available() and accelerator.device_count() == 2
    assert accelerator.current_accelerator() == torch.device("openreg")
    accelerator.set_device_index("openreg:1")
    assert accelerator.current_device_index() == 1
    with accelerator.device_index(0):
        assert torch.empty(1, device="openreg").device.index == 0
        with accelerator.device_index(None):
            assert accelerator.current_device_index() == 0
    assert accelerator.current_device_index() == 1
    supported = accelerator.get_device_capability(0)["supported_dtypes"]
    assert {torch.float32, torch.bool} <= supported and torch.complex64 not in supported
    with pytest.raises(RuntimeError, match="openreg:7 does not exist"):
        accelerator.set_device_index(7)


def test_streams():
    side = torch.Stream(device="openreg:1")
    accelerator.set_stream(side)
    assert accelerator.current_stream("openreg:1") == side
    assert accelerator.current_device_index() == 1
    x = torch.arange(1000, device="openreg") * 2
    accelerator.synchronize(1)
    assert side.query() and x.sum().item() == 999000
    accelerator.set_stream(torch.openreg.default_stream(1))


@pytest.mark.unchecked("the sizes of blocks have no red zones")
def test_memory():
    accelerator.empty_cache()
    before = accelerator.memory_allocated()
    x = torch.empty(3 << 20, dtype=torch.uint8, device="openreg")
    assert accelerator.memory_allocated() == before + (3 << 20)
    assert accelerator.memory_reserved() >= accelerator.memory_allocated()
    del x
    assert accelerator.max_memory_allocated() >= before + (3 << 20)
    assert accelerator.max_memory_reserved() >= accelerator.max_memory_allocated()
    accelerator.reset_peak_memory_stats()
    assert accelerator.max_memory_allocated() == accelerator.memory_allocated() == before
    accelerator.reset_accumulated_memory_stats()
    stats = accelerator.memory_stats("openreg:0")
    assert stats["allocated_bytes.all.allocated"] == 0
    free, total = accelerator.get_memory_info(0)
    assert 0 < free <= total
    accelerator.empty_host_cache()


def test_random_states():
    torch.manual_seed(7)
    assert accelerator.random.initial_seed(1) == 7
    state = accelerator.random.get_rng_state()
    x = torch.rand(4, device="openreg")
    torch.openreg.set_rng_state(state)
    assert torch.equal(torch.rand(4, device="openreg"), x)
    assert len(accelerator.random.get_rng_state_all()) == 2
