# SPDX-License-Identifier: BSD-3-Clause
"""Operators for which core has one function for all devices, and the function reads the data
on the host: they run on the CPU, counted, or are refused in words."""

import pytest
import torch

DEV = "openreg"
aten = torch.ops.aten


def sobol(device):
    """Draws, skips, scrambles and sets up the state of a Sobol engine."""
    state = torch.zeros(3, 30, dtype=torch.long, device=device)
    aten._sobol_engine_initialize_state_(state, 3)
    shifts = torch.ones(3, 30, 30, dtype=torch.long, device=device).tril()
    aten._sobol_engine_scramble_(state, shifts, 3)
    quasi = torch.zeros(3, dtype=torch.long, device=device)
    aten._sobol_engine_ff_(quasi, 5, state, 3, 0)
    return state, quasi, *aten._sobol_engine_draw(quasi, 4, state, 3, 5, torch.float32)


def quantization(device):
    x = torch.arange(6.0, device=device)
    return [torch.as_tensor(t) for t in torch.choose_qparams_optimized(x, 6, 3, 0.16, 8)]


def reshape(device):
    return [aten._reshape_from_tensor(torch.arange(6.0, device=device), torch.tensor([2, 3], device=device))]


@pytest.mark.parametrize("function", [sobol, quantization, reshape])
def test_on_the_cpu(function):
    want = function("cpu")
    torch.openreg.reset_fallbacks()
    got = function(DEV)
    assert torch.openreg.fallbacks()
    for a, b in zip(got, want, strict=True):
        assert torch.equal(a.cpu(), b)


def test_gradients():
    x = torch.arange(6.0, device=DEV, requires_grad=True)
    (aten._reshape_from_tensor(x, torch.tensor([2, 3], device=DEV)) * 2).sum().backward()
    assert x.grad.tolist() == [2] * 6


def test_packing():
    x = torch.ones(4, 4, device=DEV)
    whole = x.to(torch.int8)
    cases = {
        "_saturate_weight_to_fp16": (x,),
        "fbgemm_pack_gemm_matrix_fp16": (x,),
        "fbgemm_linear_fp16_weight": (x, x, x[0]),
        "fbgemm_linear_fp16_weight_fp32_activation": (x, x, x[0]),
        "fbgemm_linear_quantize_weight": (x,),
        "fbgemm_pack_quantized_matrix": (whole,),
        "fbgemm_linear_int8_weight": (x, whole, whole, x[0], 1.0, 0, x[0]),
        "fbgemm_linear_int8_weight_fp32_activation": (x, whole, whole, x[0], 1.0, 0, x[0]),
    }
    for name, args in cases.items():
        with pytest.raises(NotImplementedError, match="has no quantized tensors.*quantize_\\(\\) of torchao"):
            getattr(aten, name)(*args)
