# SPDX-License-Identifier: BSD-3-Clause
"""Device memory: what is used, limiting it, and giving back what is cached."""

import pickle
import sys
from collections import OrderedDict
from typing import Any, Optional

import torch

from . import _C
from ._device import DeviceLike, _get_device_index
from ._memory_summary import summary


def empty_cache() -> None:
    """Gives cached device memory back to the card; waits for its streams."""
    _C.empty_cache()


def empty_host_cache() -> None:
    """Gives cached pinned memory back to the system."""
    torch._C._accelerator_emptyHostCache()


def _flat(nested: dict[str, Any], prefix: str = "") -> "OrderedDict[str, Any]":
    flat: OrderedDict[str, Any] = OrderedDict()
    for name, value in sorted(nested.items()):
        if isinstance(value, dict):
            flat.update(_flat(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat


def memory_stats_as_nested_dict(device: DeviceLike = None) -> dict[str, Any]:
    index = _get_device_index(device)
    if not torch._C._accelerator_isAllocatorInitialized():
        return {}
    stats = dict(torch._C._accelerator_getDeviceStats(index))
    stats.update(_C.oversize_stats(index))
    return stats


def memory_stats(device: DeviceLike = None) -> "OrderedDict[str, Any]":
    """Counts and bytes, by "what.pool.when": see torch.cuda.memory_stats()."""
    return _flat(memory_stats_as_nested_dict(device))


def memory_allocated(device: DeviceLike = None) -> int:
    """Bytes held by tensors now."""
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: DeviceLike = None) -> int:
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: DeviceLike = None) -> int:
    """Bytes of device memory held by this process, cached ones included."""
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: DeviceLike = None) -> int:
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


# What torch.cuda called them before.
memory_cached = memory_reserved
max_memory_cached = max_memory_reserved


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    torch.accelerator.reset_peak_memory_stats(_get_device_index(device))


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    torch.accelerator.reset_accumulated_memory_stats(_get_device_index(device))


# As in torch.cuda, all peaks.
reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_cached = reset_peak_memory_stats


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    return _C.host_memory_stats()


def host_memory_stats() -> "OrderedDict[str, Any]":
    """Of pinned memory: see torch.cuda.host_memory_stats()."""
    return _flat(host_memory_stats_as_nested_dict())


def reset_accumulated_host_memory_stats() -> None:
    _C.reset_accumulated_host_stats()


def reset_peak_host_memory_stats() -> None:
    _C.reset_peak_host_stats()


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """(free, total) bytes of the card's memory, all processes together."""
    return _C.memory_info(_get_device_index(device))


def set_per_process_memory_fraction(
    fraction: float, device: DeviceLike = None
) -> None:
    """Of the card's memory, what this process may hold, cache included. More than that
    is out of memory. What it holds already it keeps."""
    if not isinstance(fraction, (int, float)) or isinstance(fraction, bool):
        raise TypeError(f"fraction is a number, not a {type(fraction).__name__}")
    _C.set_memory_fraction(_get_device_index(device), float(fraction))


def get_per_process_memory_fraction(device: DeviceLike = None) -> float:
    return _C.memory_fraction(_get_device_index(device))


def get_allocator_backend() -> str:
    """Named as torch.cuda names its own of this kind."""
    return "native"


def caching_allocator_alloc(
    size: int, device: DeviceLike = None, stream: Optional[torch.Stream] = None
) -> int:
    """A device address of that many bytes, of the stream's or the current one's."""
    if stream is None:
        return _C.raw_alloc(size, _get_device_index(device))
    from ._streams import StreamContext

    with StreamContext(stream):
        return _C.raw_alloc(size, stream.device_index)


def caching_allocator_delete(mem_ptr: int) -> None:
    _C.raw_free(mem_ptr)


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """The statistics as a table to read."""
    index = _get_device_index(device)
    return summary(memory_stats(index), index, abbreviated)


_ENABLED = (None, "state", "all")
_CONTEXT = (None, "state", "alloc", "all")
_STACKS = ("python", "all")


def _one_of(name: str, value: Optional[str], allowed: tuple) -> str:
    if value not in allowed:
        raise ValueError(f"{name} is one of {allowed}, not {value!r}")
    return value or ""


def _record_memory_history(
    enabled: Optional[str] = "all",
    context: Optional[str] = "all",
    stacks: str = "all",
    max_entries: int = sys.maxsize,
    device: DeviceLike = None,
    clear_history: bool = False,
) -> None:
    """As in torch.cuda.memory: enabled None ends it, "state" keeps where what is held
    now was asked for, "all" keeps what happened as well. Of all devices, whichever
    is named."""
    _get_device_index(device)
    _C.record_memory_history(
        _one_of("enabled", enabled, _ENABLED),
        _one_of("context", context, _CONTEXT),
        _one_of("stacks", stacks, _STACKS) == "all",
        min(max_entries, sys.maxsize),
        clear_history,
    )


def _snapshot(device: DeviceLike = None) -> dict[str, Any]:
    """As torch.cuda.memory._snapshot(): segments of all devices, whichever is named,
    and a trace of each."""
    _get_device_index(device)
    return _C.memory_snapshot(True)


def _dump_snapshot(filename: str = "dump_snapshot.pickle") -> None:
    """A file that pytorch.org/memory_viz opens."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


def memory_snapshot(mempool_id: Any = None, include_traces: bool = True) -> list:
    """The segments of device memory of all devices, and their blocks. As in torch.cuda,
    it is the quicker for include_traces=False, and no other. There are no pools to
    name: mempool_id is None or (0, 0), which is all memory."""
    if mempool_id is not None and tuple(mempool_id) != (0, 0):
        raise ValueError(
            f"there is no pool of memory {mempool_id!r}: torch.openreg has none; "
            "mempool_id is None or (0, 0)"
        )
    return _C.memory_snapshot(bool(include_traces))["segments"]
