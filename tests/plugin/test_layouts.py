# SPDX-License-Identifier: BSD-3-Clause
"""The results of every operator have the strides of its meta function: compiled code relies
on this. OPENREG_LAYOUT_SAMPLES sets the number of samples per operator, by default one."""

import os

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

from layouts import differences

SAMPLES = int(os.environ.get("OPENREG_LAYOUT_SAMPLES", "1"))


def name_of(op):
    return f"{op.name}.{op.variant_test_name}".rstrip(".")


@pytest.mark.parametrize(
    "dtype",
    [
        pytest.param(torch.float32, id="float32"),
        pytest.param(torch.int32, id="int32", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("letter", sorted({name_of(op)[0] for op in op_db}))
def test_strides(letter, dtype):
    found = {}
    for op in op_db:
        if name_of(op)[0] == letter and dtype in op.dtypes:
            found |= differences(op, dtype, SAMPLES)
    assert not found, "\n".join(f"{name}{text}" for name, text in found.items())
