# SPDX-License-Identifier: BSD-3-Clause
"""Formats: how the memory of a tensor holds its values."""

import functools
from typing import Any

import torch

from . import _C


def format_cast(tensor: torch.Tensor, format: str) -> torch.Tensor:
    """
    Returns the tensor in a format: "plain", or "packed" for a matrix of float32, float16 or
    bfloat16. The values, the shape and the gradients are the same.

    x @ w.t() and torch.nn.functional.linear(x, w) read a packed w faster. Other operators
    get a plain copy, which format_conversions() counts. An operator that writes to a packed
    tensor makes it plain, except copy_() to the whole tensor.
    """
    _C.check_format(format)
    if tensor.device.type != "openreg":
        raise ValueError(
            f"format_cast: the tensor is on {tensor.device}; only tensors on openreg have "
            "formats. Call .to('openreg') first."
        )
    if get_format(tensor) == format:
        return tensor
    return torch.ops.openreg.format_cast(tensor, format)


def install() -> None:
    """Makes the old form of files have the plain values. Core would access the memory."""
    write = torch.UntypedStorage._write_file
    read = torch.UntypedStorage._set_from_file

    @functools.wraps(write)
    def _write_file(self: torch.UntypedStorage, *args: Any) -> None:
        write(self.cpu() if self.device.type == "openreg" else self, *args)

    @functools.wraps(read)
    def _set_from_file(self: torch.UntypedStorage, *args: Any) -> Any:
        if self.device.type != "openreg":
            return read(self, *args)
        self.copy_(read(torch.UntypedStorage(self.nbytes()), *args))
        return self

    torch.UntypedStorage._write_file = _write_file
    torch.UntypedStorage._set_from_file = _set_from_file


def get_format(tensor: torch.Tensor) -> str:
    """Returns the format of a tensor. That of a view is that of its storage."""
    return _C.format_of(tensor)


def format_conversions() -> dict[str, int]:
    """Returns the operators for which packed tensors were converted, with counts."""
    return dict(_C.conversion_counts())


def reset_format_conversions() -> None:
    _C.reset_conversion_counts()
