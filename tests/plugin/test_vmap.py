# SPDX-License-Identifier: BSD-3-Clause
"""torch.func (vmap, grad) over the card's own operators."""

import pytest
import torch
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

from ops import check, no_fallback, values

CLOSE = {"rtol": 1e-4, "atol": 1e-5}
attend = F.scaled_dot_product_attention


def qkv(*batch):
    return [values(*batch, 2, 4, 5, 8, seed=i) for i in range(3)]


@pytest.mark.parametrize("dims", [(0, 0, 0), (1, None, 2), (None, 0, 0), (3, 1, 0)])
def test_attention(dims):
    tensors = [
        t if d is None else t.unsqueeze(0).expand(3, *t.shape).mul(values(3, *t.shape, seed=9)).movedim(0, d)
        for t, d in zip(qkv(), dims)
    ]
    check(vmap(attend, in_dims=dims), *tensors, **CLOSE)
    check(vmap(lambda *t: attend(*t, is_causal=True), in_dims=dims), *tensors, **CLOSE)


@pytest.mark.parametrize("shape", [(5, 5), (1, 1, 5, 5), (2, 4, 5, 5), (4, 1, 5)])
@pytest.mark.parametrize("mapped", [0, None])
def test_attention_with_a_bias(shape, mapped):
    bias = values(*([3] if mapped == 0 else []), *shape)
    loss = lambda *t: attend(*t).square().sum()  # noqa: E731
    dims = (0, 0, 0, mapped)
    check(vmap(attend, in_dims=dims), *qkv(3), bias, **CLOSE)
    check(vmap(grad(loss, argnums=(0, 1, 2, 3)), in_dims=dims), *qkv(3), bias, rtol=1e-3, atol=1e-4)


def test_attention_nested():
    check(vmap(vmap(attend, in_dims=(0, None, 0)), in_dims=(0, None, 0)), *(t[0, 0] if i == 1 else t for i, t in enumerate(qkv(2, 3))), **CLOSE)


def test_gradients_of_each_sample():
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    x = values(3, 6, 16)

    def run(device):
        module = layer.to(device)
        parameters = {n: p.detach() for n, p in module.named_parameters()}
        each = grad(lambda p, x: functional_call(module, p, (x.unsqueeze(0),)).square().sum())
        return vmap(each, in_dims=(None, 0))(parameters, x.to(device))

    want = run("cpu")
    with no_fallback():
        got = run("openreg")
    for name in want:
        torch.testing.assert_close(got[name].cpu(), want[name], rtol=1e-3, atol=1e-4)
