# SPDX-License-Identifier: BSD-3-Clause
"""Reductions, compared with the CPU."""

import math

import warnings

import pytest
import torch

from ops import FLOATS, INTS, check, to_card, values

DIMS = [0, 1, -1, (0, 2), (0, 1, 2)]


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin", "logsumexp"])
def test_over_dimensions(name):
    function = getattr(torch, name)
    for dtype in FLOATS:
        x = values(4, 5, 6, dtype=dtype)
        tolerance = {"rtol": 2e-2, "atol": 2e-2} if dtype.itemsize == 2 else {}
        for dims in DIMS:
            check(lambda x: function(x, dims), x, **tolerance)
            check(lambda x: function(x, dims, keepdim=True), x, **tolerance)
        check(lambda x: function(x, 1), x.transpose(0, 2), **tolerance)


def test_whole_tensors():
    for dtype in [*FLOATS, *INTS, torch.bool]:
        x = values(5, 7, dtype=dtype)
        tolerance = {"rtol": 2e-2, "atol": 2e-2} if dtype in FLOATS[2:] else {}
        for name in ["sum", "amax", "amin", "max", "min", "any", "all", "argmax", "argmin"]:
            if dtype != torch.bool or not name.startswith("arg"):
                check(getattr(torch, name), x, **tolerance)
        check(lambda x: x.sum(dtype=torch.float64), x)
    check(torch.prod, values(9, low=0.5, high=2))
    check(lambda x: x.prod(1), values(3, 4, dtype=torch.int64))


@pytest.mark.parametrize("name", "sum mean max min amax amin argmax argmin aminmax var "
                         "std var_mean std_mean count_nonzero".split())
def test_more_dimensions_than_a_mask_has_bits(name):
    x = values(3, 2).view(3, *[1] * 64, 2)
    check(getattr(torch, name), x)


def test_winners_and_ties():
    x = torch.tensor([[1.0, 3, 3, 2], [5, 5, 1, 5], [math.nan, 1, math.nan, 2]])
    for dtype in FLOATS:
        for name in ["max", "min"]:
            check(lambda x: list(getattr(torch, name)(x, 1)), x.to(dtype))
            check(lambda x: getattr(torch, "arg" + name)(x, 1), x.to(dtype))
    check(lambda x: x.t().argmax(0), x)
    check(lambda x: x.argmax(), x[:2])
    check(lambda x: x.t().argmax(), x[:2])
    check(lambda x: list(torch.aminmax(x, dim=0)), x)
    check(lambda x: list(x.max(0)), values(6, 5, dtype=torch.int16))


def test_nan():
    x = values(4, 5)
    x[1, 2] = math.nan
    for name in ["sum", "mean", "amax", "amin", "max", "min"]:
        check(getattr(torch, name), x)
    check(lambda x: x.any(1), x)
    check(torch.isnan, x)


def test_sums_and_products_in_bool():
    for x in [torch.tensor([-1, 1]), torch.tensor([0.5, 0.5]), torch.tensor([0, 0]),
              torch.tensor([2, 0], dtype=torch.int8), torch.zeros(0)]:
        check(lambda x: x.sum(dtype=torch.bool), x)
        check(lambda x: x.prod(dtype=torch.bool), x)
        check(lambda x: x.sum(0, dtype=torch.bool), x.repeat(3, 1))


def test_empty_tensors():
    x = values(3, 0)
    check(lambda x: x.sum(1), x)
    check(lambda x: x.sum(0), x)
    check(lambda x: x.mean(1), x)
    check(lambda x: x.prod(1), x)
    check(lambda x: x.all(1), x)
    check(lambda x: x.any(), x)
    from ops import to_card

    with pytest.raises((IndexError, RuntimeError)):
        to_card(x).amax(1)
    with pytest.raises(RuntimeError, match="numel"):
        to_card(x).max()


def test_moments():
    for dtype in FLOATS:
        x = values(6, 7, dtype=dtype)
        tolerance = {"rtol": 2e-2, "atol": 2e-2} if dtype.itemsize == 2 else {}
        for name in ["var", "std"]:
            function = getattr(torch, name)
            check(function, x, **tolerance)
            check(lambda x: function(x, 1, correction=0), x, **tolerance)
            check(lambda x: function(x, 0, keepdim=True), x, **tolerance)
    check(lambda x: list(torch.var_mean(x, 1)), values(6, 7))
    check(lambda x: list(torch.std_mean(x, (0, 1), keepdim=True)), values(6, 7))
    check(lambda x: x.var(), values(1))


def test_norms():
    x = values(6, 7)
    for order in [2, 1, 0, 3, 0.5, math.inf, -math.inf]:
        check(lambda x: torch.linalg.vector_norm(x, order, dim=1), x)
    check(torch.norm, x)
    check(lambda x: x.norm(dim=0, keepdim=True), x)
    check(lambda x: torch.linalg.vector_norm(x), x.half(), rtol=1e-2, atol=1e-2)


def test_large_sums_are_exact_enough():
    x = torch.full((1 << 20,), 0.1)
    check(torch.sum, x)
    check(torch.mean, x)


def test_more_than_a_packet_may_visit():
    x = to_card(torch.ones(1)).expand(1 << 37)
    flags = to_card(torch.ones(1, dtype=torch.bool)).expand(1 << 37)
    for call in (
        lambda: x.sum(),
        lambda: x.view(1, *[2] * 37).amax(),
        lambda: x.expand(1 << 25, 1 << 37).mean(),
        lambda: torch.nn.functional.mse_loss(x, x),
        lambda: flags.all(),
    ):
        with pytest.raises(RuntimeError, match="68719476736; call it for parts .*split"):
            call()
    assert (x[:3] + 1).cpu().tolist() == [2, 2, 2]


@pytest.mark.parametrize("name", ["var", "std", "var_mean", "std_mean"])
def test_degrees_of_freedom_warn(name):
    function = getattr(torch, name)
    cases = [
        lambda d: function(torch.ones(1, device=d)),
        lambda d: function(torch.ones(0, device=d)),
        lambda d: function(torch.ones(0, 3, device=d), 0),
        lambda d: function(torch.ones(3, 2, device=d), 1, correction=2),
        lambda d: function(torch.ones(2, device=d)),
    ]
    for case in cases:
        texts = []
        for device in ("cpu", "openreg"):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                case(device)
            texts.append([str(w.message).partition(" (Triggered")[0] for w in caught])
        assert texts[0] == texts[1]


@pytest.mark.parametrize("dtype", FLOATS)
def test_deviation_at_the_end_of_the_range(dtype):
    """The square of the deviation is out of range."""
    x = torch.tensor([0.5, -0.5, 0.3], dtype=dtype) * torch.finfo(dtype).max
    if dtype != torch.double:
        for dims in (None, 0):
            check(lambda x: x.std(dims), x)
        check(lambda x: torch.std_mean(x)[0], x)
    check(lambda x: x.std(), torch.tensor([1e-30, 3e-30], dtype=torch.float32))
