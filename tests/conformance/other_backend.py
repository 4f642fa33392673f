# SPDX-License-Identifier: MIT
"""A second backend, to run the tool on: a device "other" in Python alone, whose memory
is the CPU's and whose operators are the CPU's, and which does not say so."""

import numpy  # noqa: F401 - torch's part for such backends wants it
import torch
from torch.utils._pytree import tree_map_only
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

__version__ = "0.0"
NAME = "other"


class OtherTensor(torch.Tensor):
    """Has no memory of its own: held is what it would hold, on the CPU."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: torch.Tensor):
        tensor = torch._C._acc.create_empty_tensor(held.shape, held.dtype)
        tensor.__class__ = cls
        tensor.held = held.contiguous()
        return tensor

    def __init__(self, held: torch.Tensor) -> None:
        """All is done by then."""


def on_the_cpu(op, *args, **kwargs):
    """Whatever is changed in place stays who it was."""
    known: dict = {}

    def lay_down(t):
        if not isinstance(t, OtherTensor):
            return t
        known[id(t.held)] = t
        return t.held

    args, kwargs = tree_map_only(torch.Tensor, lay_down, (args, kwargs))
    asked = kwargs.get("device")
    if asked is not None:
        kwargs["device"] = "cpu"
    result = op(*args, **kwargs)
    if asked is not None and torch.device(asked).type == "cpu":
        return result

    def pick_up(t):
        return known[id(t)] if id(t) in known else OtherTensor(t)

    return tree_map_only(torch.Tensor, pick_up, result)


def copy_(self, source, non_blocking=False):
    source = source.held if isinstance(source, OtherTensor) else source
    if isinstance(self, OtherTensor):
        self.held.copy_(source)
    else:
        self.copy_(source)
    return self


_setup_privateuseone_for_python_backend(NAME)
_all = torch.library.Library("_", "IMPL")
_all.fallback(on_the_cpu, "PrivateUse1")
_aten = torch.library.Library("aten", "IMPL")
_aten.impl("copy_", copy_, "PrivateUse1")
# Core would copy what it knows of a tensor, and not what is held.
_aten.impl("detach", lambda t: OtherTensor(t.held), "PrivateUse1")
