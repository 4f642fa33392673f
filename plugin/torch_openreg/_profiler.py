# SPDX-License-Identifier: BSD-3-Clause
"""Ranges for tracers outside of the process: the module torch.openreg.profiler."""

import contextlib
import os
from collections.abc import Iterator

import torch
from torch._C._profiler import ProfilerState, _ExperimentalConfig

from . import _C

__all__ = ["emit_ranges", "mark", "range", "range_pop", "range_push"]

KERNEL = "/sys/kernel/tracing/trace_marker"


_opened = ""


def _open() -> None:
    global _opened
    path = os.environ.get("OPENREG_TRACE_MARKER") or KERNEL
    if path != _opened:
        _C.open_trace_marker(path)
        _opened = path


class emit_ranges:
    """
    In this scope each operator and record_function() of torch writes its begin and its end to
    the kernel's trace_marker, or to the file that OPENREG_TRACE_MARKER names. So operators are
    in traces of the whole system, as with torch.autograd.profiler.emit_nvtx. record_shapes adds
    the sizes of the inputs. Raises RuntimeError if the file cannot be written. Only one profiler
    of a thread runs at a time.
    """

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled
        self.record_shapes = record_shapes

    def __enter__(self) -> "emit_ranges":
        if not self.enabled:
            return self
        _open()
        torch.autograd._enable_profiler(
            torch.autograd.ProfilerConfig(
                ProfilerState.PRIVATEUSE1,
                self.record_shapes,
                False,
                False,
                False,
                False,
                _ExperimentalConfig(),
            ),
            set(),
        )
        return self

    def __exit__(self, *_) -> None:
        if self.enabled:
            torch.autograd._disable_profiler()


def range_push(name: str) -> None:
    """Begins a range of this thread. Ranges nest."""
    _open()
    _C.trace_begin(name)


def range_pop() -> None:
    """Ends the range that the thread has begun last."""
    _C.trace_end()


def mark(name: str) -> None:
    """Emits a moment."""
    _open()
    _C.trace_mark(name)


@contextlib.contextmanager
def range(name: str) -> Iterator[None]:
    """The scope is a range."""
    range_push(name)
    try:
        yield
    finally:
        range_pop()
