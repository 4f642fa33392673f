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


LETTERS = sorted({name_of(op)[0] for op in op_db})
LONG = "lmns"  # their operators take over ten seconds


def cases():
    for dtype, name in ((torch.float32, "float32"), (torch.int32, "int32")):
        for letter in LETTERS:
            long = dtype == torch.int32 or letter in LONG
            yield pytest.param(
                letter, dtype, id=f"{letter}-{name}", marks=pytest.mark.long if long else ()
            )


@pytest.mark.parametrize("letter, dtype", list(cases()))
def test_strides(letter, dtype):
    found = {}
    for op in op_db:
        if name_of(op)[0] == letter and dtype in op.dtypes:
            found |= differences(op, dtype, SAMPLES)
    assert not found, "\n".join(f"{name}{text}" for name, text in found.items())
