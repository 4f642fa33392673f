# SPDX-License-Identifier: BSD-3-Clause
"""
The stream sanitizer: finds operators of different streams that access one tensor without
waiting for each other. TORCH_OPENREG_SANITIZER=1 enables it, as does
enable_openreg_sanitizer(). It is torch.cuda._sanitizer with openreg's tensors, streams and
callbacks.
"""

import sys
from typing import Any, Optional

import torch
from torch.cuda import _sanitizer as csan
from torch.cuda._sanitizer import (  # noqa: F401
    FACTORY_FUNCTION_REGEX,
    Access,
    AccessType,
    DataPtr,
    EventHandler,
    EventId,
    StreamId,
    StreamSynchronizations,
    SynchronizationError,
    UnsynchronizedAccessError,
)
from torch.utils._python_dispatch import TorchDispatchMode

from . import _gpu_trace as gpu_trace
from ._streams import current_stream


class OpenregSanitizerErrors(csan.CUDASanitizerErrors):
    """The errors of one operator."""


class ArgumentHandler(csan.ArgumentHandler):
    def __init__(self) -> None:
        super().__init__()
        self.device: Optional[torch.device] = None  # of the operator, by its first tensor

    def _handle_argument(
        self,
        value: Any,
        is_write: bool,
        metadata_only: bool,
        name: Optional[str] = None,
        is_output: bool = False,
    ) -> None:
        if not isinstance(value, torch.Tensor) or value.device.type != "openreg":
            return
        self.device = self.device or value.device
        # Empty tensors have no address, and are not one tensor.
        data_ptr = value.data_ptr() or id(value)
        if is_write:
            self.dataptrs_written.add(data_ptr)
        elif not metadata_only:
            self.dataptrs_read.add(data_ptr)
        aliases = self.tensor_aliases.setdefault(data_ptr, [])
        if name is not None:
            aliases.append(name)
        if is_output:
            self.outputs.add(data_ptr)


class OpenregSanitizerDispatchMode(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.event_handler = handler = EventHandler()
        torch._C._activate_gpu_trace()
        for name in (
            "event_creation",
            "event_deletion",
            "event_record",
            "event_wait",
            "memory_allocation",
            "memory_deallocation",
            "stream_creation",
            "device_synchronization",
            "stream_synchronization",
            "event_synchronization",
        ):
            register = getattr(gpu_trace, f"register_callback_for_{name}")
            register(getattr(handler, f"_handle_{name}"))

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.ops.aten.record_stream.default:
            return func(*args, **kwargs)
        is_factory = bool(FACTORY_FUNCTION_REGEX.match(func._schema.name))
        arguments = ArgumentHandler()
        arguments.parse_inputs(func._schema, args, kwargs, is_factory=is_factory)
        outputs = func(*args, **kwargs)
        arguments.parse_outputs(func._schema, outputs, is_factory=is_factory)
        if not arguments.tensor_aliases:
            return outputs  # an operator of other devices
        errors = self.event_handler._handle_kernel_launch(
            current_stream(arguments.device).native_handle,
            arguments.dataptrs_read - arguments.dataptrs_written,
            arguments.dataptrs_written,
            arguments.outputs,
            func._schema,
            arguments.tensor_aliases,
        )
        if errors:
            for error in errors:
                print(error, file=sys.stderr)
            raise OpenregSanitizerErrors(errors)
        return outputs


class OpenregSanitizer(csan.CUDASanitizer):
    """Enters the mode, and leaves it at the end of the program."""

    def __init__(self) -> None:
        self.dispatch = OpenregSanitizerDispatchMode()
        self.enabled = False


def enable_openreg_sanitizer() -> None:
    """Enables the sanitizer. Call it before the program's first operator."""
    openreg_sanitizer.enable()


openreg_sanitizer = OpenregSanitizer()
