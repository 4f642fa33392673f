# SPDX-License-Identifier: BSD-3-Clause
"""Operators that are composed of others, compared with the CPU."""

import pytest
import torch

from ops import FLOATS, INTS, check, no_fallback, to_card, values


def test_equal():
    x = to_card(values(4, 5))
    with no_fallback():
        assert torch.equal(x, x.clone())
        assert not torch.equal(x, x + 1)
        assert not torch.equal(x, x[:3])
        assert torch.equal(x[:0], x[:0])


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS])
def test_other_compositions(dtype):
    x = values(4, 4, dtype=dtype)
    check(torch.trace, x)
    check(lambda x: torch.count_nonzero(x, 1), x)
    check(torch.nansum, x)


def test_infinities():
    inf = float("inf")
    x = torch.tensor([1.0, -2.0, inf, -inf, float("nan"), 0.0, -0.0])
    check(torch.angle, x)
    for options in [{}, {"nan": inf}, {"nan": -inf, "posinf": 5.0}, {"neginf": inf}]:
        check(lambda x: torch.nan_to_num(x, **options), x)
