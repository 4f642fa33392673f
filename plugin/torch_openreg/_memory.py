# SPDX-License-Identifier: BSD-3-Clause
"""Device memory: what is used, and giving back what is cached."""

from collections import OrderedDict
from typing import Any

import torch

from . import _C
from ._device import DeviceLike, _get_device_index


def empty_cache() -> None:
    """Gives cached device memory back to the card; waits for its streams."""
    _C.empty_cache()


def empty_host_cache() -> None:
    """Gives cached pinned memory back to the system."""
    torch._C._accelerator_emptyHostCache()


def memory_stats(device: DeviceLike = None) -> "OrderedDict[str, Any]":
    return torch.accelerator.memory_stats(_get_device_index(device))


def memory_allocated(device: DeviceLike = None) -> int:
    """Bytes held by tensors now."""
    return torch.accelerator.memory_allocated(_get_device_index(device))


def max_memory_allocated(device: DeviceLike = None) -> int:
    return torch.accelerator.max_memory_allocated(_get_device_index(device))


def memory_reserved(device: DeviceLike = None) -> int:
    """Bytes of device memory held by this process, cached ones included."""
    return torch.accelerator.memory_reserved(_get_device_index(device))


def max_memory_reserved(device: DeviceLike = None) -> int:
    return torch.accelerator.max_memory_reserved(_get_device_index(device))


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    torch.accelerator.reset_peak_memory_stats(_get_device_index(device))


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    torch.accelerator.reset_accumulated_memory_stats(_get_device_index(device))


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """(free, total) bytes of the card's memory, all processes together."""
    return _C.memory_info(_get_device_index(device))


