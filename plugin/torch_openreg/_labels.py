# SPDX-License-Identifier: BSD-3-Clause
"""A word on a tensor that stays with it in files."""

import torch

from . import _C


def set_label(tensor: torch.Tensor, text: str) -> None:
    """Sticks text on a tensor of openreg; "" takes it off.

    torch.save() and pickle keep it, and detach() does. What is computed from the tensor,
    a copy on the CPU too, has none.
    """
    _C.set_label(tensor, text)


def get_label(tensor: torch.Tensor) -> str:
    """The text of set_label(), or ""."""
    return _C.label(tensor)
