# SPDX-License-Identifier: BSD-3-Clause
"""The card refuses the dtypes that the CPU refuses."""

import pytest
import torch
import torch.nn.functional as F

OF_TRUTH_VALUES = {
    "relu": torch.relu,
    "relu_": lambda t: t.clone().relu_(),
    "relu6": F.relu6,
    "hardtanh": F.hardtanh,
    "threshold": lambda t: F.threshold(t, 0, 0),
    "threshold_": lambda t: F.threshold(t.clone(), 0, 0, inplace=True),
    "abs": torch.abs,
    "abs_": lambda t: t.clone().abs_(),
    "fmod": lambda t: torch.fmod(t, t),
    "fmod of a number": lambda t: torch.fmod(t, True),
    "remainder": lambda t: torch.remainder(t, t),
    "pow": lambda t: torch.pow(t, t),
    "pow of a number": lambda t: torch.pow(True, t),
    "median": torch.median,
    "median of rows": lambda t: torch.median(t, 0),
    "nanmedian": torch.nanmedian,
    "kthvalue": lambda t: torch.kthvalue(t, 1),
    "round": lambda t: torch.round(t, decimals=1),
}


@pytest.mark.parametrize("name", OF_TRUTH_VALUES)
def test_truth_values(name):
    function = OF_TRUTH_VALUES[name]
    for device in ("cpu", "openreg"):
        with pytest.raises(NotImplementedError):
            function(torch.tensor([True, False], device=device))
    numbers = torch.tensor([2.0, 1.0])
    want, got = function(numbers), function(numbers.to("openreg"))
    if isinstance(want, torch.Tensor):
        torch.testing.assert_close(got.cpu(), want)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64, torch.bool])
def test_round_to_decimals(dtype):
    for device in ("cpu", "openreg"):
        with pytest.raises(NotImplementedError):
            torch.round(torch.ones(2, device=device).to(dtype), decimals=1)
