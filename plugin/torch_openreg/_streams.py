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

    def __repr__(self) -> str:
        return f"torch.openreg.Stream(device={self.device}, id={self.stream_id})"


class Event(torch.Event):
    """A mark in a stream; enable_timing=True lets elapsed_time() work."""

    def __new__(cls, enable_timing: bool = False, blocking: bool = False):
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
        device_type=int(torch._C._autograd.DeviceType.PrivateUse1),
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


def is_current_stream_capturing() -> bool:
    return False
