# SPDX-License-Identifier: BSD-3-Clause
"""Device memory: its use, its limit, and the release of cached memory."""

import pickle
import sys
from collections import OrderedDict
from typing import Any, Optional

import torch

from . import _C
from ._device import DeviceLike, _get_device_index
from ._memory_summary import summary


def empty_cache() -> None:
    """Releases cached device memory to the card. Waits for the card's streams."""
    _C.empty_cache()


def empty_host_cache() -> None:
    """Releases cached pinned memory to the system."""
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
    """Returns counts and bytes. The keys are "metric.pool.column", as in
    torch.cuda.memory_stats()."""
    return _flat(memory_stats_as_nested_dict(device))


def memory_allocated(device: DeviceLike = None) -> int:
    """Returns the bytes that tensors hold now."""
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: DeviceLike = None) -> int:
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: DeviceLike = None) -> int:
    """Returns the bytes of device memory that this process holds, including its cache."""
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: DeviceLike = None) -> int:
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


# The older names, as in torch.cuda.
memory_cached = memory_reserved
max_memory_cached = max_memory_reserved


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    torch.accelerator.reset_peak_memory_stats(_get_device_index(device))


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    torch.accelerator.reset_accumulated_memory_stats(_get_device_index(device))


# As in torch.cuda, both functions reset all peaks.
reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_cached = reset_peak_memory_stats


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    return _C.host_memory_stats()


def host_memory_stats() -> "OrderedDict[str, Any]":
    """Returns statistics of pinned memory, as torch.cuda.host_memory_stats() does."""
    return _flat(host_memory_stats_as_nested_dict())


def reset_accumulated_host_memory_stats() -> None:
    _C.reset_accumulated_host_stats()


def reset_peak_host_memory_stats() -> None:
    _C.reset_peak_host_stats()


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Returns (free, total) bytes of the card's memory, for all processes together."""
    return _C.memory_info(_get_device_index(device))


def set_per_process_memory_fraction(
    fraction: float, device: DeviceLike = None
) -> None:
    """Limits the share of the card's memory that this process may hold, including its
    cache. An allocation beyond the limit raises an out-of-memory error. The process keeps
    memory that it already holds."""
    if not isinstance(fraction, (int, float)) or isinstance(fraction, bool):
        raise TypeError(f"fraction is a number, not a {type(fraction).__name__}")
    _C.set_memory_fraction(_get_device_index(device), float(fraction))


def get_per_process_memory_fraction(device: DeviceLike = None) -> float:
    return _C.memory_fraction(_get_device_index(device))


def get_allocator_backend() -> str:
    """Returns the name that torch.cuda uses for its own caching allocator."""
    return "native"


def caching_allocator_alloc(
    size: int, device: DeviceLike = None, stream: Optional[torch.Stream] = None
) -> int:
    """Allocates size bytes and returns the device address. The block belongs to the
    stream, or to the current stream."""
    if stream is None:
        return _C.raw_alloc(size, _get_device_index(device))
    from ._streams import StreamContext

    with StreamContext(stream):
        return _C.raw_alloc(size, stream.device_index)


def caching_allocator_delete(mem_ptr: int) -> None:
    _C.raw_free(mem_ptr)


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """Returns the statistics as a readable table."""
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
    """Records the history of memory, as torch.cuda.memory does. enabled=None stops the
    recording. "state" keeps the stacks of the memory that is held now. "all" also keeps the
    past actions. Applies to all devices, whatever device is given."""
    _get_device_index(device)
    _C.record_memory_history(
        _one_of("enabled", enabled, _ENABLED),
        _one_of("context", context, _CONTEXT),
        _one_of("stacks", stacks, _STACKS) == "all",
        min(max_entries, sys.maxsize),
        clear_history,
    )


def _snapshot(device: DeviceLike = None) -> dict[str, Any]:
    """Returns the segments and the trace of all devices, whatever device is given. The form
    is that of torch.cuda.memory._snapshot()."""
    _get_device_index(device)
    return _C.memory_snapshot(True)


def _dump_snapshot(filename: str = "dump_snapshot.pickle") -> None:
    """Writes a file that pytorch.org/memory_viz can open."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


def memory_snapshot(mempool_id: Any = None, include_traces: bool = True) -> list:
    """Returns the segments of all devices and their blocks. As in torch.cuda,
    include_traces=False is faster and gives the same result. openreg has no memory pools:
    mempool_id is None or (0, 0), which means all memory."""
    if mempool_id is not None and tuple(mempool_id) != (0, 0):
        raise ValueError(
            f"memory pool {mempool_id!r} does not exist: torch.openreg has no pools; "
            "mempool_id is None or (0, 0)"
        )
    return _C.memory_snapshot(bool(include_traces))["segments"]
