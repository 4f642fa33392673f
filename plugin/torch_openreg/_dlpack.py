# SPDX-License-Identifier: BSD-3-Clause
"""DLPack. Core exports and imports the memory of any PrivateUse1 device, but its Python part
has two gaps. It knows such a device only by the name before the renaming. At an import, it
passes no stream of such a device to the producer."""

import functools
from typing import Any, Optional

import torch
from torch.overrides import has_torch_function_unary
from torch.utils import dlpack

from . import _C
from ._streams import ExternalStream, current_stream, default_stream


def _is_ours(tensor: torch.Tensor) -> bool:
    return not has_torch_function_unary(tensor) and tensor.device.type == "openreg"


def _make_stream_wait(device: torch.device, stream: Optional[int]) -> None:
    """Makes the consumer's stream wait for the current stream, which is the producer's."""
    if stream == -1:  # the consumer waits itself
        return
    if stream is not None and type(stream) is not int:
        raise TypeError(
            "stream must be the native_handle of a stream of openreg, None for the default "
            f"stream or -1 for no waiting, not a {type(stream).__name__}"
        )
    if stream is not None and not _C.is_stream(device.index, stream):
        raise ValueError(
            f"stream {stream} is not the native_handle of a stream of {device}; for a queue "
            "of another library, create a torch.openreg.ExternalStream first"
        )
    producer = current_stream(device)
    consumer = default_stream(device) if stream is None else ExternalStream(stream, device)
    if consumer != producer:
        consumer.wait_stream(producer)


class _Producer:
    """Wraps another library's producer of memory on a card. Passes the current
    stream to the producer: the producer makes this consumer's stream wait for its work."""

    def __init__(self, of: Any) -> None:
        self._of = of

    def __dlpack_device__(self) -> tuple:
        return self._of.__dlpack_device__()

    def __dlpack__(self, **how: Any) -> Any:
        index = self.__dlpack_device__()[1]
        return self._of.__dlpack__(stream=current_stream(index).native_handle, **how)


def _is_foreign(tensor: Any) -> bool:
    return (
        not isinstance(tensor, torch.Tensor)
        and hasattr(tensor, "__dlpack__")
        and tensor.__dlpack_device__()[0] == dlpack.DLDeviceType.kDLExtDev
    )


def _install_import() -> None:
    of_core = dlpack.from_dlpack

    @functools.wraps(of_core)
    def from_dlpack(ext_tensor: Any, **how: Any) -> torch.Tensor:
        return of_core(_Producer(ext_tensor) if _is_foreign(ext_tensor) else ext_tensor, **how)

    dlpack.from_dlpack = torch.from_dlpack = from_dlpack


def install() -> None:
    _install_import()
    of_core = torch.Tensor.__dlpack__
    device_of_core = torch.Tensor.__dlpack_device__
    capsule_of_core = dlpack.to_dlpack

    @functools.wraps(of_core)
    def __dlpack__(self: torch.Tensor, *, stream: Optional[int] = -1, **how: Any) -> Any:
        if _is_ours(self):
            _C.make_plain(self, "dlpack")
            _make_stream_wait(self.device, stream)
            stream = -1
        return of_core(self, stream=stream, **how)

    @functools.wraps(device_of_core)
    def __dlpack_device__(self: torch.Tensor) -> tuple:
        if _is_ours(self):
            return dlpack.DLDeviceType.kDLExtDev, self.device.index
        return device_of_core(self)

    @functools.wraps(capsule_of_core)
    def to_dlpack(tensor: torch.Tensor) -> Any:
        if _is_ours(tensor):
            _C.make_plain(tensor, "dlpack")
        return capsule_of_core(tensor)

    dlpack.to_dlpack = torch.to_dlpack = to_dlpack
    torch.Tensor.__dlpack__ = __dlpack__
    torch.Tensor.__dlpack_device__ = __dlpack_device__
    # The wrapper allows functions by identity: allow the new functions too.
    if wrapper := getattr(dlpack, "ReadOnlyTensorWrapper", None):
        wrapper._DLPACK_ALLOWED |= {__dlpack__, __dlpack_device__}
