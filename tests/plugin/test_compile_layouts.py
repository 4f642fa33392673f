# SPDX-License-Identifier: BSD-3-Clause
"""torch.compile: operators whose layout core predicts as that of a GPU."""

import pytest
import torch
from compiled import DEV, fresh, randn  # noqa: F401

pytestmark = [pytest.mark.native, pytest.mark.usefixtures("fresh")]

FUNCTIONS = {
    "fftn": lambda x: torch.fft.fftn(x, dim=(0, 2)),
    "ihfftn": lambda x: torch.fft.ihfftn(x, dim=(1, 2)),
    "rfft2": lambda x: torch.fft.rfft2(x),
    "irfft2": lambda x: torch.fft.irfft2(torch.complex(x, -x)),
    "nonzero_static": lambda x: torch.nonzero_static(x > 0, size=7),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_layout_is_that_of_eager(name):
    function = FUNCTIONS[name]
    compiled = torch.compile(function, fullgraph=True, dynamic=False)
    x = randn(3, 4, 5).to(DEV)
    for arg in (x, x.permute(2, 0, 1)):
        expected, found = function(arg), compiled(arg)
        torch.testing.assert_close(found, expected)
        assert found.stride() == expected.stride()
