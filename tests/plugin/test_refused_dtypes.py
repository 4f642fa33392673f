# SPDX-License-Identifier: BSD-3-Clause
"""What the CPU refuses, the card refuses: every operator of core's lists, in the dtypes that
core does not claim for the CPU, with out= and in-place forms of other dtypes, and with
core's own wrong arguments.

Where the CPU computes although core does not claim it, the card has the same result or
raises NotImplementedError. Where the CPU refuses and core claims the dtype for CUDA, the
card may compute: then its result is near the CPU's in a wider dtype."""

import itertools
import re
import warnings
from unittest import mock

import pytest
import torch
from torch.testing._internal import common_methods_invocations as invocations
from torch.utils._pytree import tree_leaves, tree_map

from marks import unchecked_among
from ops import to_card

DEVICE = "openreg"
SAMPLES = 2  # for each operator and dtype
INTS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
UNSIGNED = [torch.uint16, torch.uint32, torch.uint64]
HALVES = [torch.float16, torch.bfloat16]
FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2]
COMPLEX = [torch.complex32, torch.complex64, torch.complex128]
DTYPES = [
    torch.bool, *INTS, *UNSIGNED, *HALVES, torch.float32, torch.float64, *FLOAT8, *COMPLEX,
]
MADE_IN = [torch.float32, torch.int64, torch.bool, torch.complex64, *DTYPES]
ON_HOST = (torch.tensor_split,)  # its indices are on the CPU for every device
UNFILLED = ("empty", "new_empty")

OPS = {op.full_name: op for op in invocations.op_db if op.dtypes}
FOREACH = {
    op.name: op
    for kind in ("unary", "binary", "pointwise", "reduce", "other")
    for op in getattr(invocations, f"foreach_{kind}_op_db")
}


# (reason, dtypes, names) of results that the CPU refuses to compute and that are right.
EXTENSIONS = [
    ("The card rounds a result in F32 or F64 once. The CPU has no kernel for the dtype, only "
     "because nobody asked for one.", HALVES, r"special\..*|cdist|nn\.functional\.rrelu"),
    ("The same, of pairs of float16.", [torch.complex32],
     r"addr|addcdiv|div.*|__rdiv__|equal|reciprocal|gradient|einsum|tensordot|trapz|trapezoid"
     r"|sum_to_size|mean|logsumexp|masked\.(sum|mean|var|normalize|logsumexp)"
     r"|nn\.functional\.(normalize|softsign)|_foreach_(exp|log|reciprocal|div|addcdiv)"),
    ("Elements move, or compare with 0. Nothing computes with them.",
     [torch.bool, *UNSIGNED, *FLOAT8, torch.complex32],
     r"flip|masked_select|masked_scatter|nonzero|argwhere|count_nonzero|to_sparse"
     r"|gather|scatter|take|take_along_dim|put|index_put|index_copy|tril|triu"
     r"|nn\.functional\.pad\.(reflect|replicate).*"
     r"|nn\.functional\.(pixel_shuffle|pixel_unshuffle|channel_shuffle)"),
]


def wider(dtype):
    """The widest dtype of the same kind, in which the CPU computes more."""
    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point else torch.int64


def made_in(op):
    return next(dtype for dtype in MADE_IN if dtype in op.dtypes)


def samples(op, dtype):
    """Core's first samples. A sample is (input, args, kwargs)."""
    kwargs = {"num_input_tensors": [2]} if op.name.startswith("_foreach") else {}
    made = itertools.islice(op.sample_inputs("cpu", dtype, **kwargs), SAMPLES)
    return [(s.input, s.args, s.kwargs) for s in made]


def cast(value, made, dtype):
    """The value with its tensors and names of dtype `made` in another dtype."""

    def one(x):
        if isinstance(x, torch.Tensor):
            return x.detach().to(dtype) if x.dtype == made else x.detach()
        return dtype if x == made and isinstance(x, torch.dtype) else x

    return tree_map(one, value)


def on(device, value):
    """A copy of the value on the device, with its strides."""

    def one(x):
        if isinstance(x, torch.Tensor):
            if device == "cpu":
                return x.clone()
            return to_card(x) if x.layout == torch.strided else x.to(device)
        if isinstance(x, torch.device) or isinstance(x, str) and x == "cpu":
            return torch.device(device)
        return x

    return tree_map(one, value)


def run(function, sample, device, out=None):
    """(the result, None), or (None, the error that the operator raises)."""
    input, args, kwargs = on(device, sample)
    if function in ON_HOST:
        args, kwargs = on("cpu", sample[1:])
    if out is not None:
        kwargs["out"] = out
    try:
        with torch.no_grad():
            result = function(input, *args, **kwargs)
        if device == DEVICE:
            torch.openreg.synchronize()
        return result, None
    except Exception as error:  # noqa: BLE001 - the result
        if isinstance(error, torch.AcceleratorError):
            torch.openreg.reset()
        return None, error


def is_random(op, function, sample):
    """Whether another seed has another result on the CPU, or the result is not filled."""
    if op.name.startswith(UNFILLED):
        return True
    results = []
    for seed in range(4):
        torch.manual_seed(seed)
        # Some functions of op_db set a seed of their own.
        with mock.patch("torch.manual_seed"):
            results.append(run(function, sample, "cpu")[0])
    return any(
        not same(a, b)
        for other in results[1:]
        for a, b in zip(tree_leaves(results[0]), tree_leaves(other))
    )


TOLERANCE = {
    torch.float16: 1e-2,
    torch.bfloat16: 5e-2,
    torch.float8_e4m3fn: 0.15,
    torch.float8_e5m2: 0.3,
    torch.complex32: 2e-2,
}


def comparable(t):
    t = t.detach().cpu()
    t = t.to(wider(t.dtype))
    return t if t.layout == torch.strided else t.to_dense()


def same(got, want, dtype=None):
    """Whether a leaf of the result is near the leaf that is right."""
    if not isinstance(want, torch.Tensor):
        return got == want or isinstance(want, float)
    tolerance = TOLERANCE.get(dtype, TOLERANCE.get(want.dtype, 2e-4))
    if dtype is not None:
        want = want.to(got.dtype)
    got, want = comparable(got), comparable(want)
    finite = want[want.isfinite()].abs()
    # A sum of narrow numbers is as exact as its largest term.
    size = max(1.0, finite.max().item()) if tolerance > 1e-3 and finite.numel() else 1.0
    return torch.allclose(got, want, rtol=tolerance, atol=tolerance * size, equal_nan=True)


def difference(got, want, random, dtype=None):
    got, want = tree_leaves(got), tree_leaves(want)
    if len(got) != len(want):
        return f"{len(got)} results, not {len(want)}"
    for g, w in zip(got, want):
        if isinstance(w, torch.Tensor):
            if g.shape != w.shape:
                return f"shape {tuple(g.shape)}, not {tuple(w.shape)}"
            if dtype is None and g.dtype != w.dtype:
                return f"{g.dtype}, not {w.dtype}"
        if not random and not same(g, w, dtype):
            return f"{g}, not {w}"
    return None


def fault(of_card, of_cpu, random=False):
    """What is wrong with the card's outcome; None if nothing is."""
    (got, error), (want, expected) = of_card, of_cpu
    if isinstance(error, torch.AcceleratorError):
        return f"stops the stream: {error}"
    if "this operator" in str(error):
        return f"does not name the operator: {error}"
    if expected is None:
        if error is None:
            return difference(got, want, random)
        if isinstance(error, NotImplementedError) and "as on the CPU" not in str(error):
            return None
        return f"raises {type(error).__name__}: {error}; the CPU computes"
    if error is None:
        return f"computes; the CPU raises {type(expected).__name__}: {expected}"
    if isinstance(error, type(expected)) or isinstance(expected, type(error)):
        return None
    return f"raises {type(error).__name__}: {error}; the CPU {type(expected).__name__}: {expected}"


def extension(op, function, sample, dtype, got):
    """What is wrong with a result that the CPU refuses to compute."""
    for reason, dtypes, names in EXTENSIONS:
        if dtype in dtypes and re.fullmatch(names, op.full_name):
            break
    else:
        if dtype not in op.supported_dtypes("cuda"):
            return "core claims it for no device"
    for wide in (wider(dtype), torch.float64):
        wide_sample = cast(sample, dtype, wide)
        want, error = run(function, wide_sample, "cpu")
        if error is None:
            random = is_random(op, function, wide_sample)
            return difference(got, want, random, dtype)
    return f"the CPU refuses {wide} too"


def check(op, dtype, sample, function):
    of_cpu = run(function, sample, "cpu")
    of_card = run(function, sample, DEVICE)
    both = of_cpu[1] is None and of_card[1] is None
    wrong = fault(of_card, of_cpu)
    if both and wrong and is_random(op, function, sample):
        wrong = fault(of_card, of_cpu, random=True)
    if of_cpu[1] is not None and of_card[1] is None:
        beyond = extension(op, function, sample, dtype, of_card[0])
        return beyond and f"{wrong} ({beyond})"
    return wrong


def red(faults):
    assert not faults, "\n".join(str(f)[:400] for f in faults)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


EMPTY = {
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
}


@pytest.mark.parametrize("name", unchecked_among(OPS, EMPTY))
def test_dtypes(name):
    op = OPS[name]
    made = made_in(op)
    faults = []
    for sample in samples(op, made):
        for dtype in DTYPES:
            if dtype not in op.dtypes:
                wrong = check(op, dtype, cast(sample, made, dtype), op.op)
                if wrong:
                    faults.append(f"{dtype}: {wrong}")
    red(faults)


@pytest.mark.parametrize("name", FOREACH)
def test_foreach(name):
    op = FOREACH[name]
    faults = []
    for sample in samples(op, torch.float32):
        for dtype in DTYPES:
            for function in (op.method_variant, op.inplace_variant):
                if function:
                    wrong = check(op, dtype, cast(sample, torch.float32, dtype), function)
                    if wrong:
                        faults.append(f"{function.__name__} {dtype}: {wrong}")
    red(faults)


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.inplace_variant])
def test_in_place(name):
    """The input has another dtype than the other arguments."""
    op = OPS[name]
    made = made_in(op)
    faults = []
    for input, args, kwargs in samples(op, made):
        for dtype in (torch.bool, torch.int32, torch.float16, torch.float64, torch.complex64):
            sample = cast(input, made, dtype), args, kwargs
            wrong = check(op, dtype, sample, op.inplace_variant)
            if wrong:
                faults.append(f"{dtype}: {wrong}")
    red(faults)


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.supports_out])
def test_out(name):
    """out= has another dtype than the result."""
    op = OPS[name]
    faults = []
    for made in {made_in(op), *op.dtypes.intersection({torch.int64, torch.bool})}:
        for sample in samples(op, made)[:1]:
            result, error = run(op.op, sample, "cpu")
            if error is not None or not isinstance(tree_leaves(result)[0], torch.Tensor):
                continue
            for dtype in (torch.bool, torch.int32, torch.uint16, torch.float16, torch.float64,
                          torch.complex64):
                outs = {
                    device: tree_map(
                        lambda t: torch.zeros(t.shape, dtype=dtype, device=device), result)
                    for device in ("cpu", DEVICE)
                }
                outcomes = [run(op.op, sample, d, outs[d]) for d in (DEVICE, "cpu")]
                wrong = fault(*outcomes)
                if wrong and is_random(op, op.op, sample):
                    wrong = fault(*outcomes, random=True)
                if wrong:
                    faults.append(f"{made} to {dtype}: {wrong}")
    red(faults)


def error_of(op, sample):
    try:
        with torch.no_grad():
            op(sample.input, *sample.args, **sample.kwargs)
        torch.openreg.synchronize()
    except Exception as error:  # noqa: BLE001 - the result
        return error
    return None


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.error_inputs_func])
def test_wrong_arguments(name):
    op = OPS[name]
    faults = []
    cases = list(op.error_inputs(DEVICE))
    cpu_cases = list(op.error_inputs("cpu"))
    for i, case in enumerate(cases):
        error = error_of(op.op, case.sample_input)
        if len(cases) == len(cpu_cases):
            expected = error_of(op.op, cpu_cases[i].sample_input)
            if expected is None:
                continue
        if isinstance(error, torch.AcceleratorError):
            torch.openreg.reset()
        elif isinstance(error, case.error_type):
            continue
        faults.append(
            f"{case.sample_input.summary()}: {error!r}, not {case.error_type.__name__}: "
            f"{case.error_regex}"
        )
    red(faults)


aten = torch.ops.aten
BOOL = torch.bool
# Calls that the CPU computes, of operators that refuse the dtype in other calls.
COMPUTED = {
    "clamp to a lower bound": lambda d: torch.clamp(flags(d), min=flags(d).flip(0)),
    "clamp to an upper bound": lambda d: torch.clamp(flags(d), max=flags(d).flip(0)),
    "clamp_ to a bound": lambda d: flags(d).clamp_(min=flags(d).flip(0)),
    "index_reduce": lambda d: flags(d, (3, 2)).index_reduce(
        0, torch.tensor([0, 2], device=d), ~flags(d, (2, 2)), "amin"),
    "cumsum of nothing": lambda d: torch.cumsum(flags(d, (0,)), 0, dtype=BOOL),
    "cumprod_ of nothing": lambda d: flags(d, (0, 3)).cumprod_(1),
    "searchsorted of nothing": lambda d: torch.searchsorted(flags(d), flags(d, (0,))),
    "linspace of one element": lambda d: torch.linspace(1, 0, 1, dtype=BOOL, device=d),
    "max_unpool2d of nothing": lambda d: torch.nn.functional.max_unpool2d(
        *(torch.zeros(0, 1, 2, 2, dtype=t, device=d) for t in (torch.int32, torch.int64)), 2),
    "reflection_pad1d_backward of nothing": lambda d: aten.reflection_pad1d_backward(
        *(torch.zeros(0, 1, n, dtype=torch.int32, device=d) for n in (4, 2)), [1, 1]),
    "replication_pad2d_backward of nothing": lambda d: aten.replication_pad2d_backward(
        *(torch.zeros(0, 1, n, n, dtype=torch.int32, device=d) for n in (4, 2)), [1] * 4),
    "_cdist_backward of nothing": lambda d: aten._cdist_backward(
        *(torch.zeros(s, dtype=torch.int32, device=d) for s in ((0, 1), (0, 2), (1, 2))),
        1.0, torch.zeros(0, 1, dtype=torch.int32, device=d)),
}


def flags(device, shape=(4,)):
    flat = torch.arange(torch.Size(shape).numel()) % 3 == 0
    return flat.view(shape).to(device)


@pytest.mark.parametrize("name", COMPUTED)
def test_computed(name):
    want = COMPUTED[name]("cpu")
    got = COMPUTED[name](DEVICE)
    assert got.dtype == want.dtype
    assert torch.equal(got.cpu(), want)


# Operators that op_db does not list.
UNLISTED = {
    "elu_backward": lambda t: aten.elu_backward(t, 1.0, 1.0, 1.0, False, t),
    "gelu": lambda t: aten.gelu(t),
    "gelu_backward": lambda t: aten.gelu_backward(t, t),
    "glu_backward": lambda t: aten.glu_backward(t[:, :2], t, 1),
    "hardshrink_backward": lambda t: aten.hardshrink_backward(t, t, 0.5),
    "hardsigmoid_backward": lambda t: aten.hardsigmoid_backward(t, t),
    "hardswish_backward": lambda t: aten.hardswish_backward(t, t),
    "hardtanh_backward": lambda t: aten.hardtanh_backward(t, t, -1.0, 1.0),
    "leaky_relu_backward": lambda t: aten.leaky_relu_backward(t, t, 0.1, False),
    "log_sigmoid_backward": lambda t: aten.log_sigmoid_backward(
        t, t, aten.log_sigmoid_forward(t)[1]),
    "logit_backward": lambda t: aten.logit_backward(t, t),
    "mish_backward": lambda t: aten.mish_backward(t, t),
    "mse_loss_backward": lambda t: aten.mse_loss_backward(t, t, t, 0),
    "huber_loss_backward": lambda t: aten.huber_loss_backward(t, t, t, 0, 1.0),
    "smooth_l1_loss_backward": lambda t: aten.smooth_l1_loss_backward(t, t, t, 0, 1.0),
    "binary_cross_entropy_backward": lambda t: aten.binary_cross_entropy_backward(
        t, torch.full_like(t, 0.5), t),
    "prelu_backward": lambda t: aten._prelu_kernel_backward(t, t, t)[0],
    "sigmoid_backward": lambda t: aten.sigmoid_backward(t, t),
    "silu_backward": lambda t: aten.silu_backward(t, t),
    "softplus_backward": lambda t: aten.softplus_backward(t, t, 1.0, 20.0),
    "softshrink_backward": lambda t: aten.softshrink_backward(t, t, 0.5),
    "tanh_backward": lambda t: aten.tanh_backward(t, t),
    "threshold_backward": lambda t: aten.threshold_backward(t, t, 0.5),
    "col2im": lambda t: aten.col2im(t, [2, 2], [2, 2], [1, 1], [0, 0], [1, 1])[0],
    "im2col": lambda t: aten.im2col(t.view(1, 4, 4), [2, 2], [1, 1], [0, 0], [1, 1]),
    "reflection_pad1d_backward": lambda t: aten.reflection_pad1d_backward(t, t[:, :2], [1, 1]),
    "replication_pad1d_backward": lambda t: aten.replication_pad1d_backward(t, t[:, :2], [1, 1]),
    "unfold_backward": lambda t: aten.unfold_backward(t, [4, 4], 0, 1, 1)[:, 0],
    "_softmax": lambda t: aten._softmax(t, 1, False),
    "_softmax_backward_data": lambda t: aten._softmax_backward_data(t, t, 1, t.dtype),
    "_log_softmax_backward_data": lambda t: aten._log_softmax_backward_data(t, t, 1, t.dtype),
    "native_layer_norm": lambda t: aten.native_layer_norm(t, [4], t[0], t[0], 1e-5),
    "native_group_norm": lambda t: aten.native_group_norm(t, t[0], t[0], 4, 4, 1, 2, 1e-5),
    "embedding_dense_backward": lambda t: aten.embedding_dense_backward(
        t, torch.arange(4, device=t.device), 4, -1, False),
    "_cdist_backward": lambda t: aten._cdist_backward(t, t, t, 2.0, t),
    "_standard_gamma_grad": lambda t: aten._standard_gamma_grad(t, t),
    "native_dropout_backward": lambda t: aten.native_dropout_backward(t, t > 0, 2.0),
    "upsample_nearest1d": lambda t: aten.upsample_nearest1d(t[None], [8]),
    "upsample_nearest1d_backward": lambda t: aten.upsample_nearest1d_backward(
        t[None], [2], [1, 4, 2]),
    "upsample_linear1d_backward": lambda t: aten.upsample_linear1d_backward(
        t[None], [2], [1, 4, 2], False),
    "upsample_bilinear2d": lambda t: aten.upsample_bilinear2d(t[None, None], [8, 8], False),
    "avg_pool2d": lambda t: aten.avg_pool2d(t[None], [2, 2]),
    "avg_pool2d_backward": lambda t: aten.avg_pool2d_backward(
        t[None, :2, :2], t[None], [2, 2], [2, 2], [0, 0], False, True, None),
    "max_pool2d_with_indices": lambda t: aten.max_pool2d_with_indices(t[None], [2, 2])[0],
    "adaptive_avg_pool2d": lambda t: aten._adaptive_avg_pool2d(t[None], [2, 2]),
    "adaptive_max_pool2d": lambda t: aten.adaptive_max_pool2d(t[None], [2, 2])[0],
    "gru_cell": lambda t: torch.gru_cell(t, t, t.repeat(3, 1), t.repeat(3, 1)),
    "lstm_cell": lambda t: torch.lstm_cell(t, (t, t), t.repeat(4, 1), t.repeat(4, 1))[0],
    "_weight_norm_interface": lambda t: aten._weight_norm_interface(
        t[1:], t[1:, :1].clone())[0],
    "bernoulli_": lambda t: t.clone().bernoulli_(1.0),
    "normal_": lambda t: t.clone().normal_(1.0, 0.0),
    "random_": lambda t: t.clone().random_(1, 2),
    "bincount": lambda t: torch.bincount(t.flatten()),
    "randperm": lambda t: torch.randperm(1, dtype=t.dtype, device=t.device),
    "linspace": lambda t: torch.linspace(0, 4, 5, dtype=t.dtype, device=t.device),
    "logspace": lambda t: torch.logspace(0, 2, 3, dtype=t.dtype, device=t.device),
    "eye": lambda t: torch.eye(3, dtype=t.dtype, device=t.device),
    "tril_indices": lambda t: torch.tril_indices(3, 3, dtype=t.dtype, device=t.device),
    "hann_window": lambda t: torch.hann_window(4, dtype=t.dtype, device=t.device),
}


@pytest.mark.parametrize("name", UNLISTED)
def test_unlisted(name):
    function = UNLISTED[name]
    numbers = torch.arange(16.0).view(4, 4) / 4
    faults = []
    for dtype in DTYPES:
        of_cpu, of_card = (
            run(function, (numbers.to(dtype), (), {}), device) for device in ("cpu", DEVICE)
        )
        wrong = fault(of_card, of_cpu)
        if of_cpu[1] is not None and of_card[1] is None:
            wide, error = run(function, (numbers.to(dtype).to(wider(dtype)), (), {}), "cpu")
            if dtype in (*HALVES, torch.complex32) and error is None:
                wrong = difference(of_card[0], wide, False, dtype)
        if wrong:
            faults.append(f"{dtype}: {wrong}")
    red(faults)
