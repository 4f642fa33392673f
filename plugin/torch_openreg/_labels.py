# SPDX-License-Identifier: BSD-3-Clause
"""Labels: texts on tensors, which files keep."""

import torch

from . import _C


def set_label(tensor: torch.Tensor, text: str) -> None:
    """Sets the label of a tensor of openreg. The text "" removes the label.

    torch.save(), pickle and detach() keep the label. Tensors that are computed from the
    tensor, and its copies on the CPU, have no label.
    """
    _C.set_label(tensor, text)


def get_label(tensor: torch.Tensor) -> str:
    """Returns the label of a tensor, or "" without a label."""
    return _C.label(tensor)
