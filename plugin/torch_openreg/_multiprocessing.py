# SPDX-License-Identifier: BSD-3-Clause
"""torch.multiprocessing: tensors, parameters, storages and events go to other processes by
reference."""

import functools
import pickle
from multiprocessing import queues
from multiprocessing.reduction import ForkingPickler
from typing import Any, Optional

import torch
from torch.multiprocessing import reductions

from . import _C, _ipc
from ._streams import Event, ExternalStream, Stream

_HOLDERS = (
    torch.Tensor,
    torch.UntypedStorage,
    torch.TypedStorage,
    torch.Event,
    torch.Stream,
)


def _on_card(holder: Any) -> bool:
    storage = isinstance(holder, torch.TypedStorage)
    device = (holder._untyped_storage if storage else holder).device
    return device is not None and device.type == "openreg"


def reduce_storage(storage: Any) -> tuple:
    if not _on_card(storage):
        return _of_core["reduce_storage"](storage)
    handle = _ipc.send_storage(storage) if storage.nbytes() else None
    return rebuild_storage, (type(storage), storage.device.index, handle, storage.nbytes())


def rebuild_storage(
    cls: type, device: int, handle: Optional[_ipc.Handle], nbytes: int
) -> torch.UntypedStorage:
    if handle is None:
        return torch.UntypedStorage(0, device=f"openreg:{device}")
    return _ipc.receive_storage(cls, handle, nbytes)


# The first arguments are those of core's function for CUDA: programs change device, the
# seventh, to their own index. Here the handle names the card.
def rebuild_tensor(
    cls: type,
    size: tuple,
    stride: tuple,
    offset: int,
    storage_cls: type,
    dtype: torch.dtype,
    device: int,
    handle: Optional[_ipc.Handle],
    nbytes: int,
    requires_grad: bool,
    conj: bool,
    neg: bool,
) -> torch.Tensor:
    storage = rebuild_storage(torch.UntypedStorage, device, handle, nbytes)
    typed = torch.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)
    tensor = torch._utils._rebuild_tensor(typed, offset, size, stride)
    if conj:
        tensor = tensor.conj()
    if neg:
        tensor = torch._neg_view(tensor)
    if cls is torch.nn.Parameter:
        return torch.nn.Parameter(tensor, requires_grad=requires_grad)
    return tensor.requires_grad_(requires_grad)


def reduce_tensor(tensor: torch.Tensor) -> tuple:
    # Core takes sparse tensors apart, and calls this function for the parts.
    if not _on_card(tensor) or tensor.layout is not torch.strided:
        return _of_core["reduce_tensor"](tensor)
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "a tensor that an operator has computed with gradients cannot go to another "
            "process: autograd ends at the process. Send x.detach()."
        )
    torch.utils.hooks.warn_if_has_hooks(tensor)
    storage = tensor.untyped_storage()
    return rebuild_tensor, (
        type(tensor),
        tuple(tensor.size()),
        tensor.stride(),
        tensor.storage_offset(),
        torch.UntypedStorage,
        tensor.dtype,
        storage.device.index,
        _ipc.send_storage(storage) if storage.nbytes() else None,
        storage.nbytes(),
        tensor.requires_grad,
        tensor.is_conj(),
        tensor.is_neg(),
    )


def reduce_event(event: torch.Event) -> tuple:
    if not _on_card(event):
        return _of_core["reduce_event"](event)
    return rebuild_event, (type(event), _ipc.send_event(event))


def rebuild_event(cls: type, handle: _ipc.Handle) -> torch.Event:
    event = cls(interprocess=True) if cls is Event else cls(device="openreg")
    _ipc.receive_event(event, handle)
    return event


def reduce_stream(stream: torch.Stream) -> tuple:
    if not _on_card(stream):
        return stream.__reduce_ex__(2)
    raise RuntimeError(
        "a stream of openreg cannot go to another process. Record an event on it, and send "
        "the event."
    )


_of_core = {
    name: getattr(reductions, name)
    for name in ("reduce_tensor", "reduce_storage", "reduce_event")
}


class _Nowhere:
    def write(self, data: bytes) -> int:
        return len(data)


class _Found(Exception):
    pass


class _Search(pickle.Pickler):
    """Raises _Found if pickling an object reaches memory of the card."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, _HOLDERS):
            if _on_card(obj):
                raise _Found
        elif type(obj) not in ForkingPickler._extra_reducers:
            return NotImplemented
        return int, ()


def _holds_memory(obj: Any) -> bool:
    if not _C.is_initialized() and not _C.in_bad_fork():  # this process has used no card
        return False
    try:
        _Search(_Nowhere(), 5, buffer_callback=lambda _: None).dump(obj)
    except _Found:
        return True
    except Exception:  # the queue itself reports objects that cannot be pickled
        pass
    return False


class _Pickled:
    """An object that is pickled already."""

    def __init__(self, obj: Any) -> None:
        self._data = bytes(ForkingPickler.dumps(obj))

    def __reduce__(self) -> tuple:
        return pickle.loads, (self._data,)


def _pickle_in_put(kind: type) -> None:
    """Makes put() pickle memory of the card. Otherwise a thread of the queue does that: it
    has another current stream, and would only print an error while the consumer waits."""
    of_python = kind.put

    @functools.wraps(of_python)
    def put(self: Any, obj: Any, *args: Any, **kwargs: Any) -> None:
        with _ipc.cancel_on_error():
            # Executors handle the thread's error themselves.
            if (
                self._on_queue_feeder_error is queues.Queue._on_queue_feeder_error
                and _holds_memory(obj)
            ):
                obj = _Pickled(obj)
            of_python(self, obj, *args, **kwargs)

    kind.put = put


def _report_as_shared() -> None:
    of_core = torch.UntypedStorage.is_shared

    @functools.wraps(of_core)
    def is_shared(self: torch.UntypedStorage) -> bool:
        return self.device.type == "openreg" or of_core(self)

    torch.UntypedStorage.is_shared = is_shared


def _do_not_copy_to_share() -> None:
    of_core = torch.UntypedStorage.share_memory_

    @functools.wraps(of_core)
    def share_memory_(self: torch.UntypedStorage, *args: Any, **kwargs: Any) -> Any:
        if self.device.type == "openreg":  # sending it shares it
            return self
        return of_core(self, *args, **kwargs)

    torch.UntypedStorage.share_memory_ = share_memory_


def install() -> None:
    # Programs also call these functions themselves.
    reductions.reduce_tensor = reduce_tensor
    reductions.reduce_storage = reduce_storage
    reductions.reduce_event = reduce_event
    reductions.init_reductions()
    for kind in (torch.Event, Event):
        ForkingPickler.register(kind, reduce_event)
    for kind in (torch.Stream, Stream, ExternalStream):
        ForkingPickler.register(kind, reduce_stream)
    _pickle_in_put(queues.Queue)
    _pickle_in_put(queues.JoinableQueue)
    _report_as_shared()
    _do_not_copy_to_share()
