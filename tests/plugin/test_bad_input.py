# SPDX-License-Identifier: BSD-3-Clause
"""What is wrong is refused, by the type and the words that torch has for it, and leaves
nothing behind: each case is tried so often that what is lost each time shows."""

import contextlib
import gc
import os

import pytest
import torch

DEV = "openreg"
TRIES = 50


def held():
    """What a refusal may not change: device memory, pinned memory, open files."""
    gc.collect()
    host = torch.openreg.host_memory_stats()
    return (
        [torch.openreg.memory_allocated(index) for index in range(2)],
        {name: host[name] for name in host if name.endswith(".current")},
        len(os.listdir("/proc/self/fd")),
    )


@contextlib.contextmanager
def nothing_is_lost():
    before = held()
    yield
    assert held() == before


def refused(name, call, error=RuntimeError):
    """The text of the error, which is of that type and no other."""
    try:
        call()
    except error as caught:
        return str(caught)
    raise AssertionError(f"{name} was not refused")


def all_refused(cases, error=RuntimeError, words=()):
    """cases: calls by name. Returns their texts by name."""
    texts = {name: refused(name, call, error) for name, call in cases.items()}
    with nothing_is_lost():
        for name, call in cases.items():
            for _ in range(TRIES):
                refused(name, call, error)
    for name, text in texts.items():
        for word in words:
            assert word in text, f"{name}: {text}"
    return texts


WRONG = (2, 15, 100, 127, 128, 1000, -2)

OF_OPENREG = """
    ExternalStream Stream caching_allocator_alloc can_device_access_peer current_stream
    default_stream device_handle device_memory_used get_device_capability
    get_device_name get_device_properties get_per_process_memory_fraction get_rng_state
    get_stream_from_external max_memory_allocated max_memory_cached max_memory_reserved
    mem_get_info memory_allocated memory_cached memory_reserved memory_stats
    memory_stats_as_nested_dict memory_summary queue_stats
    reset reset_accumulated_memory_stats reset_max_memory_allocated
    reset_max_memory_cached reset_peak_memory_stats set_device
    set_per_process_memory_fraction set_rng_state synchronize utilization
    memory._record_memory_history memory._snapshot device _exchange_device
    _maybe_exchange_device
""".split()
# What comes before the index, or by which name it goes.
BEFORE = {
    "ExternalStream": (1,),
    "caching_allocator_alloc": (1,),
    "can_device_access_peer": (0,),
    "get_stream_from_external": (1,),
    "set_per_process_memory_fraction": (1.0,),
    "set_rng_state": (torch.zeros(16, dtype=torch.uint8),),
    "memory._record_memory_history": ("all", "all", "all", 1),
}
# As with torch.cuda, a negative number means none.
NONE_IF_NEGATIVE = {"device", "_exchange_device", "_maybe_exchange_device"}

OF_ACCELERATOR = """
    current_stream device_index get_device_capability get_memory_info
    max_memory_allocated max_memory_reserved memory_allocated memory_reserved
    memory_stats reset_accumulated_memory_stats reset_peak_memory_stats
    set_device_index synchronize
""".split()


def of_module(module, name, index):
    for part in name.split("."):
        module = getattr(module, part)
    made = module(*BEFORE.get(name, ()), index)
    if hasattr(made, "__enter__"):
        with made:
            pass


def calls_with(index):
    where = f"openreg:{index}"
    x = torch.ones(1)
    return {
        "empty": lambda: torch.empty(1, device=where),
        "empty_strided": lambda: torch.empty_strided((1,), (1,), device=where),
        "zeros": lambda: torch.zeros(1, device=torch.device(DEV, index)),
        "by number": lambda: torch.ones(1, device=index),
        "to": lambda: x.to(where),
        "openreg": lambda: x.openreg(index),
        "pickled": lambda: torch.UntypedStorage(4, device=where),
        "storage": lambda: x.untyped_storage().openreg(index),
        "module": lambda: torch.nn.Linear(1, 1).to(where),
        "Generator": lambda: torch.Generator(where),
        "torch.Stream": lambda: torch.Stream(where),
        "like": lambda: torch.ones_like(x, device=where),
    }


@pytest.fixture
def on_card():
    """A card was used already."""
    return torch.zeros(1, device=DEV)


def test_a_device_that_is_not_there(on_card):
    """Who calls learns how many there are, if core lets the number through."""
    for index in WRONG:
        left_out = NONE_IF_NEGATIVE if index < 0 else ()
        cases = {
            name: lambda name=name: of_module(torch.openreg, name, index)
            for name in OF_OPENREG
            if name not in left_out
        }
        error = ValueError if index < 0 else RuntimeError
        texts = {name: refused(name, call, error) for name, call in cases.items()}
        for name, text in texts.items():
            assert "2 cards" in text and "device_count()" in text, f"{name}: {text}"
            assert str(index) in text, f"{name}: {text}"
    assert torch.openreg.current_device() == 0


def test_a_negative_device_means_none():
    for name in NONE_IF_NEGATIVE:
        of_module(torch.openreg, name, -2)
    torch.accelerator.set_device_index(-2)
    assert torch.openreg.current_device() == 0


def test_a_device_that_torch_accelerator_does_not_have(on_card):
    """Core has 8 bits for an index, and refuses what does not fit by its type."""
    for index in WRONG:
        for name in OF_ACCELERATOR:
            if (name, index) == ("set_device_index", -2):
                continue
            if (name, index) == ("device_index", -2):
                continue
            error = TypeError if index > 127 else RuntimeError
            text = refused(
                name, lambda: of_module(torch.accelerator, name, index), error
            )
            if index <= 127:
                assert "2 cards" in text and "device_count()" in text, f"{name}: {text}"
    assert torch.openreg.current_device() == 0


def test_tensors_for_a_device_that_is_not_there(on_card):
    """128 and more core makes negative, which does not mean the current device."""
    for index in WRONG:
        for name, call in calls_with(index).items():
            text = refused(f"{name} {index}", call)
            if index >= 0:
                assert "2 cards" in text and "device_count()" in text, f"{name}: {text}"


def test_wrong_devices_cost_nothing(on_card):
    cases = {}
    for index in WRONG:
        for name in OF_OPENREG:
            if name not in NONE_IF_NEGATIVE:
                cases[name, index] = lambda n=name, i=index: of_module(torch.openreg, n, i)
        for name, call in calls_with(index).items():
            cases[name, index] = call
    names = sorted({name for name, _ in cases})
    with nothing_is_lost():
        for turn in range(TRIES):
            index = WRONG[turn % len(WRONG)]
            for name in names:
                refused(name, cases[name, index], (RuntimeError, ValueError))


def test_statistics_before_the_first_use(run_forked):
    """torch.openreg refuses what is not there then, too; core's own functions have
    nothing to tell of any device, as with torch.cuda."""
    code = (
        "import torch\n"
        "for name in ('memory_stats', 'memory_allocated', 'max_memory_reserved',\n"
        "             'memory_summary', 'default_stream', 'reset_peak_memory_stats'):\n"
        "    try:\n"
        "        getattr(torch.openreg, name)(99)\n"
        "        print(name)\n"
        "    except RuntimeError as error:\n"
        "        assert '2 cards' in str(error), error\n"
        "assert torch.openreg.memory_stats() == {} == torch.openreg.memory_stats(1)\n"
        "assert torch.accelerator.memory_stats(99) == {}\n"
    )
    assert run_forked(code) == ""
