# SPDX-License-Identifier: BSD-3-Clause
"""Weight normalization, fused and by torch.nn's two wrappers."""

import pytest
import torch
from ops import FLOATS, check, no_fallback, to_card, values

SHAPES = [((4, 3, 5), 0), ((4, 3, 5), 2), ((7, 9), 0), ((7, 9), 1), ((5,), 0), ((1, 6), 0),
          ((0, 3), 1), ((300, 70), 0), ((300, 70), 1)]
TOLERANCE = {
    torch.float32: {"rtol": 1e-5, "atol": 1e-5},
    torch.float64: {},
    torch.float16: {"rtol": 4e-3, "atol": 4e-3},
    torch.bfloat16: {"rtol": 3e-2, "atol": 3e-2},
}
interface = torch.ops.aten._weight_norm_interface
interface_backward = torch.ops.aten._weight_norm_interface_backward


def norms(shape, dim, dtype=torch.float32):
    """One norm for each slice, without zeros."""
    return values(*(n if d == dim else 1 for d, n in enumerate(shape)), dtype=dtype, low=0.5, seed=1)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape, dim", SHAPES)
def test_fused(shape, dim, dtype):
    v, g = values(*shape, dtype=dtype), norms(shape, dim, dtype)
    check(lambda v, g: interface(v, g, dim), v, g, **TOLERANCE[dtype])
    w, norm = interface(v, g, dim)
    grad = values(*shape, dtype=dtype, seed=2)
    check(lambda *a: interface_backward(*a, dim), grad, v, g, norm, **TOLERANCE[dtype])


def test_layouts():
    v, g = values(6, 8).t(), values(8, 1, low=0.5)
    check(lambda v, g: torch._weight_norm(v, g, 0), v, g)
    out, norm = interface(to_card(v), to_card(g), 0)
    assert out.is_contiguous() and norm.stride() == g.stride()
    half = g.bfloat16()
    assert interface(to_card(v.bfloat16()), to_card(half), 0)[1].dtype == torch.float32


def test_no_slices():
    """Without slices the card works; the CPU divides by zero."""
    with no_fallback():
        w, norm = interface(torch.ones(0, 3, device="openreg"), torch.ones(0, 1, device="openreg"), 0)
        grads = interface_backward(w, w, norm, norm, 0)
    assert w.shape == grads[0].shape == (0, 3) and norm.shape == grads[1].shape == (0, 1)


@pytest.mark.parametrize("wrapper", ["old", "parametrization"])
@pytest.mark.parametrize("dim", [0, 1, 2, None])
@pytest.mark.filterwarnings("ignore:.*weight_norm.*is deprecated")
def test_layers(wrapper, dim):
    wrap = {
        "old": torch.nn.utils.weight_norm,
        "parametrization": torch.nn.utils.parametrizations.weight_norm,
    }[wrapper]
    if wrapper == "parametrization" and dim is None:
        dim = -1

    def run(device):
        torch.manual_seed(0)
        net = wrap(torch.nn.Conv1d(3, 4, 5), dim=dim).to(device)
        net(values(2, 3, 11).to(device)).pow(2).sum().backward()
        return [p.grad.cpu() for p in net.parameters()]

    want = run("cpu")
    with no_fallback():
        got = run("openreg")
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


def test_errors():
    v, g = values(3, 4).to("openreg"), values(3, 1).to("openreg")
    with pytest.raises(RuntimeError, match="same device"):
        torch._weight_norm(v, g.cpu(), 0)
    with pytest.raises(RuntimeError, match="saved_v must be contiguous"):
        interface_backward(v, v.t(), g, g, 0)
    with pytest.raises(RuntimeError, match="fused kernels can only be applied for first or last dim"):
        interface(values(3, 4, 5).to("openreg"), values(1, 4, 1).to("openreg"), 1)
