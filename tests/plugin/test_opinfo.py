# SPDX-License-Identifier: BSD-3-Clause
"""Core's own samples of the operators with a kernel, on the card and on the CPU.

The samples cover cases that hand-written tests forget: empty and 0-dimensional tensors,
strides, keyword arguments, broadcasting. The tests run on the in-process card only: an
emulated CPU takes many minutes for the reference.
"""

import itertools

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

from marks import unchecked_among
from ops import as_list, no_fallback, to_card, to_cpu

SAMPLES = 16  # per operator, evenly spaced

# names as op_db has them, with the variant if there is one
NATIVE = """
    abs add addbmm addcdiv addcmul addmm addmv addr all amax amin aminmax angle any arange argmax
    argmin atan2 baddbmm bmm cat cdist ceil chunk clamp clamp_max clamp_min clone
    constant_pad_nd copysign cos count_nonzero cummax cummin cumprod cumsum diag diag_embed
    diagonal diagonal_scatter diff div.floor_rounding div.no_rounding_mode div.trunc_rounding
    dot dstack einsum eq erf erfc exp exp2 expand expm1 eye fill flatten flip fliplr flipud
    float_power floor fmax fmin fmod frac full full_like ge gt heaviside hstack hypot
    complex conj_physical cross digamma erfinv frexp histc i0 isin
    isclose isfinite isinf isnan kron le lerp linspace log log10 log1p log2 logaddexp
    logical_and logical_not logical_or logical_xor logit logsumexp lt
    matmul max.binary max.reduction_with_dim maximum mean min.binary
    min.reduction_with_dim minimum mm movedim mul mv nan_to_num nansum narrow ne neg
    new_full norm norm.inf ones_like outer permute pow ravel reciprocal remainder repeat
    reshape roll rot90 round round.decimals_3 round.decimals_neg_3 rsqrt rsub
    select_scatter sigmoid sign sin sinc slice_scatter softmax special.entr
    special.xlog1py split sqrt square squeeze stack std std_mean
    sub sum sum_to_size t tan tanh tensordot tile trace transpose tril triu true_divide trunc
    unbind unflatten unfold unsqueeze var var_mean vstack where xlogy
    argsort bucketize kthvalue median msort nanmedian nanquantile quantile searchsorted sort topk
    unique unique_consecutive
    linalg.cross linalg.vector_norm linalg.multi_dot logspace mvlgamma.mvlgamma_p_3 narrow_copy
    nextafter nonzero_static polar polygamma.polygamma_n_1 polygamma.polygamma_n_3 renorm
    sgn signal.windows.kaiser special.erfcx special.i0e special.i1e
    special.legendre_polynomial_p special.log_ndtr special.ndtri special.zeta
    native_batch_norm native_layer_norm _native_batch_norm_legit
    nn.functional.batch_norm nn.functional.bilinear nn.functional.binary_cross_entropy
    nn.functional.binary_cross_entropy_with_logits nn.functional.celu
    nn.functional.cosine_embedding_loss nn.functional.cosine_similarity
    nn.functional.cross_entropy nn.functional.elu nn.functional.gelu nn.functional.glu
    nn.functional.group_norm nn.functional.hardshrink nn.functional.hardsigmoid
    nn.functional.hardswish nn.functional.hardtanh nn.functional.hinge_embedding_loss
    nn.functional.huber_loss nn.functional.instance_norm nn.functional.kl_div
    nn.functional.l1_loss nn.functional.layer_norm nn.functional.leaky_relu
    nn.functional.ctc_loss nn.functional.embedding_bag
    nn.functional.linear nn.functional.logsigmoid nn.functional.margin_ranking_loss
    nn.functional.mish nn.functional.mse_loss nn.functional.nll_loss
    nn.functional.normalize nn.functional.pad.circular nn.functional.pad.constant
    nn.functional.pad.reflect nn.functional.pad.replicate nn.functional.pairwise_distance
    nn.functional.pixel_shuffle nn.functional.pixel_unshuffle nn.functional.poisson_nll_loss
    nn.functional.prelu nn.functional.relu nn.functional.relu6 nn.functional.rms_norm
    nn.functional.selu nn.functional.silu nn.functional.smooth_l1_loss
    nn.functional.soft_margin_loss nn.functional.softplus nn.functional.softshrink
    nn.functional.softsign nn.functional.tanhshrink nn.functional.threshold
    nn.functional.triplet_margin_loss nn.functional.channel_shuffle nn.functional.max_unpool2d
    nn.functional.max_unpool3d nn.functional.unfold nn.functional.interpolate.linear
""".split()

OPS = {op.name + ("." + op.variant_test_name if op.variant_test_name else ""): op for op in op_db}


def spread(samples):
    samples = list(samples)
    step = max(1, len(samples) // SAMPLES)
    return samples[::step][:SAMPLES]


def moved(value):
    """Copies dense tensors to the card with their strides, and replaces named devices."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            return value.detach().to("openreg").requires_grad_(value.requires_grad)
        expanded = any(s == 0 and n > 1 for s, n in zip(value.stride(), value.shape))
        copy = value.detach().to("openreg") if expanded else to_card(value.detach())
        return copy.requires_grad_(value.requires_grad)
    if isinstance(value, dict):
        return {k: moved(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(moved(v) for v in value)
    if isinstance(value, torch.device) or value == "cpu":
        return torch.device("openreg")
    return value


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    return list(itertools.chain.from_iterable(tensors(v) for v in value))


def gradients(out, inputs):
    inputs = [t for t in tensors(inputs) if t.requires_grad]
    outs = [t for t in tensors(out) if t.requires_grad]
    if not inputs or not outs:
        return []
    weights = [torch.linspace(-1, 1, t.numel(), dtype=t.dtype).view(t.shape).to(t.device) for t in outs]
    return torch.autograd.grad(outs, inputs, weights, allow_unused=True)


def compare(got, want, **tolerance):
    got, want = as_list(to_cpu(got)), as_list(want)
    torch.testing.assert_close(got, want, equal_nan=True, check_stride=False, **tolerance)


def both(op, sample):
    """The sample's inputs on the CPU, and on the card."""
    args = (sample.input, *sample.args)
    return (args, sample.kwargs), (moved(args), moved(sample.kwargs))


# Core copies the unwritten corners of torch.empty(), and overwrites them later.
COPIES_UNWRITTEN = {"nn.functional.pad.circular"}


@pytest.mark.parametrize("name", unchecked_among(NATIVE, COPIES_UNWRITTEN))
def test_samples(name):
    op = OPS[name]
    differentiable = op.supports_autograd
    for sample in spread(op.sample_inputs("cpu", torch.float32, requires_grad=differentiable)):
        (args, kwargs), (card_args, card_kwargs) = both(op, sample)
        want = op.op(*args, **kwargs)
        with no_fallback():
            got = op.op(*card_args, **card_kwargs)
        compare(got, want, rtol=1e-4, atol=1e-5)
        if differentiable:
            slopes = gradients(want, (args, kwargs))
            with no_fallback():
                card_slopes = gradients(got, (card_args, card_kwargs))
            for g, w in zip(card_slopes, slopes, strict=True):
                assert (g is None) == (w is None)
                if w is not None:
                    compare(g, w, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", [n for n in NATIVE if OPS[n].supports_out])
def test_out(name):
    """out= has the right shape, with gaps between its elements."""
    op = OPS[name]
    for sample in spread(op.sample_inputs("cpu", torch.float32))[:4]:
        (args, kwargs), (card_args, card_kwargs) = both(op, sample)
        want = op.op(*args, **kwargs)
        outs = []
        for t in tensors(want):
            gaps = torch.zeros(*t.shape, 2, dtype=t.dtype)
            outs.append(to_card(gaps).select(-1, 1))
        out = outs[0] if isinstance(want, torch.Tensor) else tuple(outs)
        with no_fallback():
            op.op(*card_args, **card_kwargs, out=out)
        compare(tensors(out), tensors(want), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [
    "add", "mul", "cumsum", "sum", "matmul", "where", "nn.functional.layer_norm",
    "nn.functional.batch_norm", "nn.functional.group_norm", "nn.functional.rms_norm",
    "nn.functional.gelu", "nn.functional.silu", "flip", "roll",
])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves(name, dtype):
    """The card computes half types in f32 and rounds once, so the result is near f32's."""
    op = OPS[name]
    if dtype not in op.dtypes:
        pytest.fail(f"{name} has no samples in {dtype}")
    for sample in spread(op.sample_inputs("cpu", dtype))[:6]:
        (args, kwargs), (card_args, card_kwargs) = both(op, sample)
        with no_fallback():
            got = op.op(*card_args, **card_kwargs)
        compare(got, op.op(*args, **kwargs), rtol=3e-2, atol=3e-2)
