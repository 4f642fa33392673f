# SPDX-License-Identifier: BSD-3-Clause
"""The backend "occl" of torch.distributed: collectives among cards. This module registers it,
and makes TCPStore work if torch is built without libuv."""

import atexit
import functools
import importlib
import os
from collections.abc import Callable
from multiprocessing.util import Finalize
from typing import Any

import torch
from torch import distributed

from . import _C

# A script may end right after a collective that other ranks still need.
_DRAIN_MS = 10_000


def _create(given: Any, options: Any) -> Any:
    """options is the pg_options of init_process_group() or new_group()."""
    group = _C.ProcessGroupOCCL
    if options is not None and not isinstance(options, group.Options):
        raise TypeError(
            "pg_options of the backend occl must be torch.distributed.ProcessGroupOCCL.Options, "
            f"not {type(options).__module__}.{type(options).__qualname__}"
        )
    _drain_at_end()
    return group.create(given, options)


_drained = 0  # the process that drains its groups at its end


def _drain_at_end() -> None:
    """Beside atexit: a process that multiprocessing has forked forgets its handlers."""
    global _drained
    if _drained != os.getpid():
        _drained = os.getpid()
        Finalize(None, _C.drain_process_groups, (_DRAIN_MS,), exitpriority=0)


def _do_without_libuv() -> None:
    """Retries TCPStore without libuv: torchrun ignores USE_LIBUV and asks for libuv, which
    Debian's torch lacks."""
    of_core = distributed.TCPStore.__init__

    @functools.wraps(of_core)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            return of_core(self, *args, **kwargs)
        except distributed.DistStoreError as error:
            if "without libuv" not in str(error):
                raise
        # use_libuv is the ninth positional argument.
        of_core(self, *args[:8], **{**kwargs, "use_libuv": False})

    distributed.TCPStore.__init__ = __init__


# Core has these operators for CUDA and XPU, in Python that works on any accelerator.
_OF_CORE = {
    "fused_all_gather_matmul": "_fused_all_gather_matmul",
    "fused_all_gather_scaled_matmul": "_fused_all_gather_scaled_matmul",
    "fused_matmul_reduce_scatter": "_fused_matmul_reduce_scatter",
    "fused_scaled_matmul_reduce_scatter": "_fused_scaled_matmul_reduce_scatter",
    "_low_contention_all_gather": "_low_contention_all_gather",
    "_low_contention_reduce_scatter": "_low_contention_reduce_scatter",
    "get_remote_tensors": "_get_remote_tensors_default",
}


def _of_core(function: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        module = importlib.import_module("torch.distributed._symmetric_memory")
        return getattr(module, function)(*args, **kwargs)

    return call


_libraries = []  # a library takes its operators with it


def _register_symmetric_operators() -> None:
    """Registers the operators before core defines them: the module that does imports much."""
    library = torch.library.Library("symm_mem", "IMPL")
    for name, function in _OF_CORE.items():
        library.impl(name, _of_core(function), "PrivateUse1")
    _libraries.append(library)


def _let_gloo_begin_beside_cards() -> None:
    """Core asks each new group for its backend of the device_id that the default group has,
    also a group of gloo, which has none for the card."""
    core = distributed.distributed_c10d
    of_core = core._new_process_group_helper

    @functools.wraps(of_core)
    def helper(*args: Any, **kwargs: Any) -> Any:
        backend = args[3] if len(args) > 3 else kwargs.get("backend")
        device = kwargs.get("device_id")
        if str(backend).lower() == "gloo" and device is not None and device.type == "openreg":
            kwargs["device_id"] = None
        return of_core(*args, **kwargs)

    core._new_process_group_helper = helper


def install() -> None:
    if not distributed.is_available():
        return
    _C.bind_process_group()
    distributed.ProcessGroupOCCL = _C.ProcessGroupOCCL
    distributed.Backend.register_backend(
        "occl", _create, extended_api=True, devices=["openreg"]
    )
    atexit.register(_C.drain_process_groups, _DRAIN_MS)
    _let_gloo_begin_beside_cards()
    _do_without_libuv()
    _register_symmetric_operators()
