# SPDX-License-Identifier: BSD-3-Clause
"""Padding and the gradient of unfold, compared with the CPU."""

import pytest
import torch
from torch.nn import functional as F

from ops import check, to_card, values, with_gradients


@pytest.mark.parametrize("step", [1, 2, 3, 5])
def test_unfold_backward(step):
    check(with_gradients(lambda x: x.unfold(1, 3, step)), values(2, 11, 4))


COPIES_UNWRITTEN = pytest.mark.unchecked("core copies unwritten corners, then overwrites them")
MODES = ["reflect", "replicate", "constant", pytest.param("circular", marks=COPIES_UNWRITTEN)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_padding(mode, dtype):
    tolerance = {"rtol": 2e-2, "atol": 2e-2} if dtype.itemsize == 2 else {}
    for x, padding in [
        (values(2, 3, 6, dtype=dtype), (2, 3)),
        (values(2, 3, 5, 6, dtype=dtype), (1, 2, 3, 0)),
        (values(2, 3, 4, 5, 6, dtype=dtype), (1, 1, 0, 2, 3, 1)),
    ]:
        check(with_gradients(lambda x: F.pad(x, padding, mode)), x, **tolerance)


def test_padding_that_cuts_or_does_not_fit():
    for mode in ["reflect", "replicate"]:
        check(with_gradients(lambda x: F.pad(x, (-1, 2, 1, -2), mode)), values(2, 3, 5, 6))
    with pytest.raises(RuntimeError, match="less than the corresponding input dimension"):
        F.pad(to_card(values(2, 3, 5)), (5, 0), "reflect")
    with pytest.raises(RuntimeError, match="too small"):
        F.pad(to_card(values(2, 3, 5)), (-3, -3), "replicate")


PADS = [("reflection_pad", i) for i in (1, 2, 3)] + [("replication_pad", i) for i in (1, 2, 3)]


def refused_by_both(function, *args):
    """The call raises on the CPU and on the card."""
    for move in (lambda t: t, to_card):
        with pytest.raises(RuntimeError):
            function(*map(move, args))


@pytest.mark.parametrize("name, dims", PADS)
def test_padding_of_empty_tensors(name, dims):
    """Only the batch dimension may be empty."""
    pad = getattr(torch.ops.aten, f"{name}{dims}d")
    padding = [1, 2] * dims
    full = [3, 2, *range(4, 4 + dims)]
    check(lambda x: pad(x, padding), torch.ones(0, *full[1:]))
    for shape in (full, full[1:]):
        for d in range(len(shape) == len(full), len(shape)):
            empty = [0 if i == d else n for i, n in enumerate(shape)]
            refused_by_both(lambda x: pad(x, padding), torch.ones(empty))


@pytest.mark.parametrize("name, dims", PADS)
def test_gradient_of_padding_needs_its_shape(name, dims):
    backward = getattr(torch.ops.aten, f"{name}{dims}d_backward")
    padding = [1, 2] * dims
    x = values(2, 3, *range(4, 4 + dims))
    grown = [n + 3 for n in x.shape[2:]]
    check(lambda g, x: backward(g, x, padding), values(2, 3, *grown), x)
    for d in range(dims):
        for change in (-1, 1):
            shape = [n + change * (i == d) for i, n in enumerate(grown)]
            refused_by_both(lambda g, x: backward(g, x, padding), values(2, 3, *shape), x)
