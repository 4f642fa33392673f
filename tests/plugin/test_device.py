# SPDX-License-Identifier: BSD-3-Clause
"""Devices: which are there, which one is current, wrong ones."""

import pytest
import torch

FLOAT_TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def test_two_cards():
    assert torch.openreg.is_available()
    assert torch.openreg.device_count() == 2


def test_accelerator():
    assert torch.accelerator.current_accelerator() == torch.device("openreg")
    assert torch.accelerator.is_available()
    assert torch.accelerator.device_count() == 2
    torch.accelerator.set_device_index(1)
    assert torch.openreg.current_device() == 1
    assert torch.empty(1, device="openreg").device == torch.device("openreg:1")
    torch.accelerator.synchronize()


def test_set_device():
    torch.openreg.set_device("openreg:1")
    assert torch.openreg.current_device() == 1
    torch.openreg.set_device(0)
    assert torch.openreg.current_device() == 0


def test_device_context():
    with torch.openreg.device(1):
        assert torch.openreg.current_device() == 1
        with torch.openreg.device(None):
            assert torch.openreg.current_device() == 1
    assert torch.openreg.current_device() == 0
    other = torch.empty(1, device="openreg:1")
    with torch.openreg.device_of(other):
        assert torch.openreg.current_device() == 1


def test_device_contexts_that_change_nothing():
    torch.openreg.set_device(1)
    for context in [
        torch.openreg.device(None),
        torch.openreg.device(-1),
        torch.openreg.device_of(torch.ones(1)),
    ]:
        with context:
            assert torch.openreg.current_device() == 1
            torch.openreg.set_device(0)
            torch.openreg.set_device(1)


def test_device_context_of_torch():
    with torch.device("openreg:1"):
        assert torch.empty(3).device == torch.device("openreg", 1)


def test_properties():
    for index in range(2):
        p = torch.openreg.get_device_properties(index)
        assert p.total_memory > 0 and p.workers > 0 and p.card == index
        assert {"f32", "f64", "f16", "bf16", "i64", "bool"} <= set(p.dtypes)
        assert {"COPY", "VECTOR", "MATMUL"} <= set(p.packets)
        assert p.pci in torch.openreg.get_device_name(index)


def test_capability_lists_types():
    supported = torch.accelerator.get_device_capability()["supported_dtypes"]
    assert set(FLOAT_TYPES) <= set(supported)
    assert torch.complex64 not in supported


@pytest.mark.parametrize("index", [2, 15, 100])
def test_index_out_of_range(index):
    with pytest.raises(RuntimeError, match="does not exist.*device_count"):
        torch.openreg.set_device(index)
    with pytest.raises(RuntimeError, match=f"openreg:{index} does not exist"):
        torch.empty(1, device=f"openreg:{index}")
    with pytest.raises(RuntimeError, match="does not exist"):
        torch.openreg.synchronize(index)
    with pytest.raises(RuntimeError, match="does not exist"):
        torch.openreg.get_device_properties(index)


def test_wrong_device_arguments():
    with pytest.raises(ValueError, match="expected an openreg device"):
        torch.openreg.set_device("cpu")
    with pytest.raises(ValueError, match="negative"):
        torch.openreg.synchronize(-3)


def test_tensor_methods():
    t = torch.ones(2).openreg()
    assert t.is_openreg and t.device.type == "openreg"
    assert not torch.ones(2).is_openreg
    assert torch.nn.Linear(2, 2).openreg().weight.is_openreg


def test_amp():
    assert torch.openreg.is_bf16_supported()
    assert set(torch.openreg.get_amp_supported_dtype()) == {
        torch.float16,
        torch.bfloat16,
    }
    with torch.autocast("openreg", dtype=torch.bfloat16):
        assert torch.is_autocast_enabled("openreg")
        x = torch.ones(2, 2, device="openreg")
        assert (x @ x).dtype == torch.bfloat16
        assert (x @ x).softmax(0).dtype == torch.float32


def test_pointer_says_its_card():
    a = torch.empty(4, device="openreg:0")
    b = torch.empty(4, device="openreg:1")
    assert a.data_ptr() >> 56 == b.data_ptr() >> 56 == 0x4F
    assert (a.data_ptr() >> 51) & 15 == 0 and (b.data_ptr() >> 51) & 15 == 1
    assert a[1:].data_ptr() - a.data_ptr() == 4


def test_process_touches_no_pointer(run_python):
    """The CPU traps on a device pointer: SIGSEGV and not data."""
    run_python(
        "import ctypes, torch\n"
        "t = torch.ones(4, device='openreg')\n"
        "torch.openreg.synchronize()\n"
        "ctypes.string_at(t.data_ptr(), 4)\n",
        status=-11,
    )
