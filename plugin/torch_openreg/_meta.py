# SPDX-License-Identifier: BSD-3-Clause
"""Gives core's fake tensors the shapes and the memory format of the card's results."""

import functools

import torch
from torch._decomp import decompositions
from torch._subclasses import fake_impls

aten = torch.ops.aten

# Their results have the CPU's layout on the card. Core predicts a GPU's for every device that
# is not the CPU. The FFT runs on the CPU.
_LIKE_CPU = (
    aten._fft_c2c.default,
    aten._fft_c2r.default,
    aten._fft_r2c.default,
    aten.nonzero_static.default,
)


def _as_on_cpu(mode, func, x, *args, **kwargs):
    if x.device.type != "openreg":
        return NotImplemented
    with mode:
        like = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="cpu")
        found = func(like, *args, **kwargs)
        return torch.empty_strided(
            found.shape, found.stride(), dtype=found.dtype, device=x.device
        )


def _batch_norm_saves_nothing() -> None:
    """Without training the card saves no mean, as the CPU. Core has a GPU's."""
    helper = decompositions.native_batch_norm_helper

    @functools.wraps(helper)
    def run(x, weight, bias, mean, variance, training, *args):
        found = helper(x, weight, bias, mean, variance, training, *args)
        if training or x.device.type != "openreg":
            return found
        kept = next(t for t in (weight, mean, x) if t is not None)
        nothing = x.new_empty((0,), dtype=kept.dtype)
        return (found[0], nothing, nothing, *found[3:])

    decompositions.native_batch_norm_helper = run


def install() -> None:
    _batch_norm_saves_nothing()
    fake_impls.register_op_impl(_LIKE_CPU)(_as_on_cpu)
    of_core = torch._C._conv_determine_backend_memory_format

    def memory_format(input, weight, backend):
        if input.device.type != "openreg":
            return of_core(input, weight, backend)
        from torch._prims_common import suggest_memory_format

        for t in (input, weight):
            found = suggest_memory_format(t)
            if found != torch.contiguous_format:
                return found
        return torch.contiguous_format

    torch._C._conv_determine_backend_memory_format = memory_format
