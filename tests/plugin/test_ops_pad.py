# SPDX-License-Identifier: BSD-3-Clause
"""Padding and the gradient of unfold, against the CPU's."""

import pytest
import torch
from torch.nn import functional as F

from ops import check, to_card, values, with_gradients


@pytest.mark.parametrize("step", [1, 2, 3, 5])
def test_unfold_backward(step):
    check(with_gradients(lambda x: x.unfold(1, 3, step)), values(2, 11, 4))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular", "constant"])
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
