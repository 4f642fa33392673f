# SPDX-License-Identifier: BSD-3-Clause
"""Streams are queues of the card; events are marks in them."""

from typing import Any, Optional

import torch

from . import _C
from ._device import DeviceLike, _get_device_index


class Stream(torch.Stream):
    """A queue of work of one device. priority -1 is high, 0 is normal."""

    def __new__(cls, device: DeviceLike = None, priority: int = 0, **kwargs: Any):
        if "stream_id" in kwargs:
            return super().__new__(cls, **kwargs)
        where = torch.device("openreg", _get_device_index(device))
        return super().__new__(cls, device=where, priority=priority)

    @property
    def native_handle(self) -> int:
        """Address of the openreg_queue of libopenreg."""
        return _C.stream_handle(self.stream_id, self.device_index)

    @property
    def priority(self) -> int:
        return -1 if _HIGH[0] <= self.stream_id < _HIGH[1] else 0

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """(least, greatest): as in torch.cuda, less is more urgent."""
        return 0, -1

    def __repr__(self) -> str:
        return f"torch.openreg.Stream(device={self.device}, id={self.stream_id})"


# Ids of the pool's high streams, runtime/stream.h.
_HIGH = (33, 65)


class ExternalStream(Stream):
    """A stream of a queue made by someone else, by libopenreg with the handle that
    device_handle() tells. The queue must be kept: synchronize() and others look at
    all streams of the device, to the process's end."""

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
    """A mark in a stream; enable_timing=True lets elapsed_time() work.

    blocking changes nothing: synchronize() looks for some microseconds whether it is
    over, and then sleeps.
    """

    def __new__(
        cls,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ):
        if interprocess:
            raise NotImplementedError(
                "openreg has no events between processes; synchronize() the stream and "
                "tell the other process by what multiprocessing offers"
            )
        return super().__new__(
            cls, device="openreg", enable_timing=enable_timing, blocking=blocking
        )

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Milliseconds of the card's clock from this event to the other."""
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
    """Makes it the current stream of its device, not its device the current one."""
    if stream is None:
        return
    before = _C.current_device()
    torch._C._accelerator_setStream(stream)
    _C.set_device(before)


class StreamContext:
    """Context manager: stream is current, and so is its device."""

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
    """A stream of a queue made by someone else: ExternalStream."""
    return ExternalStream(data_ptr, device)


def device_handle(device: DeviceLike = None) -> int:
    """Address of the openreg_device of libopenreg that this process works with."""
    _C.check_available()
    return _C.device_handle(_get_device_index(device))


def _sleep(cycles: int) -> None:
    """Keeps the engine busy on the current stream, about a nanosecond a cycle."""
    _C.check_available()
    _C.sleep(cycles, _get_device_index(None))


def is_current_stream_capturing() -> bool:
    return False
