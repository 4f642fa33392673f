# SPDX-License-Identifier: BSD-3-Clause
"""Operators on tensors of two dtypes compute in the common dtype."""

import itertools

import pytest
import torch

from ops import ALL, as_list, to_card, to_cpu

TYPES = [*ALL, torch.complex64, torch.uint16]
NUMBERS = [0, 1, 2, 3, 100, 127, 128, 200, 255, -1, -2, -128, 300, 256, 2**24 + 1, 40000, 65535, 1.5]

OPERATORS = {
    "isin": torch.isin,
    "isin inverted": lambda a, b: torch.isin(a, b, invert=True),
    "isin a number": lambda a, b: [torch.isin(a, 200), torch.isin(200, b), torch.isin(1.5, b)],
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
    "eq in place": lambda a, b: a.clone().eq_(b),
    "a number": lambda a, b: [a == 300, a != -1, a < 128, a >= 1.5, a > 255, b == 1.5],
    "a 0-dimensional one": lambda a, b: [a == b[7], a < b[8], b[7] >= a, b[7] != a],
    "equal": lambda a, b: [torch.tensor(torch.equal(a, b)), torch.tensor(torch.equal(a[:3], b[:3]))],
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "fmax": torch.fmax,
    "where": lambda a, b: torch.where(a == a, a, b),
    "clamp": lambda a, b: torch.clamp(a, b, b),
    "clamp_min": lambda a, b: torch.clamp_min(a, b),
    "isclose": torch.isclose,
    "allclose": lambda a, b: torch.tensor(torch.allclose(a, b)),
    "logical_and": torch.logical_and,
    "searchsorted": lambda a, b: torch.searchsorted(a.sort().values, b),
    "bucketize": lambda a, b: torch.bucketize(a, b.sort().values),
    "heaviside": torch.heaviside,
    "nextafter": torch.nextafter,
    "remainder": lambda a, b: torch.remainder(a, b[1:4].repeat(6)),
    "cat": lambda a, b: torch.cat([a, b]),
    "index_put": lambda a, b: a.clone().index_put_((torch.tensor([1], device=a.device),), b[:1]),
    "dist": lambda a, b: torch.dist(a, b),
}


def numbers(dtype):
    return torch.tensor(NUMBERS).to(torch.float64).to(torch.int64 if not dtype.is_floating_point else torch.float64).to(dtype)


def outcome(function, *args):
    try:
        return as_list(to_cpu(function(*args)))
    except (RuntimeError, NotImplementedError, TypeError) as error:
        return error


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OPERATORS)
def test_two_types(name):
    function = OPERATORS[name]
    for first, second in itertools.product(TYPES, TYPES):
        a, b = numbers(first), numbers(second).flip(0)
        want = outcome(function, a, b)
        got = outcome(function, to_card(a), to_card(b))
        if isinstance(want, Exception):
            continue
        assert not isinstance(got, Exception), (first, second, got)
        torch.testing.assert_close(
            got, want, equal_nan=True, msg=lambda text: f"{first}, {second}: {text}")
