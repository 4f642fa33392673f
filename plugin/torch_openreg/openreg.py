# SPDX-License-Identifier: BSD-3-Clause
"""The module torch.openreg."""

from torch import AcceleratorError, OutOfMemoryError

from . import _gpu_trace
from . import _graphs as graphs
from . import _memory as memory
from . import _profiler as profiler
from . import _random as random
from . import _streams as streams
from ._build import cmake_prefix_path
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
    device_memory_used,
    device_of,
    get_amp_supported_dtype,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    get_sync_debug_mode,
    init,
    ipc_collect,
    is_available,
    is_bf16_supported,
    is_initialized,
    is_tf32_supported,
    reset,
    set_device,
    set_sync_debug_mode,
    synchronize,
    utilization,
)
from ._formats import (
    format_cast,
    format_conversions,
    get_format,
    reset_format_conversions,
)
from ._graphs import (
    Graph,
    graph,
    graph_pool_handle,
    is_current_stream_capturing,
    make_graphed_callables,
)
from ._labels import get_label, set_label
from ._memory import (
    caching_allocator_alloc,
    caching_allocator_delete,
    empty_cache,
    empty_host_cache,
    get_allocator_backend,
    get_per_process_memory_fraction,
    host_memory_stats,
    host_memory_stats_as_nested_dict,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_host_memory_stats,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_host_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from ._random import (
    _default_generators,
    _get_generator,
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
    check_findings,
    compile_fallbacks,
    fall_back,
    fallbacks,
    op_counts,
    queue_stats,
    reset_compile_fallbacks,
    reset_fallbacks,
    reset_op_counts,
    set_fallback,
    stats,
)
from ._streams import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    _sleep,
    current_stream,
    default_stream,
    device_handle,
    get_stream_from_external,
    set_stream,
    stream,
)

__all__ = [name for name in dir() if not name.startswith("_")]


def __getattr__(name: str):
    if name == "default_generators":
        return _default_generators()
    if name == "_initialized":  # torch.utils.checkpoint saves random states if it is True
        return is_initialized()
    if name in ("MemPool", "use_mem_pool"):
        raise AttributeError(
            f"torch.openreg has no {name}: core has memory pools only for CUDA and XPU. "
            "set_per_process_memory_fraction() limits the memory of a process."
        )
    if name == "Scheduling":
        # Inductor looks here for a backend that is not registered. Do not import it earlier:
        # it takes seconds.
        try:
            from .compile.registration import register

            register()
        except (AttributeError, RuntimeError) as error:
            # Inductor would take these for a device without a backend.
            raise ImportError(f"torch_openreg.compile needs torch 2.14: {error}") from error
    raise AttributeError(f"module 'torch.openreg' has no attribute '{name}'")
