# SPDX-License-Identifier: BSD-3-Clause
"""Distances of all pairs of rows, compared with the CPU."""

import pytest
import torch

from ops import check, values, with_gradients


@pytest.mark.parametrize("p", [0.0, 1.0, 1.5, 2.0, 3.0, float("inf")])
def test_distances(p):
    a, b = values(2, 5, 3), values(2, 4, 3, seed=1)
    def cdist(a, b):
        return torch.cdist(a, b, p, compute_mode="donot_use_mm_for_euclid_dist")
    check(cdist, a, b, rtol=1e-5, atol=1e-5)
    if p > 0:
        check(with_gradients(cdist), a, b, rtol=1e-4, atol=1e-4)
    check(cdist, a, a, rtol=1e-5, atol=1e-5)
    check(cdist, values(0, 3), values(4, 3))
    check(torch.cdist, values(30, 8), values(40, 8, seed=1), rtol=1e-3, atol=1e-3)


def test_equal_coordinates_have_gradient_zero():
    a, b = values(5, 3), values(4, 3, seed=1)
    b[:, 0] = a[:4, 0]
    check(with_gradients(lambda a, b: torch.cdist(a, b, 0.5)), a, b, rtol=1e-4, atol=1e-4)
