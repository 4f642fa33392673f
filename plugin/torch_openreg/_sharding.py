# SPDX-License-Identifier: BSD-3-Clause
"""Sharding rules of DTensor for the card's attention operators. They are registered when the
program imports torch.distributed.tensor, which takes long to import."""

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from typing import Any

import torch

_TENSOR = "torch.distributed.tensor"

# How batch and heads may be divided: like in core's rules for other attention kernels.
_DIMENSIONS = (None, 0, 1)


def _register() -> None:
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor._dtensor_spec import DTensorSpec
    from torch.distributed.tensor.experimental import register_sharding

    def placement(dimension: int | None) -> Any:
        return Replicate() if dimension is None else Shard(dimension)

    def of_bias(bias: Any, dimension: int | None) -> Any:
        """A dimension of size 1 broadcasts, so that every rank needs it."""
        if bias is None:
            return None
        kept = dimension is None or bias.ndim < 4 or bias.shape[dimension] == 1
        return placement(None if kept else dimension)

    aten = torch.ops.aten

    @register_sharding(aten._scaled_dot_product_fused_attention_overrideable.default)
    def forward(query, key, value, bias=None, *args, **kwargs):
        rules = []
        for dimension in _DIMENSIONS:
            p = placement(dimension)
            outputs = [p, p, None, None, None, None, None, None, None]
            rules.append((outputs, [p, p, p, of_bias(bias, dimension)]))
        return rules

    @register_sharding(
        aten._scaled_dot_product_fused_attention_overrideable_backward.default
    )
    def backward(grad, query, key, value, bias, wanted, out, log_sum, *others, **kwargs):
        # The states of random numbers are the same on all ranks.
        states = [Replicate() for other in others if isinstance(other, DTensorSpec)]
        rules = []
        for dimension in _DIMENSIONS:
            p, b = placement(dimension), of_bias(bias, dimension)
            if b is not None and wanted[3] and b != p:
                continue  # the gradient of the bias would be a sum over the ranks
            gradients = [p if w else None for w in wanted[:3]] + [b if wanted[3] else None]
            rules.append((gradients, [p, p, p, p, b, p, p, *states]))
        return rules


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        return self.loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self.loader.exec_module(module)
        _register()


class _Finder(importlib.abc.MetaPathFinder):
    """Registers the rules after the import of torch.distributed.tensor."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != _TENSOR:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


def install() -> None:
    if not torch.distributed.is_available():
        return
    if _TENSOR in sys.modules:
        _register()
    else:
        sys.meta_path.insert(0, _Finder())
