# SPDX-License-Identifier: BSD-3-Clause
"""torch.compile: faults that Inductor's own tests found (docs/upstream-tests.md)."""

import pytest
import torch
from compiled import DEV, fresh, randn  # noqa: F401

pytestmark = [pytest.mark.native, pytest.mark.usefixtures("fresh")]

aten = torch.ops.aten

# Core predicts the layout of a GPU.
LAYOUTS = {
    "fftn": lambda x: torch.fft.fftn(x, dim=(0, 2)),
    "ihfftn": lambda x: torch.fft.ihfftn(x, dim=(1, 2)),
    "rfft2": lambda x: torch.fft.rfft2(x),
    "irfft2": lambda x: torch.fft.irfft2(torch.complex(x, -x)),
    "nonzero_static": lambda x: torch.nonzero_static(x > 0, size=7),
}

RANDOM = {
    "cauchy": lambda x: aten.cauchy(x),
    "exponential": lambda x: aten.exponential(x),
    "geometric": lambda x: aten.geometric(x, 0.25),
    "log_normal": lambda x: aten.log_normal(x),
    "uniform": lambda x: aten.uniform(x),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layout_is_that_of_eager(name):
    function = LAYOUTS[name]
    compiled = torch.compile(function, fullgraph=True, dynamic=False)
    x = randn(3, 4, 5).to(DEV)
    for arg in (x, x.permute(2, 0, 1)):
        expected, found = function(arg), compiled(arg)
        torch.testing.assert_close(found, expected)
        assert found.stride() == expected.stride()


@pytest.mark.parametrize("name", RANDOM)
def test_random_operator_has_a_lowering(name):
    x = randn(4, 5).to(DEV)
    torch.manual_seed(1)
    expected = RANDOM[name](x)
    torch.manual_seed(1)
    with torch._inductor.config.patch(implicit_fallbacks=False):
        found = torch.compile(RANDOM[name], fullgraph=True)(x)
    assert torch.equal(found, expected)


@pytest.mark.parametrize("op", [aten.native_batch_norm, aten._native_batch_norm_legit])
def test_batch_norm_saves_nothing_without_training(op):
    x, mean, variance = randn(2, 3, 4).to(DEV), randn(3).to(DEV), randn(3).abs().to(DEV)

    def function(x):
        return op(x, None, None, mean, variance, False, 0.1, 1e-5)

    expected, found = function(x), torch.compile(function, fullgraph=True)(x)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert [t.shape for t in found[1:]] == [(0,), (0,)]
