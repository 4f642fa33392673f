# SPDX-License-Identifier: BSD-3-Clause
"""Core's operator samples in dtypes that the card does not have: the operators run on the
CPU, and their results return to the card. Runs only on the in-process card."""

import itertools

import pytest
import torch

from test_opinfo import OPS, moved, tensors

SAMPLES = 2
DTYPES = [torch.complex64, torch.uint16]
# Operators that return random numbers or uninitialized memory.
ANY_VALUE = ("empty", "rand", "normal", "bernoulli", "multinomial", "dropout", "uniform",
             "cauchy", "exponential", "geometric", "log_normal", "rrelu", "as_strided", "lowrank")
# Operators that only move data: their result stays on the device of the first operand.
MOVES = ("scatter", "index_put", "copy", "broadcast", "expand_as", "resize_as")

pytestmark = pytest.mark.filterwarnings("ignore")


def cases():
    for (name, op), dtype in itertools.product(OPS.items(), DTYPES):
        # Not tensor_split: its indices are on the CPU for every device.
        if dtype in op.dtypes and not name.startswith(("jiterator", "tensor_split")):
            yield pytest.param(name, dtype, id=f"{name}-{str(dtype)[6:]}")


def call(op, *args, **kwargs):
    """The result of the call, or its error."""
    try:
        return op(*args, **kwargs)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        return error


def same(got, want, name):
    if isinstance(want, Exception):
        assert isinstance(got, Exception), f"the CPU raises {want}"
        return
    assert not isinstance(got, Exception), got
    got, want = tensors(got), tensors(want)
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert g.device.type == "openreg" and g.dtype == w.dtype and g.shape == w.shape
        if not any(word in name for word in ANY_VALUE):
            torch.testing.assert_close(
                g.cpu().resolve_conj(), w.resolve_conj(), rtol=1e-4, atol=1e-4,
                equal_nan=True, check_stride=False)


def bits(dtype):
    """Functions that make a view with the conjugate bit, or with the negative bit."""
    return [torch.conj, torch._neg_view] if dtype.is_complex else []


def into(op, name, args, kwargs, like, view, device):
    """Calls op with such views as out=; returns the views and the memory behind them."""
    buffers = [torch.zeros(t.shape, dtype=t.dtype, device=device) for t in tensors(like)]
    outs = [view(t) if t.is_complex() else t for t in buffers]
    out = outs[0] if isinstance(like, torch.Tensor) else tuple(outs)
    error = call(op, *args, **kwargs, out=out)
    return error if isinstance(error, Exception) else [*outs, *buffers]


def in_place(op, name, sample, view):
    memory, host = moved(sample.input), sample.input.clone()
    got = call(op, view(memory), *moved(sample.args), **moved(sample.kwargs))
    want = call(op, view(host), *sample.args, **sample.kwargs)
    same(got, want, name)
    if not isinstance(want, Exception):
        same([memory], [host], name)


def number_first(op, name, sample):
    """A 0-dimensional tensor on the CPU as first operand, the others on the card."""
    rest = moved((sample.args, sample.kwargs))
    if not isinstance(sample.input, torch.Tensor) or not tensors(rest):
        return
    if sample.input.layout is not torch.strided:
        return
    number = sample.input.new_ones(())
    got = call(op, number, *rest[0], **rest[1])
    if not (isinstance(got, RuntimeError) and "device" in str(got).lower()):
        same(got, call(op, number, *sample.args, **sample.kwargs), name)


@pytest.mark.parametrize("name, dtype", list(cases()))
def test_operators(name, dtype):
    op = OPS[name]
    torch.manual_seed(0)
    for sample in itertools.islice(op.sample_inputs("cpu", dtype), SAMPLES):
        args, kwargs = moved((sample.input, *sample.args)), moved(sample.kwargs)
        want = call(op.op, sample.input, *sample.args, **sample.kwargs)
        same(call(op.op, *args, **kwargs), want, name)
        if isinstance(want, Exception):
            continue
        if not any(word in name for word in MOVES):
            number_first(op.op, name, sample)
        if any(word in name for word in ANY_VALUE):
            continue
        for view in bits(dtype):
            if op.supports_out and all(t.layout == torch.strided for t in tensors(want)):
                host = (sample.input, *sample.args)
                right = into(op.op, name, host, sample.kwargs, want, view, "cpu")
                # Core refuses a call with more than one such view.
                if not isinstance(right, Exception):
                    got = into(op.op, name, args, kwargs, want, view, "openreg")
                    # On the CPU, core's solve_triangular ignores the negative bit of out=.
                    if name == "linalg.solve_triangular" and view is torch._neg_view:
                        got, right = got[: len(got) // 2], tensors(want)
                    same(got, right, name)
            if op.inplace_variant is not None and not sample.broadcasts_input:
                in_place(op.inplace_variant, name, sample, view)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float8_e5m2, torch.float64])
def test_cpu_vector_is_refused(dtype):
    x, y = torch.ones(3).to(dtype), torch.ones(3).to(dtype)
    for op in (torch.mul, torch.eq, torch.true_divide):
        for first, second in ((x, y.to("openreg")), (x.to("openreg"), y)):
            with pytest.raises(RuntimeError, match="same device"):
                op(first, second)


def test_operators_in_place_refuse_operands_that_overlap():
    x = torch.ones(8, device="openreg")
    y = x.to(torch.complex64)
    for write in (lambda: x[:-1].__ilshift__(x[1:]), lambda: y[:-1].pow_(y[1:])):
        with pytest.raises(RuntimeError, match="unsupported operation"):
            write()


@pytest.mark.parametrize("rows, columns", [((4,), 4), ((6,), 4), ((4,), 6), ((2, 6), 4)])
def test_strides_of_a_solution(rows, columns):
    """The result of linalg.lstsq is a part of a larger matrix."""
    a, b = torch.randn(*rows, columns), torch.randn(*rows, 3)
    want = torch.linalg.lstsq(a, b)
    got = torch.linalg.lstsq(a.to("openreg"), b.to("openreg"))
    assert got.solution.stride() == want.solution.stride()
    torch.testing.assert_close(got.solution.cpu(), want.solution, rtol=1e-4, atol=1e-4)


def test_a_result_on_another_card():
    x = torch.ones(1 << 16, dtype=torch.complex64, device="openreg:0")
    y = torch.full_like(x, 3, device="openreg:1")
    assert y.device.index == 1 and torch.equal(y.cpu(), torch.full_like(x.cpu(), 3))
