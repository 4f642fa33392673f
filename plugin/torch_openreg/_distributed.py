# SPDX-License-Identifier: BSD-3-Clause
"""torch.distributed has no backend for the card yet. This module raises an error that names
the alternative. It also makes TCPStore work if torch is built without libuv."""

import functools
from typing import Any, NoReturn

from torch import distributed

# runtime/collectives.cpp has the same text.
_ALTERNATIVE = (
    "Use init_process_group('cpu:gloo') and collectives on CPU tensors: "
    "t = x.cpu(); torch.distributed.all_reduce(t); x.copy_(t)."
)


def _refuse(*_: Any) -> NoReturn:
    raise NotImplementedError(
        f"torch.distributed has no backend for openreg yet. {_ALTERNATIVE}"
    )


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
    distributed.Backend.register_backend("occl", _refuse, devices=["openreg"])
    _do_without_libuv()
