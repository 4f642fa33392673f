# SPDX-License-Identifier: BSD-3-Clause
"""A product with a weight of 8 bits and scales in one operator.

Quantized models write (x @ weight.to(x.dtype).t()) * scale. The cast would read the weight,
and write one of twice the size, for each token.
"""

from typing import Any, NamedTuple

import torch
from torch.fx import Graph, Node

aten = torch.ops.aten

_CASTS = (torch.ops.prims.convert_element_type.default, aten._to_copy.default)
_SHAPES = (aten.reshape.default, aten.view.default)
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def _val(node: Any) -> Any:
    return node.meta.get("val") if isinstance(node, Node) else None


def _is_call(node: Any, targets: tuple) -> bool:
    return isinstance(node, Node) and node.op == "call_function" and node.target in targets


class _Weight(NamedTuple):
    node: Node
    transposed: bool  # the node is [n, k]


def _find_weight(node: Any) -> _Weight | None:
    """The tensor of 8 bits behind casts and transpositions."""
    transposed = cast = False
    while _is_call(node, (*_CASTS, aten.permute.default, aten.t.default)):
        if node.target in _CASTS:
            cast = True
        else:
            transposed = not transposed
        node = node.args[0]
        if isinstance(_val(node), torch.Tensor) and _val(node).dtype == torch.int8:
            while _is_call(node, (aten.permute.default, aten.t.default)):
                transposed, node = not transposed, node.args[0]
            return _Weight(node, transposed) if cast else None
    return None


def _find_product(node: Any) -> tuple[Node, _Weight] | None:
    """The mm and its weight, if the mm has no other user."""
    if _is_call(node, _SHAPES) and len(node.users) == 1:
        last = _val(node).shape[-1]
        node = node.args[0]
        if not isinstance(_val(node), torch.Tensor) or _val(node).shape[-1] != last:
            return None
    if not _is_call(node, (aten.mm.default,)) or len(node.users) != 1:
        return None
    if _val(node).dtype not in _FLOATS or _val(node).device.type != "openreg":
        return None
    weight = _find_weight(node.args[1])
    return (node, weight) if weight else None


def _is_scale(node: Any, product: Node) -> bool:
    scale, n = _val(node), _val(product).shape[-1]
    return (
        isinstance(scale, torch.Tensor)
        and scale.device.type == "openreg"
        and scale.dtype in _FLOATS
        and scale.dim() > 0
        and (scale.numel() == 1 or (scale.numel() == n and scale.shape[-1] == n))
    )


def _call(graph: Graph, target: Any, args: tuple) -> Node:
    node = graph.call_function(target, args)
    node.meta["val"] = target(*(_val(a) if isinstance(a, Node) else a for a in args))
    return node


def _replace(graph: Graph, mul: Node, mm: Node, weight: _Weight, scale: Node) -> None:
    with graph.inserting_before(mul), _val(mm).fake_mode:
        n = _val(mm).shape[-1]
        b = weight.node
        if not weight.transposed:
            b = _call(graph, aten.permute.default, (b, [1, 0]))
        flat = _call(graph, aten.reshape.default, (scale, [-1]))
        if _val(scale).numel() != n:
            flat = _call(graph, aten.expand.default, (flat, [n]))
        out = _call(graph, aten._weight_int8pack_mm.default, (mm.args[0], b, flat))
        out.meta["should_fallback"] = True
        if _val(mul).shape != _val(out).shape:
            out = _call(graph, aten.reshape.default, (out, list(_val(mul).shape)))
    mul.replace_all_uses_with(out)


def fuse(gm: torch.fx.GraphModule) -> None:
    found = False
    for mul in list(gm.graph.nodes):
        if not _is_call(mul, (aten.mul.Tensor,)):
            continue
        for side, scale in (mul.args, mul.args[::-1]):
            product = _find_product(side)
            if (
                product
                and _is_scale(scale, product[0])
                and _val(mul).dtype == _val(product[0]).dtype
                and _val(mul).numel() == _val(product[0]).numel()
            ):
                _replace(gm.graph, mul, *product, scale)
                found = True
                break
    if found:
        gm.graph.eliminate_dead_code()
        gm.recompile()
