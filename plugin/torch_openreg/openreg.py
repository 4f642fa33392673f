# SPDX-License-Identifier: BSD-3-Clause
"""The module torch.openreg."""

from ._device import (
    DeviceProperties,
    _exchange_device,
    _get_device_index,
    _is_in_bad_fork,
    _lazy_init,
    _maybe_exchange_device,
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_amp_supported_dtype,
    get_device_capability,
    get_device_name,
    get_device_properties,
    init,
    ipc_collect,
    is_available,
    is_bf16_supported,
    is_initialized,
    reset,
    set_device,
    synchronize,
)
from ._memory import (
    empty_cache,
    empty_host_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
)
from ._random import (
    _default_generators,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from ._statistics import (
    fallbacks,
    op_counts,
    queue_stats,
    reset_fallbacks,
    reset_op_counts,
    set_fallback,
    stats,
)
from ._streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    is_current_stream_capturing,
    set_stream,
    stream,
)

__all__ = [name for name in dir() if not name.startswith("_")]


def __getattr__(name: str):
    if name == "default_generators":
        return _default_generators()
    raise AttributeError(f"module 'torch.openreg' has no attribute '{name}'")
