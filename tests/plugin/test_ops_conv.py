# SPDX-License-Identifier: BSD-3-Clause
"""Convolutions, compared with the CPU."""

import pytest
import torch
import torch.nn.functional as F
from ops import FLOATS, INTS, check, no_fallback, to_card, values

DEV = "openreg"
CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
TOLERANCE = {
    torch.float64: {"atol": 1e-10, "rtol": 1e-10},
    torch.float32: {"atol": 2e-4, "rtol": 1e-4},
    torch.float16: {"atol": 6e-2, "rtol": 1e-2},
    torch.bfloat16: {"atol": 5e-1, "rtol": 5e-2},
}
# dims, input channels, output channels, sizes, kernel, keywords
SHAPES = [
    (1, 3, 5, (11,), (3,), {}),
    (1, 4, 6, (12,), (4,), {"stride": 2, "padding": 1, "groups": 2}),
    (2, 3, 8, (9, 7), (3, 3), {"padding": 1}),
    (2, 3, 16, (32, 30), (7, 7), {"stride": 2, "padding": 3}),
    (2, 8, 4, (6, 6), (1, 1), {"stride": 2}),
    (2, 6, 6, (8, 9), (3, 2), {"groups": 6, "padding": (1, 0)}),
    (2, 4, 8, (10, 11), (3, 3), {"dilation": (2, 3), "padding": (2, 1), "stride": (3, 2)}),
    (2, 40, 70, (14, 14), (3, 3), {"padding": 1}),
    (3, 2, 4, (5, 6, 7), (2, 3, 2), {"stride": (1, 2, 1), "padding": (1, 0, 1)}),
    (3, 4, 4, (4, 4, 4), (3, 3, 3), {"groups": 2, "dilation": 1, "padding": 2}),
]


def inputs(shape, dtype, transposed=False, batch=2):
    dims, ic, oc, sizes, kernel, keywords = shape
    groups = keywords.get("groups", 1)
    x = values(batch, ic, *sizes, dtype=dtype, low=-1, high=1)
    lead = (ic, oc // groups) if transposed else (oc, ic // groups)
    w = values(*lead, *kernel, dtype=dtype, low=-1, high=1, seed=1)
    return x, w, values(oc, dtype=dtype, low=-1, high=1, seed=2)


def gradients(function, *tensors):
    """The function's result, and the gradients of a weighted sum of it."""
    leaves = [t.detach().requires_grad_() for t in tensors]
    out = function(*leaves)
    out.backward(values(*out.shape, dtype=out.dtype, low=-1, high=1, seed=9).to(out.device))
    return [out.detach(), *(t.grad for t in leaves)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("transposed", [False, True])
def test_shapes(shape, transposed):
    function = (TRANSPOSED if transposed else CONV)[shape[0]]
    for dtype in (torch.float32, torch.float64):
        args = inputs(shape, dtype, transposed)
        check(lambda *a: function(*a, **shape[5]), *args, **TOLERANCE[dtype])
        check(
            lambda *a: gradients(lambda *b: function(*b, **shape[5]), *a),
            *args,
            **TOLERANCE[dtype],
        )


@pytest.mark.parametrize("dtype", FLOATS)
def test_dtypes(dtype):
    x, w, b = inputs(SHAPES[2], dtype)
    check(
        lambda *a: gradients(lambda *c: F.conv2d(*c, padding=1), *a),
        x, w, b, **TOLERANCE[dtype],
    )


@pytest.mark.parametrize("dtype", INTS)
def test_integers_wrap(dtype):
    x, w, _ = inputs(SHAPES[2], torch.float64)
    x, w = (x * 50).to(dtype), (w * 50).to(dtype)
    want = F.conv2d(x.double(), w.double(), padding=1).long().to(dtype)
    with no_fallback():
        got = F.conv2d(x.to(DEV), w.to(DEV), padding=1)
    assert torch.equal(got.cpu(), want)


@pytest.mark.parametrize("output_padding", [0, 1])
def test_output_padding(output_padding):
    x, w, b = inputs((2, 4, 6, (5, 6), (3, 3), {"groups": 2}), torch.float32, True)
    check(
        lambda *a: F.conv_transpose2d(
            *a, stride=2, padding=1, output_padding=output_padding, groups=2
        ),
        x, w, b, **TOLERANCE[torch.float32],
    )


@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("kernel", [(3, 3), (4, 2)])
@pytest.mark.filterwarnings("ignore:Using padding='same'")
def test_padding_modes(padding, kernel):
    x, w, b = inputs((2, 3, 4, (8, 9), kernel, {}), torch.float32)
    check(
        lambda *a: gradients(lambda *c: F.conv2d(*c, padding=padding), *a),
        x, w, b, **TOLERANCE[torch.float32],
    )


def test_no_batch_and_no_bias():
    x, w, _ = inputs(SHAPES[2], torch.float32)
    check(lambda a, b: F.conv2d(a[0], b), x, w, **TOLERANCE[torch.float32])


@pytest.mark.parametrize("transposed", [False, True])
def test_empty_batch(transposed):
    function = F.conv_transpose2d if transposed else F.conv2d
    x, w, b = inputs((2, 3, 3, (6, 6), (3, 3), {}), torch.float32, transposed, batch=0)
    check(lambda *a: gradients(function, *a), x, w, b)


def test_any_strides():
    x, w, b = inputs(SHAPES[2], torch.float32)
    x = torch.cat([x, x], 3).transpose(2, 3)[:, :, ::2]
    w = w.transpose(2, 3)
    check(
        lambda *a: gradients(lambda *c: F.conv2d(*c, padding=1), *a),
        x, w, torch.cat([b, b])[::2], **TOLERANCE[torch.float32],
    )


@pytest.mark.parametrize("which", ["input", "weight"])
def test_channels_last(which):
    x, w, b = inputs(SHAPES[7], torch.float32)
    if which == "input":
        x = x.contiguous(memory_format=torch.channels_last)
    else:
        w = w.contiguous(memory_format=torch.channels_last)
    card = [to_card(t) for t in (x, w, b)]
    with no_fallback():
        got = gradients(lambda *a: F.conv2d(*a, padding=1), *card)
    want = gradients(lambda *a: F.conv2d(*a, padding=1), x, w, b)
    for have, need in zip(got, want):
        torch.testing.assert_close(have.cpu(), need, **TOLERANCE[torch.float32])
    assert got[0].is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_gradcheck(dims, transposed):
    function = (TRANSPOSED if transposed else CONV)[dims]
    shape = (dims, 2, 4, (4,) * dims, (2,) * dims, {"groups": 2})
    args = [t.to(DEV).requires_grad_() for t in inputs(shape, torch.float64, transposed)]
    torch.autograd.gradcheck(
        lambda *a: function(*a, stride=2, padding=1, groups=2), args, fast_mode=True
    )
    torch.autograd.gradgradcheck(
        lambda *a: function(*a, padding=1, groups=2), args, fast_mode=True
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast(dtype):
    x, w, b = (t.to(DEV) for t in inputs(SHAPES[2], torch.float32))
    with torch.autocast(DEV, dtype=dtype), no_fallback():
        got = F.conv2d(x, w, b)
    assert got.dtype == dtype
    torch.testing.assert_close(
        got.cpu().float(), F.conv2d(x.cpu(), w.cpu(), b.cpu()), **TOLERANCE[dtype]
    )


def test_results_are_reproducible():
    """The order of the sums does not depend on the scheduling of slices, also in the
    weights' gradient."""
    x, w, b = (t.to(DEV) for t in inputs((2, 8, 16, (40, 40), (3, 3), {}), torch.float32, batch=9))
    first = gradients(F.conv2d, x, w, b)
    for _ in range(3):
        for have, need in zip(gradients(F.conv2d, x, w, b), first):
            assert torch.equal(have, need)


def numbers(*size: int, below: int) -> torch.Tensor:
    return (torch.arange(torch.Size(size).numel()) % below).float().reshape(size)


@pytest.mark.parametrize(
    "transposed, batch, channels, groups",
    [(False, 3, 256, 1), (False, 1, 768, 3), (False, 1, 768, 1), (True, 1, 768, 1)],
)
def test_more_work_than_a_packet_allows(transposed, batch, channels, groups):
    """More than 2^36 products; strides of zero keep the operands small."""
    times, size = 1 << 16, (37, 37)
    x, b = numbers(batch, 1, *size, below=3), numbers(channels, below=5)
    w = numbers(channels, 1, 1, 1, below=4)
    want = times * x * w[:, 0] + b[:, None, None]
    wide = to_card(x).expand(-1, groups * times, -1, -1)
    torch.openreg.reset_op_counts()
    with no_fallback():
        if transposed:
            weight = to_card(w.transpose(0, 1)).expand(times, -1, -1, -1)
            got = F.conv_transpose2d(wide, weight, to_card(b))
        else:
            weight = to_card(w).expand(-1, times, -1, -1)
            got = F.conv2d(wide, weight, to_card(b), groups=groups)
    assert torch.openreg.op_counts()["aten::convolution_overrideable"] == 1
    assert torch.equal(got.cpu(), want)


@pytest.mark.parametrize("oc, ic", [(512, 128), (128, 512)])
def test_more_work_for_weights_than_a_packet_allows(oc, ic):
    n, size = 4, (512, 513)
    x, y = numbers(1, ic, 1, 1, below=2), numbers(1, oc, 1, 1, below=3)
    w = torch.empty(oc, ic, 1, 1, device=DEV)
    with no_fallback():
        got = torch.ops.aten.convolution_backward(
            to_card(y).expand(n, -1, *size), to_card(x).expand(n, -1, *size), w,
            None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [False, True, False],
        )[1]
    want = n * size[0] * size[1] * y.reshape(oc, 1) * x.reshape(1, ic)
    assert torch.equal(got.cpu().reshape(oc, ic), want)


def test_errors():
    x, w, b = inputs(SHAPES[2], torch.float32)
    for function in (
        lambda x, w: F.conv2d(x[:, :2], w),
        lambda x, w: F.conv2d(x[:, :, :2], w),
        lambda x, w: F.conv2d(x, w, stride=0),
        lambda x, w: F.conv2d(x, w, padding=-1),
        lambda x, w: F.conv2d(x, w, groups=2),
        lambda x, w: F.conv2d(x, w[:, :, 0]),
    ):
        with pytest.raises(RuntimeError) as want:
            function(x, w)
        with pytest.raises(RuntimeError) as got:
            function(x.to(DEV), w.to(DEV))
        assert str(got.value) == str(want.value)
    with pytest.raises(RuntimeError, match="Input type .* and weight type"):
        F.conv2d(x.to(DEV), w.double().to(DEV))
    with pytest.raises(RuntimeError, match="Input type .* and bias type"):
        F.conv2d(x.to(DEV), w.to(DEV), b.double().to(DEV))
    with pytest.raises(RuntimeError, match="same device"):
        F.conv2d(x.to(DEV), w)


def test_complex():
    """Core composes a complex convolution of real ones."""
    x, w, _ = inputs(SHAPES[2], torch.float32)
    x, w = torch.complex(x, x), torch.complex(w, -w)
    got = F.conv2d(x.to(DEV), w.to(DEV))
    torch.testing.assert_close(got.cpu(), F.conv2d(x, w), **TOLERANCE[torch.float32])


def test_bool_is_refused_by_the_cpu():
    x, w, _ = (t > 0 for t in inputs(SHAPES[2], torch.float32))
    torch.openreg.reset_fallbacks()
    with pytest.raises(RuntimeError, match="not implemented for 'Bool'"):
        F.conv2d(x.to(DEV), w.to(DEV))
    assert torch.openreg.fallbacks() == {"aten::convolution_overrideable": 1}


def test_network():
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 5, padding=2),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(8, 16, 3, stride=2),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(64, 10),
    )
    x, y = values(6, 1, 28, 28), torch.arange(6)
    F.cross_entropy(net(x), y).backward()
    want = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    net.to(DEV)
    with no_fallback():
        F.cross_entropy(net(x.to(DEV)), y.to(DEV)).backward()
    for have, need in zip(net.parameters(), want):
        torch.testing.assert_close(have.grad.cpu(), need, atol=1e-5, rtol=1e-4)


def test_output_padding_has_a_limit():
    x, w = to_card(values(1, 2, 5, 5)), to_card(values(2, 3, 3, 3))
    with pytest.raises(RuntimeError, match="output padding must be smaller"):
        F.conv_transpose2d(x, w, output_padding=1)
    with pytest.raises(RuntimeError, match="Output size is too small"):
        F.conv_transpose2d(x[..., :1, :1], w, padding=2)


# Few channels of the result and small planes: the card multiplies matrices and adds the taps.
MANY = [
    (1, 50000, (6,), (17,), {}),
    (1, 40000, (9,), (3,), {"stride": 3, "padding": 2, "output_padding": 1}),
    (2, 9000, (4, 5), (3, 3), {}),
    (2, 4000, (6, 5), (3, 4), {"stride": (2, 3), "padding": (1, 2), "output_padding": (1, 0)}),
    (2, 9000, (4, 5), (3, 2), {"dilation": (2, 3), "output_padding": (1, 2), "stride": 2}),
    (3, 700, (4, 5, 3), (3, 2, 3), {"stride": (1, 2, 1), "padding": (0, 1, 1)}),
]


@pytest.mark.parametrize("dims, channels, sizes, kernel, keys", MANY)
def test_transposed_with_few_channels(dims, channels, sizes, kernel, keys):
    for dtype in FLOATS:
        x = values(1, channels, *sizes, dtype=dtype, low=-1, high=1)
        w = values(channels, 5, *kernel, dtype=dtype, low=-1, high=1, seed=1)
        b = values(5, dtype=dtype, low=-1, high=1, seed=2)
        exact = TRANSPOSED[dims](x.double(), w.double(), b.double(), **keys)
        for args in ((x, w, b), (x[0], w, b)):
            with no_fallback():
                got = TRANSPOSED[dims](*to_card(args), **keys).cpu()
            want = exact.to(dtype).view(got.shape)
            assert got.dtype == dtype
            tolerance = {"rtol": 1e-5, "atol": 1e-2} if dtype == torch.float32 else TOLERANCE[dtype]
            torch.testing.assert_close(got, want, **tolerance)


def test_gradient_of_an_input_with_few_channels():
    x = values(1, 3, 12, 9, low=-1, high=1)
    w = values(6000, 3, 5, 5, low=-1, high=1, seed=1)
    for shape in (torch.contiguous_format, torch.channels_last):
        args = x.contiguous(memory_format=shape), w.contiguous(memory_format=shape)
        check(lambda a, b: gradients(lambda *t: F.conv2d(*t, padding=1, stride=2), a, b), *args, atol=1e-2, rtol=1e-4)
