# SPDX-License-Identifier: BSD-3-Clause
"""Prints the operators of one forward and backward pass."""

import torch
from torch.utils._debug_mode import DebugMode

x = torch.ones(2, device="openreg", requires_grad=True)
with DebugMode() as mode:
    (x * 3).sum().backward()
print(mode.debug_string())
print("ran on the card:", torch.openreg.op_counts())
