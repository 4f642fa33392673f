# SPDX-License-Identifier: BSD-3-Clause
"""The backend "occl" of torch.distributed: collectives among cards. This module registers it,
and makes TCPStore work if torch is built without libuv."""

import atexit
import functools
from typing import Any

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
    return group.create(given, options)


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


def install() -> None:
    if not distributed.is_available():
        return
    _C.bind_process_group()
    distributed.ProcessGroupOCCL = _C.ProcessGroupOCCL
    distributed.Backend.register_backend(
        "occl", _create, extended_api=True, devices=["openreg"]
    )
    atexit.register(_C.drain_process_groups, _DRAIN_MS)
    _do_without_libuv()
