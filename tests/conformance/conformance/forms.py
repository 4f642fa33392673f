# SPDX-License-Identifier: MIT
"""What core composes of operators, and differently by the type of the device. The CPU
takes the device's form, else two computations would be compared."""

import functools

import torch


def same_on(device: str) -> None:
    """From now on the CPU takes the forms of that device."""
    options = getattr(torch.nn, "LinearCrossEntropyOptions", None)
    if hasattr(options, "_adjust"):
        options._adjust = _with_device(options._adjust, torch.device(device))


def _with_device(adjust, device: torch.device):
    """It accumulates half types in float32 on the devices that it has a list of."""

    @functools.wraps(adjust)
    def adjusted(*args, **kwargs):
        return adjust(*args, **{**kwargs, "device": device})

    return adjusted
