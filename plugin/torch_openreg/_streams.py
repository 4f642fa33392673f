# SPDX-License-Identifier: BSD-3-Clause
"""Streams are queues of the card. Events are marks in streams."""

import pickle
from typing import Any, Optional

import torch

from . import _C, _ipc
from ._device import DeviceLike, _get_device_index


class Stream(torch.Stream):
    """A queue of work on one device. Priority -1 is high, 0 is normal."""

    def __new__(cls, device: DeviceLike = None, priority: int = 0, **kwargs: Any):
        if "stream_id" in kwargs:
            return super().__new__(cls, **kwargs)
        where = torch.device("openreg", _get_device_index(device))
        return super().__new__(cls, device=where, priority=priority)

    @property
    def native_handle(self) -> int:
        """The address of libopenreg's openreg_queue."""
        return _C.stream_handle(self.stream_id, self.device_index)

    @property
    def priority(self) -> int:
        return -1 if _HIGH[0] <= self.stream_id < _HIGH[1] else 0

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Returns (least, greatest) priority. As in torch.cuda, a lower number is more
    urgent."""
        return 0, -1

    def __repr__(self) -> str:
        return f"torch.openreg.Stream(device={self.device}, id={self.stream_id})"


# The ids of the pool's streams with high priority, see runtime/stream.h.
_HIGH = (33, 65)


class ExternalStream(Stream):
    """A stream of a queue that the program has created with libopenreg and device_handle().
    The program must keep the queue until the process ends: synchronize() and other functions
    use all streams of the device."""

    def __new__(cls, stream_ptr: int, device: DeviceLike = None, **kwargs: Any):
        index = _get_device_index(device)
        return super().__new__(
            cls,
            stream_id=_C.external_stream(stream_ptr, index),
            device_index=index,
            device_type=_DEVICE_TYPE,
        )


_DEVICE_TYPE = int(torch._C._autograd.DeviceType.PrivateUse1)


class Event(torch.Event):
    """A mark in a stream. elapsed_time() needs enable_timing=True.

    blocking has no effect: synchronize() polls for some microseconds, and then sleeps.
    Every event can go to another process by a queue; ipc_handle() needs interprocess=True.
    Both processes can then record it, and wait for its newest record.
    """

    def __new__(
        cls,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ):
        if interprocess and enable_timing:
            raise ValueError(
                "an event for other processes has no time: leave out enable_timing=True"
            )
        self = super().__new__(
            cls, device="openreg", enable_timing=enable_timing, blocking=blocking
        )
        self.interprocess = interprocess
        return self

    def ipc_handle(self) -> bytes:
        """Returns the bytes with which from_ipc_handle() in another process makes the same
        event."""
        if not self.interprocess:
            raise RuntimeError(
                "this event is for one process: make it with Event(interprocess=True)"
            )
        return pickle.dumps(_ipc.send_event(self))

    @classmethod
    def from_ipc_handle(cls, device: DeviceLike, handle: bytes) -> "Event":
        """Returns the event of another process. device must be the event's."""
        event = cls(interprocess=True)
        index = _ipc.receive_event(event, pickle.loads(handle))
        if index != _get_device_index(device):
            raise ValueError(f"the event is on openreg:{index}, not on {device}")
        return event

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Returns the milliseconds of the card's clock from this event to end_event."""
        return _C.elapsed_time(self, end_event)


def _wrap(stream: torch.Stream) -> Stream:
    return Stream(
        stream_id=stream.stream_id,
        device_index=stream.device_index,
        device_type=stream.device_type,
    )


def current_stream(device: DeviceLike = None) -> Stream:
    _C.check_available()
    return _wrap(torch._C._accelerator_getStream(_get_device_index(device)))


def default_stream(device: DeviceLike = None) -> Stream:
    _C.check_available()
    index = _get_device_index(device)
    return Stream(
        stream_id=0,
        device_index=index,
        device_type=_DEVICE_TYPE,
    )


def set_stream(stream: Optional[torch.Stream]) -> None:
    """Makes the stream the current stream of its device. Does not change the current
    device."""
    if stream is None:
        return
    before = _C.current_device()
    torch._C._accelerator_setStream(stream)
    _C.set_device(before)


class StreamContext:
    """Context manager: makes the stream and its device current."""

    def __init__(self, stream: Optional[torch.Stream]) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is None:
            return
        self._device = _C.exchange_device(self.stream.device_index)
        self._before = current_stream(self.stream.device_index)
        set_stream(self.stream)

    def __exit__(self, *_: Any) -> None:
        if self.stream is None:
            return
        set_stream(self._before)
        _C.exchange_device(self._device)


def stream(stream: Optional[torch.Stream]) -> StreamContext:
    return StreamContext(stream)


def get_stream_from_external(data_ptr: int, device: DeviceLike = None) -> Stream:
    """Returns an ExternalStream of the queue at this address."""
    return ExternalStream(data_ptr, device)


def device_handle(device: DeviceLike = None) -> int:
    """Returns the address of libopenreg's openreg_device that this process uses."""
    _C.check_available()
    return _C.device_handle(_get_device_index(device))


def _sleep(cycles: int) -> None:
    """Keeps the engine busy on the current stream, for about a nanosecond a cycle."""
    _C.check_available()
    _C.sleep(cycles, _get_device_index(None))
