# SPDX-License-Identifier: BSD-3-Clause
"""scaled_dot_product_attention on the card, and the layers that use it."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from ops import check, no_fallback, to_card, values, with_gradients

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def attend(**options):
    return with_gradients(
        lambda q, k, v, *mask: F.scaled_dot_product_attention(q, k, v, *mask, **options))


def tensors(batch=2, heads=4, kv_heads=4, rows=5, keys=7, width=8, out=8, dtype=torch.float32):
    return (
        values(batch, heads, rows, width, dtype=dtype),
        values(batch, kv_heads, keys, width, dtype=dtype, seed=1),
        values(batch, kv_heads, keys, out, dtype=dtype, seed=2),
    )


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}])
@pytest.mark.parametrize("shape", [{}, {"out": 3}, {"keys": 1}, {"rows": 9, "keys": 4}])
def test_attention(shape, options):
    check(attend(**options), *tensors(**shape), **CLOSE)


def test_attention_is_one_operator():
    q, k, v = map(to_card, tensors())
    torch.openreg.reset_op_counts()
    F.scaled_dot_product_attention(q, k, v, is_causal=True)
    counts = torch.openreg.op_counts()
    assert counts["aten::_scaled_dot_product_fused_attention_overrideable"] == 1
    assert not {"aten::bmm", "aten::_softmax"} & set(counts)


@pytest.mark.parametrize("mask_shape", [(5, 7), (1, 7), (2, 1, 5, 7), (2, 4, 5, 7), (2, 1, 1, 7)])
def test_masks(mask_shape):
    q, k, v = tensors()
    keep = values(*mask_shape, dtype=torch.bool, seed=3)
    keep[..., 0] = True
    check(attend(), q, k, v, keep, **CLOSE)
    check(attend(), q, k, v, values(*mask_shape, seed=3), **CLOSE)


def test_fully_masked_row():
    """A row without an allowed key has zeros and no gradient, as on the CPU."""
    q, k, v = tensors()
    keep = torch.ones(5, 7, dtype=torch.bool)
    keep[2] = False
    check(attend(), q, k, v, keep, **CLOSE)


@pytest.mark.parametrize("options", [{}, {"is_causal": True}])
@pytest.mark.parametrize("kv_heads", [1, 2])
def test_grouped_heads(kv_heads, options):
    check(attend(enable_gqa=True, **options), *tensors(kv_heads=kv_heads), **CLOSE)


def test_transposed_heads():
    """The layout of most models: [batch, length, heads, width], transposed."""
    q, k, v = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in tensors())
    check(attend(is_causal=True), q, k, v, **CLOSE)
    with no_fallback():
        out = F.scaled_dot_product_attention(*map(to_card, (q, k, v)))
    assert out.transpose(1, 2).is_contiguous()


@pytest.mark.parametrize("shape", [(3, 5, 8), (2, 3, 5, 8)])
def test_strides_of_the_result(shape):
    for order in ((-1, -2), (-2, -3), (-1, -3)):
        q, k, v = (
            values(*shape, seed=seed).transpose(*order).contiguous().transpose(*order)
            for seed in range(3)
        )
        want = F.scaled_dot_product_attention(q, k, v)
        got = F.scaled_dot_product_attention(*map(to_card, (q, k, v)))
        assert got.stride() == want.stride(), order
        torch.testing.assert_close(got.cpu(), want, **CLOSE)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves(dtype):
    inputs = tensors(dtype=dtype)
    exact = attend(is_causal=True)(*(t.float() for t in inputs))
    with no_fallback():
        got = attend(is_causal=True)(*map(to_card, inputs))
    for g, w in zip(got, exact):
        assert g.dtype == dtype
        torch.testing.assert_close(g.cpu().float(), w, rtol=3e-2, atol=3e-2)


def test_doubles_and_large_scores():
    q, k, v = tensors(dtype=torch.float64)
    check(attend(), q, k, v)
    check(attend(), q * 100, k * 100, v)


# Each has more scores than the 2^22 of one slice. The slices divide the batch, the heads,
# the query heads that share keys, or the queries of one head.
MANY = {
    "batch": {"batch": 3, "heads": 1, "kv_heads": 1, "rows": 1400, "keys": 1400},
    "heads": {"batch": 2, "heads": 4, "kv_heads": 4, "rows": 1200, "keys": 1200},
    "groups": {"batch": 1, "heads": 3, "kv_heads": 1, "rows": 1500, "keys": 1500},
    "queries": {"batch": 1, "heads": 2, "kv_heads": 2, "rows": 2500, "keys": 2100},
}
SLICE = 4 << 22  # bytes of the scores of one slice


@pytest.mark.native
@pytest.mark.parametrize("mask", [None, "causal", "bool", "shared", "whole"])
@pytest.mark.parametrize("over", MANY)
def test_slices(over, mask):
    shape = MANY[over]
    inputs = [*tensors(width=4, out=4, **shape)]
    rows, keys = shape["rows"], shape["keys"]
    if mask == "bool":
        inputs.append(values(rows, keys, dtype=torch.bool, seed=3))
    elif mask == "shared":
        inputs.append(values(1, 1, 1, keys, seed=3))
    elif mask == "whole":
        inputs.append(values(shape["batch"], shape["heads"], rows, keys, seed=3))
    step = attend(is_causal=mask == "causal", enable_gqa=over == "groups")
    want = step(*inputs)
    moved = [to_card(t) for t in inputs]
    held = torch.openreg.memory_allocated()
    torch.openreg.reset_peak_memory_stats()
    with no_fallback():
        got = step(*moved)
    most = torch.openreg.max_memory_allocated() - held
    scale = max(1, rows // 16)  # the keys' gradients are sums over the rows
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(g.cpu(), w, rtol=1e-4, atol=1e-5 * scale)
    if mask != "whole":  # the gradient of a whole mask is as large as all scores
        as_numbers = 4 * rows * keys if mask == "bool" else 0
        assert most < 2 * SLICE + as_numbers + (3 << 20)


def test_logsumexp_result():
    q, k, v = tensors()
    with no_fallback():
        log_sum = torch.ops.aten._scaled_dot_product_fused_attention_overrideable(
            *map(to_card, (q, k, v)))[1]
    want = (q @ k.transpose(-2, -1) / 8**0.5).logsumexp(-1)
    torch.testing.assert_close(log_sum.cpu(), want, **CLOSE)


@pytest.mark.parametrize("empty", range(3))
def test_empty_operands_of_the_cpus_kernel(empty):
    """Core's kernel divides by their sizes, which would end the process."""
    forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    tensors = [torch.ones(1, 2, 0 if i == empty else 3, 8).to("openreg") for i in range(3)]
    with pytest.raises(RuntimeError, match="for_cpu takes no empty tensors"):
        forward(*tensors)
    for x in torch.ones(0, 2, 3, 8), torch.ones(2, 2, 3, 0):  # these sizes are no divisors
        y = x.to("openreg")
        out, log_sum = forward(y, y, y)
        assert out.shape == x.shape and log_sum.shape == forward(x, x, x)[1].shape
        assert all(g.shape == x.shape for g in backward(out, y, y, y, out, log_sum, 0.0, False))
    x = torch.ones(1, 2, 3, 8)
    torch.testing.assert_close(forward(*[x.to("openreg")] * 3)[0].cpu(), forward(x, x, x)[0])


def test_caller_selects_the_math_backend():
    q, k, v = map(to_card, tensors())
    with sdpa_kernel(SDPBackend.MATH), no_fallback():
        torch.openreg.reset_op_counts()
        F.scaled_dot_product_attention(q, k, v)
    assert "aten::_scaled_dot_product_fused_attention_overrideable" not in torch.openreg.op_counts()


def test_cases_of_the_math_backend():
    check(attend(), values(3, 5, 8), values(3, 7, 8, seed=1), values(3, 7, 8, seed=2), **CLOSE)
    q, k, v = map(to_card, tensors())
    assert torch._fused_sdp_choice(q, k, v) == SDPBackend.OVERRIDEABLE.value
    assert torch._fused_sdp_choice(q, k, v, dropout_p=0.5) == SDPBackend.MATH.value


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_multi_head_attention(need_weights, training):
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(16, 4, batch_first=True).train(training)
    x, keys = values(2, 5, 16), values(2, 5, 16, seed=1)
    hide = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    card = nn.MultiheadAttention(16, 4, batch_first=True).train(training)
    card.load_state_dict(layer.state_dict())
    card.to("openreg")
    with torch.set_grad_enabled(training):
        for args, options in [
            ((x, x, x), {}),
            ((x, keys, keys), {}),
            ((x, x, x), {"key_padding_mask": hide}),
            ((x, x, x), {"attn_mask": torch.ones(5, 5, dtype=torch.bool).triu(1)}),
        ]:
            want = layer(*args, need_weights=need_weights, **options)
            moved = [to_card(args[0])] * 3 if args[0] is args[1] else [to_card(a) for a in args]
            with no_fallback():
                got = card(*moved, need_weights=need_weights,
                           **{k: to_card(v) for k, v in options.items()})
            for g, w in zip(got, want):
                assert (g is None) == (w is None)
                if w is not None:
                    torch.testing.assert_close(g.detach().cpu(), w.detach(), **CLOSE)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_the_encoder_in_evaluation(activation, norm_first):
    """Core has its own operator for an encoder layer in evaluation."""
    torch.manual_seed(0)
    def make():
        return nn.TransformerEncoder(
            nn.TransformerEncoderLayer(
                16, 4, 32, batch_first=True, activation=activation, norm_first=norm_first),
            2, enable_nested_tensor=not norm_first).eval()
    layer, card = make(), make()
    card.load_state_dict(layer.state_dict())
    card.to("openreg")
    x, hide = values(2, 5, 16), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.no_grad():
        for options in [{}, {"src_key_padding_mask": hide}]:
            want = layer(x, **options)
            with no_fallback():
                got = card(to_card(x), **{k: to_card(v) for k, v in options.items()})
            keep = ~hide if options else torch.ones_like(hide)
            torch.testing.assert_close(got.cpu()[keep], want[keep], **CLOSE)


def test_no_allowed_backend():
    q = to_card(values(2, 2, 4, 8))
    with sdpa_kernel(SDPBackend.OVERRIDEABLE):
        with pytest.raises(RuntimeError, match="No available kernel"):
            F.scaled_dot_product_attention(q, q, q, dropout_p=0.5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gradients_of_halves_are_rounded_once(dtype):
    """The rounding of a large output must not affect the gradients."""

    def run(*tensors):
        tensors = [t.detach().requires_grad_() for t in tensors]
        out = F.scaled_dot_product_attention(*tensors)
        slopes = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view(out.shape)
        return torch.autograd.grad(out, tensors, slopes.to(out))

    inputs = [values(2, 4, n, 8, seed=n).to(dtype) for n in (3, 6)]
    inputs.append((inputs[1].flip(1) + 60).to(dtype))
    exact = run(*(t.double() for t in inputs))
    with no_fallback():
        got = run(*map(to_card, inputs))
    for g, e in zip(got, exact, strict=True):
        # Two roundings of half a unit in the last place: of the slopes and of the result.
        assert (g.cpu().double() - e).abs().max() <= 1.1 * torch.finfo(dtype).eps * e.abs().max()
