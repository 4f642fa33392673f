# SPDX-License-Identifier: MIT
"""A second backend to test the tool with: a device "other", written in Python alone. Its
memory and its operators are the CPU's, and it does not report where an operator ran."""

import numpy  # noqa: F401 - torch.utils.backend_registration needs it
import torch
from torch.utils._pytree import tree_map_only
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

__version__ = "0.0"
NAME = "other"


class OtherTensor(torch.Tensor):
    """A tensor without memory of its own: held is the CPU tensor with its values."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: torch.Tensor):
        tensor = torch._C._acc.create_empty_tensor(held.shape, held.dtype)
        tensor.__class__ = cls
        tensor.held = held.contiguous()
        return tensor

    def __init__(self, held: torch.Tensor) -> None:
        """Does nothing: __new__() has initialized the tensor."""


def on_the_cpu(op, *args, **kwargs):
    """Runs the operator on the held tensors. If the result is one of them, as after an
    in-place operator, the result is the same OtherTensor again."""
    known: dict = {}

    def unwrap(t):
        if not isinstance(t, OtherTensor):
            return t
        known[id(t.held)] = t
        return t.held

    args, kwargs = tree_map_only(torch.Tensor, unwrap, (args, kwargs))
    device = kwargs.get("device")
    if device is not None:
        kwargs["device"] = "cpu"
    result = op(*args, **kwargs)
    if device is not None and torch.device(device).type == "cpu":
        return result

    def wrap(t):
        return known[id(t)] if id(t) in known else OtherTensor(t)

    return tree_map_only(torch.Tensor, wrap, result)


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
# Core's detach() would copy the tensor's metadata, but not the attribute held.
_aten.impl("detach", lambda t: OtherTensor(t.held), "PrivateUse1")
