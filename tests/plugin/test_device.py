# SPDX-License-Identifier: BSD-3-Clause
"""Devices: their number, the current device, wrong devices."""

import packets
import pytest
import torch
from torch_openreg import _C

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


@pytest.mark.native
def test_uuid(run_python):
    code = "import torch; print(torch.openreg.get_device_properties(%d).uuid)"
    uuids = [str(torch.openreg.get_device_properties(i).uuid) for i in range(2)]
    assert uuids[0] != uuids[1]
    assert run_python(code % 1).split() == uuids[1:]


def test_capability_lists_types():
    supported = torch.accelerator.get_device_capability()["supported_dtypes"]
    assert set(FLOAT_TYPES) <= set(supported)
    assert torch.complex64 not in supported
    # Exactly the dtypes in the card's own list.
    names = {
        *("f32", "f64", "f16", "bf16", "i8", "u8", "i16", "i32", "i64", "bool"),
        *("f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz", "f8e8m0fnu"),
    } & set(torch.openreg.get_device_properties().dtypes)
    assert len(names) == len(supported)
    for index in range(2):
        of_index = torch.accelerator.get_device_capability(index)
        assert of_index["supported_dtypes"] == supported


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


def test_names_of_cuda():
    """torch.openreg has the names that programs often use from torch.cuda."""
    for name in (
        "AcceleratorError Event ExternalStream OutOfMemoryError Stream StreamContext caching_allocator_alloc "
        "caching_allocator_delete can_device_access_peer current_device current_stream "
        "default_generators default_stream device device_count device_memory_used "
        "device_of empty_cache get_allocator_backend get_arch_list "
        "get_device_capability get_device_name get_device_properties "
        "get_per_process_memory_fraction get_rng_state get_rng_state_all "
        "get_stream_from_external get_sync_debug_mode graph graph_pool_handle graphs host_memory_stats host_memory_stats_as_nested_dict "
        "init initial_seed ipc_collect is_available is_bf16_supported "
        "is_current_stream_capturing is_initialized is_tf32_supported manual_seed "
        "make_graphed_callables manual_seed_all max_memory_allocated max_memory_cached max_memory_reserved "
        "mem_get_info memory memory_allocated memory_cached memory_reserved "
        "memory_snapshot memory_stats memory_stats_as_nested_dict memory_summary "
        "random reset_accumulated_host_memory_stats reset_accumulated_memory_stats "
        "reset_max_memory_allocated reset_max_memory_cached "
        "reset_peak_host_memory_stats reset_peak_memory_stats seed seed_all set_device "
        "set_per_process_memory_fraction set_rng_state set_rng_state_all set_stream set_sync_debug_mode "
        "stream streams synchronize utilization"
    ).split():
        assert hasattr(torch.openreg, name), name
        assert hasattr(torch.cuda, name), name
    assert torch.openreg.OutOfMemoryError is torch.OutOfMemoryError
    assert not torch.openreg.is_tf32_supported()
    assert torch.openreg.get_arch_list()
    assert torch.openreg.can_device_access_peer(0, 0)
    assert not torch.openreg.can_device_access_peer(0, 1)
    assert torch.openreg.get_device_capability() >= (1, 0)


def test_synchronize_waits_for_its_device_only(gate):
    """synchronize(1) does not wait for the work of card 0."""
    with gate:
        torch.zeros(8, device="openreg:0")
        torch.accelerator.synchronize(1)
        torch.openreg.synchronize(1)
        assert not torch.openreg.default_stream(0).query()
    torch.accelerator.synchronize(0)
    assert torch.openreg.default_stream(0).query()


def test_faults_are_accelerator_errors():
    with torch.openreg.stream(torch.openreg.Stream()) as _:
        _C._launch_raw(packets.fill(packets.NO_SEGMENT, 4), 0)
        with pytest.raises(torch.AcceleratorError, match="torch.openreg.reset") as caught:
            torch.openreg.current_stream().synchronize()
    assert caught.value.error_code == 3  # OPENREG_FAULT_ADDRESS
    torch.openreg.reset()


def test_pointer_contains_the_card():
    a = torch.empty(4, device="openreg:0")
    b = torch.empty(4, device="openreg:1")
    assert a.data_ptr() >> 56 == b.data_ptr() >> 56 == 0x4F
    assert (a.data_ptr() >> 51) & 15 == 0 and (b.data_ptr() >> 51) & 15 == 1
    assert a[1:].data_ptr() - a.data_ptr() == 4


@pytest.mark.native
def test_cpu_access_to_device_pointer_traps(run_python):
    """The CPU cannot read through a device pointer: the process gets SIGSEGV."""
    run_python(
        "import ctypes, torch\n"
        "t = torch.ones(4, device='openreg')\n"
        "torch.openreg.synchronize()\n"
        "ctypes.string_at(t.data_ptr(), 4)\n",
        status=-11,
    )


@pytest.mark.native
@pytest.mark.parametrize("call", ["init()", "set_device(1)", "synchronize()"])
def test_initialized(run_forked, call):
    code = f"""
import os, torch
from torch._subclasses.fake_tensor import FakeTensorMode
assert not torch.openreg.is_initialized()
torch.openreg.device_count(), torch.openreg.is_available(), torch.manual_seed(1)
torch.openreg.current_device()
assert not torch.openreg.is_initialized()
torch.openreg.{call}
assert torch.openreg.is_initialized()
torch.openreg.set_device(1)
with FakeTensorMode():
    assert torch.ones(1, device="openreg").device.index == 1
if os.fork() == 0:
    told = not torch.openreg.is_initialized() and torch.openreg._is_in_bad_fork()
    try:
        torch.ones(1, device="openreg")
    except RuntimeError as error:
        told = told and "Cannot re-initialize openreg in forked subprocess" in str(error)
        os._exit(0 if told else 1)
    os._exit(2)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
assert torch.ones(1, device="openreg").device.index == 1
"""
    run_forked(code)
