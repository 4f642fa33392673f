# SPDX-License-Identifier: MIT
"""Composite operators of core that compute differently by the type of the device. The CPU
must take the device's form, or the tool would compare two different computations."""

import functools

import torch


def same_on(device: str) -> None:
    """Makes the CPU take the forms of that device from now on."""
    options = getattr(torch.nn, "LinearCrossEntropyOptions", None)
    if hasattr(options, "_adjust"):
        options._adjust = _with_device(options._adjust, torch.device(device))


def _with_device(adjust, device: torch.device):
    """Wraps _adjust(), which chooses the accumulator of half types by the device: float32
    on the devices of its list."""

    @functools.wraps(adjust)
    def adjusted(*args, **kwargs):
        return adjust(*args, **{**kwargs, "device": device})

    return adjusted
