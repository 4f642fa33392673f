# SPDX-License-Identifier: BSD-3-Clause
"""Gives core's fake tensors the memory format of the card's results."""

import torch
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


def install() -> None:
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
