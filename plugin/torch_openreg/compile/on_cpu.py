# SPDX-License-Identifier: BSD-3-Clause
"""
What a graph with the card computes on the CPU, such as the count of an optimizer's steps, keeps
its eager kernels: Inductor's own would need a C++ compiler. Numbers that only loops on the card
use are part of the loops (values.py).
"""

import functools

import torch
from torch._inductor import ir, lowering
from torch._inductor.virtualized import V
from torch.utils._pytree import tree_leaves

aten, prims = torch.ops.aten, torch.ops.prims

_EAGER_FOREACH = "openreg_eager_foreach"


def _on_cpu(node: torch.fx.Node) -> bool:
    values = tree_leaves(node.meta.get("val"))
    return bool(values) and all(
        isinstance(value, torch.Tensor) and value.device.type == "cpu" for value in values
    )


def _is_view(op: torch._ops.OpOverload) -> bool:
    return any(r.alias_info and not r.alias_info.is_write for r in op._schema.returns)


def _part_of_a_loop(node: torch.fx.Node) -> bool:
    """Inductor computes the node where a loop reads it."""
    if any(value.dim() for value in tree_leaves(node.meta["val"])):
        return False
    op = node.target
    pointwise = torch.Tag.pointwise in op.tags or op.overloadpacket.__name__.startswith("_foreach_")
    return pointwise and not op._schema.is_mutable


def _contiguous(node: torch.fx.Node, source: torch.fx.Node) -> None:
    """Inductor makes a view contiguous before it copies it to the card."""
    value = source.meta["val"]
    if value.device.type == "cpu" and not value.is_contiguous():
        with node.graph.inserting_before(node):
            clone = node.graph.call_function(
                aten.clone.default, (source,), {"memory_format": torch.contiguous_format}
            )
        clone.meta.update(val=value.contiguous(), should_fallback=True)
        node.replace_input_with(source, clone)


def mark(graph: torch.fx.Graph) -> None:
    """Marks what is on the CPU and no part of a loop, and all that it is computed from."""
    kept: set[torch.fx.Node] = set()
    for node in reversed(graph.nodes):
        if node.op == "output" or "should_fallback" in node.meta:
            kept.update(node.all_input_nodes)
            continue
        if node.op != "call_function":
            continue
        if not isinstance(node.target, torch._ops.OpOverload):  # one of several results
            kept.update(node.all_input_nodes if node in kept else ())
        elif not _on_cpu(node):
            if node.target in (prims.device_put.default, aten._to_copy.default):
                kept.update(node.all_input_nodes)
                _contiguous(node, node.args[0])
        elif node in kept or not (_is_view(node.target) or _part_of_a_loop(node)):
            kept.update(node.all_input_nodes)
            if _is_view(node.target) or node.target is prims.device_put.default:
                continue
            # Inductor may still make a foreach operator write in place.
            in_place = node.target in lowering.inplaceable_foreach_ops
            node.meta[_EAGER_FOREACH if in_place else "should_fallback"] = True


def _foreach_on_cpu(op, tensors, *args, **kwargs):
    if _EAGER_FOREACH not in V.graph.current_node.meta:
        return None
    if op in lowering.inplace_foreach_ops:
        ir.FallbackKernel.create(op, tensors, *args, **kwargs)
        return list(tensors)
    return lowering.fallback_handler(op, add_to_fallback_set=False)(tensors, *args, **kwargs)


def install() -> None:
    for both in lowering.inplaceable_foreach_ops.items():
        for op in both:
            lowering.user_lowerings[op] = functools.partial(_foreach_on_cpu, op)
