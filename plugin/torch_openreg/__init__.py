# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch on the openreg card: torch.device("openreg") and torch.openreg."""

import atexit
import glob
import itertools
import os

import torch

from . import _C  # registers kernels, allocator, guard and hooks

__version__ = "0.1.0"


def _register() -> None:
    torch.utils.rename_privateuse1_backend("openreg")
    from . import (
        _compile,
        _data_parallel,
        _distributed,
        _dlpack,
        _formats,
        _integers,
        _meta,
        _multiprocessing,
        _nested,
        _recompute,
        _sharding,
        _vmap,
        openreg,
    )

    torch._register_device_module("openreg", openreg)
    _compile.install()
    _data_parallel.install()
    _distributed.install()
    _dlpack.install()
    _formats.install()
    _integers.install()
    _meta.install()
    _multiprocessing.install()
    _nested.install()
    _recompute.install()
    _sharding.install()
    _vmap.install()
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )


def _has_card() -> bool:
    # Do not ask the library: it reads its variables at its first use, and the program may
    # still set them.
    visible = os.environ.get("OPENREG_VISIBLE_DEVICES", "0").strip()
    if not visible or visible.startswith("-"):
        return False
    if os.environ.get("OPENREG_TRANSPORT") == "sim":
        return os.environ.get("OPENREG_SIM_CARDS") != "0"
    return bool(glob.glob("/dev/openreg*"))


def _choose_device_of_accelerate() -> None:
    """Makes accelerate and transformers' Trainer use openreg. Otherwise they use the CPU,
    because their list of devices is closed."""
    if _has_card():
        os.environ.setdefault("ACCELERATE_TORCH_DEVICE", "openreg")


def _print_from_copy() -> None:
    """Makes print() work on a copy on the CPU, so that its operators do not count as the
    user's fallbacks."""
    original = torch._tensor_str._tensor_str

    def _tensor_str(self, indent):
        return original(_printable(self), indent)

    torch._tensor_str._tensor_str = _tensor_str


def _printable(self: torch.Tensor) -> torch.Tensor:
    if self.device.type != "openreg":
        return self
    options = torch._tensor_str.PRINT_OPTS
    if self.numel() <= options.threshold:
        return self.cpu()
    # Copy only the edges: print() reads nothing else. The system allocates no memory for
    # pages that are never touched. Equal strides keep an expanded tensor small.
    n = options.edgeitems
    edges = [
        (slice(1),)
        if stride == 0
        else (slice(n), slice(size - n, None))
        if size > 2 * n
        else (slice(None),)
        for size, stride in zip(self.shape, self.stride())
    ]
    copy = torch.empty_strided(
        self.shape, self.stride(), dtype=self.dtype, device="cpu"
    )
    for part in itertools.product(*edges):
        copy[part] = self[part].cpu()
    return copy


def _start_sanitizer() -> None:
    if os.environ.get("TORCH_OPENREG_SANITIZER", "0").strip() not in ("", "0"):
        from . import _sanitizer

        _sanitizer.enable_openreg_sanitizer()


_register()
_choose_device_of_accelerate()
_print_from_copy()
_start_sanitizer()
atexit.register(_C.report_findings)
