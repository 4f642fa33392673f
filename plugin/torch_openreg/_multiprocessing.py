# SPDX-License-Identifier: BSD-3-Clause
"""Processes cannot share memory of the card yet. This module makes the process that sends or
shares such memory raise an error. Core itself fails in another thread, or does nothing."""

import functools
import pickle
from multiprocessing import queues
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions
from torch.utils.data import get_worker_info
from torch.utils.data._utils.fetch import _IterableDatasetFetcher, _MapDatasetFetcher

from ._device import is_initialized

_HOLDERS = (
    torch.Tensor,
    torch.UntypedStorage,
    torch.TypedStorage,
    torch.Event,
    torch.Stream,
)


def _check(holder: Any) -> None:
    storage = isinstance(holder, torch.TypedStorage)
    device = (holder._untyped_storage if storage else holder).device
    if device is not None and device.type == "openreg":
        raise NotImplementedError(
            f"a {type(holder).__name__} of openreg cannot go to another process: processes "
            "cannot share memory of the card yet. Send x.cpu(), and call .to('openreg') in "
            "the receiver. Workers of a DataLoader must return CPU tensors."
        )


class _Nowhere:
    def write(self, data: bytes) -> int:
        return len(data)


class _Search(pickle.Pickler):
    """Raises if pickling an object reaches memory of the card."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, _HOLDERS):
            _check(obj)
        elif type(obj) not in ForkingPickler._extra_reducers:
            return NotImplemented
        return int, ()


def _search(obj: Any) -> None:
    if not is_initialized():  # this process has not used a card
        return
    try:
        _Search(_Nowhere(), 5, buffer_callback=lambda _: None).dump(obj)
    except NotImplementedError:
        raise
    except Exception:  # the queue itself reports objects that cannot be pickled
        pass


def _guard_reductions() -> None:
    for name in ("reduce_tensor", "reduce_storage"):
        of_core = getattr(reductions, name)

        def reduce(holder: Any, of_core: Any = of_core) -> Any:
            _check(holder)
            return of_core(holder)

        setattr(reductions, name, functools.wraps(of_core)(reduce))
    reductions.init_reductions()


def _guard_queue(kind: type) -> None:
    """Makes put() raise the error. The queue pickles in a thread of its own, which would
    only print the error while the consumer waits forever."""
    of_python = kind.put

    @functools.wraps(of_python)
    def put(self: Any, obj: Any, *args: Any, **kwargs: Any) -> None:
        # Executors handle the thread's error themselves.
        if self._on_queue_feeder_error is queues.Queue._on_queue_feeder_error:
            _search(obj)
        of_python(self, obj, *args, **kwargs)

    kind.put = put


def _guard_fetcher(kind: type) -> None:
    """Makes a worker's fetcher raise the error: the training loop gets its exceptions."""
    of_core = kind.fetch

    @functools.wraps(of_core)
    def fetch(self: Any, index: Any) -> Any:
        data = of_core(self, index)
        if get_worker_info() is not None:
            _search(data)
        return data

    kind.fetch = fetch


def _guard_share_memory() -> None:
    of_core = torch.UntypedStorage.share_memory_

    @functools.wraps(of_core)
    def share_memory_(self: torch.UntypedStorage, *args: Any, **kwargs: Any) -> Any:
        if self.device.type == "openreg":
            raise NotImplementedError(
                "share_memory_: processes cannot share memory of openreg yet. Share a copy "
                "on the CPU, and call .to('openreg') in each process."
            )
        return of_core(self, *args, **kwargs)

    torch.UntypedStorage.share_memory_ = share_memory_


def install() -> None:
    _guard_reductions()
    _guard_queue(queues.Queue)
    _guard_queue(queues.JoinableQueue)
    _guard_fetcher(_MapDatasetFetcher)
    _guard_fetcher(_IterableDatasetFetcher)
    _guard_share_memory()
