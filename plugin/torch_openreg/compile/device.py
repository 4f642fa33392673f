# SPDX-License-Identifier: BSD-3-Clause
"""What Dynamo and Inductor ask about the device."""

from typing import Any

import torch
from torch._dynamo.device_interface import DeviceInterface
from torch._inductor.codegen.common import DeviceOpOverrides

from .. import _C, openreg


class OpenregInterface(DeviceInterface):
    device = openreg.device
    Event = openreg.Event
    Stream = openreg.Stream

    class Worker:
        """In Inductor's own processes, which must not use a card."""

        device = -1

        @staticmethod
        def set_device(device: int) -> None:
            OpenregInterface.Worker.device = device

        @staticmethod
        def current_device() -> int:
            worker = OpenregInterface.Worker.device
            return worker if worker >= 0 else openreg.current_device()

        @staticmethod
        def get_device_properties(device: Any = None) -> Any:
            return openreg.get_device_properties(device)

    is_available = staticmethod(openreg.is_available)
    device_count = staticmethod(openreg.device_count)
    current_device = staticmethod(openreg.current_device)
    set_device = staticmethod(openreg.set_device)
    exchange_device = staticmethod(_C.exchange_device)
    maybe_exchange_device = staticmethod(_C.exchange_device)
    synchronize = staticmethod(openreg.synchronize)
    current_stream = staticmethod(openreg.current_stream)
    set_stream = staticmethod(openreg.set_stream)
    stream = staticmethod(openreg.stream)
    memory_allocated = staticmethod(openreg.memory_allocated)

    @staticmethod
    def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
        openreg.set_stream(
            openreg.Stream(
                stream_id=stream_id, device_index=device_index, device_type=device_type
            )
        )

    @staticmethod
    def get_raw_stream(device_index: int) -> int:
        return openreg.current_stream(device_index).native_handle

    @staticmethod
    def get_compute_capability(device: Any = None) -> str:
        return "isa_{}.{}".format(*openreg.get_device_capability(device))

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        return openreg.is_bf16_supported(including_emulation)

    @staticmethod
    def is_triton_capable(device: Any = None) -> bool:
        return False


class OpenregOverrides(DeviceOpOverrides):
    """Lines of generated code."""

    def import_get_raw_stream_as(self, name: str) -> str:
        return (
            "from torch_openreg.compile.device import OpenregInterface\n"
            f"{name} = OpenregInterface.get_raw_stream"
        )

    def set_device(self, device_idx: Any) -> str:
        return f"torch.openreg.set_device({device_idx})"

    def synchronize(self) -> str:
        return "torch.openreg.synchronize()"

    def device_guard(self, device_idx: Any) -> str:
        return f"torch.openreg.device({device_idx})"

    def current_stream(self) -> str:
        return "torch.openreg.current_stream()"
