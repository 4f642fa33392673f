# SPDX-License-Identifier: BSD-3-Clause
"""The gradient of an embedding, added to another gradient of its weight in place.

A language model often uses the weight of its embedding once more, in its last layer. That
layer's gradient is a product. The embedding's gradient is as large, and has zeros in most rows:
the card would fill it, and read all of it for the sum. Instead index_put_ adds the rows that
are not zero to the product, in its own memory.
"""

from typing import Any

import torch
from torch.fx import Node

aten = torch.ops.aten

_PRODUCTS = (aten.mm.default, aten.addmm.default)
_CAST = torch.ops.prims.convert_element_type.default


def _val(node: Any) -> Any:
    return node.meta.get("val") if isinstance(node, Node) else None


def _is_gradient(node: Any, like: Any) -> bool:
    """An embedding's gradient with one reader, of the same sizes and dtype."""
    if not isinstance(node, Node) or node.target is not aten.embedding_dense_backward.default:
        return False
    if len(node.args) != 5 or not isinstance(like, torch.Tensor):
        return False
    grad, index, _, _, by_frequency = node.args
    return (
        len(node.users) == 1
        and not by_frequency
        and _val(grad).dim() == _val(index).dim() + 1
        and _val(node).device.type == "openreg"
        # In half precision the sum would round after each row, and eager mode's rounds once.
        and _val(node).dtype in (torch.float32, torch.float64)
        and _val(node).dtype is like.dtype
        and all(type(n) is int for n in (*_val(node).shape, *like.shape))
        and _val(node).shape == like.shape
    )


def _is_writable(node: Any) -> bool:
    """The result has memory of its own, and one reader."""
    if not isinstance(node, Node) or len(node.users) != 1:
        return False
    if node.target is _CAST:
        return _val(node.args[0]).dtype is not _val(node).dtype
    return node.target in _PRODUCTS


def _split(node: Node) -> tuple[Node, Node | None] | None:
    """Finds the two terms of a sum: the embedding's gradient, and the other one. The other
    one is None for an addmm: its product has no node yet."""
    if node.target is aten.addmm.default:
        factors = [node.kwargs.get(name, 1) for name in ("alpha", "beta")]
        if factors == [1, 1] and _is_gradient(node.args[0], _val(node)):
            return node.args[0], None
    elif node.target is aten.add.Tensor and not node.kwargs:
        for sparse, other in (node.args, node.args[::-1]):
            if _is_gradient(sparse, _val(node)) and _is_writable(other):
                if _val(other).shape == _val(node).shape and _val(other).dtype is _val(node).dtype:
                    return sparse, other
    return None


def _rows(graph: torch.fx.Graph, sparse: Node) -> tuple[Node, Node]:
    """Returns the index and the rows to add. Rows of the padding are zeros."""
    grad, index, rows, padding, _ = sparse.args
    if not 0 <= padding < rows:
        return index, grad

    def call(target: Any, *args: Any, **kwargs: Any) -> Node:
        node = graph.call_function(target, args, kwargs)
        values = (_val(a) if isinstance(a, Node) else a for a in args)
        node.meta["val"] = target(*values, **kwargs)
        return node

    with _val(grad).fake_mode:
        is_padding = call(aten.unsqueeze.default, call(aten.eq.Scalar, index, padding), -1)
        options = {"dtype": _val(grad).dtype, "device": _val(grad).device}
        zero = call(aten.full.default, [], 0, **options)
        return index, call(aten.where.self, is_padding, zero, grad)


def add_in_place(gm: torch.fx.GraphModule) -> None:
    graph, found = gm.graph, False
    for node in list(graph.nodes):
        split = _split(node)
        if split is None:
            continue
        sparse, other = split
        with graph.inserting_before(node):
            if other is None:
                other = graph.call_function(aten.mm.default, node.args[1:])
                other.meta["val"] = _val(node)
            index, rows = _rows(graph, sparse)
            put = graph.call_function(aten.index_put_.default, (other, [index], rows, True))
        put.meta["val"] = _val(node)
        node.replace_all_uses_with(put)
        graph.erase_node(node)
        graph.erase_node(sparse)
        found = True
    if found:
        gm.recompile()
