# SPDX-License-Identifier: BSD-3-Clause
"""
What a graph with the card computes on the CPU, such as the count of an optimizer's steps, keeps
its eager kernels: Inductor's own would need a C++ compiler. A small expression that only loops
on the card read is part of these loops (values.py).
"""

import functools
from typing import Any

import torch
from torch._inductor import compile_fx, ir, lowering
from torch._inductor.graph import GraphLowering, getattr_recursive
from torch._inductor.virtualized import V
from torch.utils._pytree import tree_leaves

aten, prims = torch.ops.aten, torch.ops.prims

_EAGER_FOREACH = "openreg_eager_foreach"

# Inductor stores the value of a larger expression, or of a slower function, in memory.
_MOST_OPERATORS = 10
_MOST_READS = 4
_IN_LOOPS = {
    aten.add, aten.sub, aten.rsub, aten.mul, aten.div, aten.neg, aten.reciprocal, aten.sqrt,
    aten.pow, aten._foreach_add, aten._foreach_sub, aten._foreach_mul, aten._foreach_div,
    aten._foreach_neg, aten._foreach_reciprocal, aten._foreach_sqrt, aten._foreach_pow,
    aten._to_copy, prims.convert_element_type,
}  # fmt: skip
_CONSTANTS = {aten.full, aten.scalar_tensor, aten.lift_fresh_copy}
_FOREACH_REDUCTIONS = {aten._foreach_norm, aten._foreach_max, aten._foreach_powsum}


def _packet(node: torch.fx.Node) -> Any:
    return getattr(node.target, "overloadpacket", None)


def _tensors(node: torch.fx.Node) -> list:
    return [t for t in tree_leaves(node.meta.get("val")) if isinstance(t, torch.Tensor)]


def _devices(node: torch.fx.Node) -> set:
    return {tensor.device.type for tensor in _tensors(node)}


def _is_view(node: torch.fx.Node) -> bool:
    returns = node.target._schema.returns
    return any(r.alias_info and not r.alias_info.is_write for r in returns)


def _is_loop(node: torch.fx.Node) -> bool:
    """Inductor makes a loop of it, which reads numbers without storing them first."""
    packet = _packet(node)
    if packet in (None, aten.copy, aten.fill) or node.target._schema.is_mutable:
        return False
    if packet.__name__.startswith("_foreach_"):
        return packet not in _FOREACH_REDUCTIONS
    return torch.Tag.pointwise in node.target.tags


class _Expressions:
    """The small expressions of numbers on the CPU: their operators and the tensors they read."""

    def __init__(self, graph: torch.fx.Graph) -> None:
        self.sizes: dict[torch.fx.Node, tuple[int, int]] = {}
        for node in graph.nodes:
            if node.op == "call_function" and _devices(node) == {"cpu"}:
                self.look_at(node)

    def look_at(self, node: torch.fx.Node) -> None:
        if any(tensor.dim() for tensor in _tensors(node)):
            return
        packet = _packet(node)
        if packet in _CONSTANTS:
            self.sizes[node] = 0, 0
        elif packet in _IN_LOOPS or packet is None:  # None: one of several results
            found = [self.sizes.get(i, (0, 1)) for i in node.all_input_nodes]
            # Of a foreach operator the largest expression counts, but this is not known.
            operators = (packet is not None) + sum(n for n, _ in found)
            reads = sum(n for _, n in found)
            if packet is not None and packet.__name__.startswith("_foreach_"):
                operators = 1 + max((n for n, _ in found), default=0)
                reads = max((n for _, n in found), default=0)
            if operators <= _MOST_OPERATORS and reads <= _MOST_READS:
                self.sizes[node] = operators, reads


def mark(graph: torch.fx.Graph) -> None:
    """Marks the operators on the CPU that no loop contains, and those of their arguments."""
    expressions = _Expressions(graph)
    kept: set[torch.fx.Node] = set()
    for node in reversed(graph.nodes):
        if node.op == "output" or "should_fallback" in node.meta:
            kept.update(node.all_input_nodes)
        elif node.op != "call_function":
            continue
        elif not isinstance(node.target, torch._ops.OpOverload):
            if node in kept or not _devices(node):  # one of several results, or a call
                kept.update(node.all_input_nodes)
        elif "cpu" not in _devices(node):
            if not _is_loop(node):
                kept.update(node.all_input_nodes)
            if node.target in (prims.device_put.default, aten._to_copy.default):
                _make_contiguous(node, node.args[0])
        elif node in kept or not (_is_view(node) or node in expressions.sizes):
            kept.update(node.all_input_nodes)
            if _is_view(node) or node.target is prims.device_put.default:
                continue
            in_place = node.target in lowering.inplace_foreach_ops
            node.meta[_EAGER_FOREACH if in_place else "should_fallback"] = True
    for node in kept:
        if node.op == "get_attr":
            _store(node)


def _store(constant: torch.fx.Node) -> None:
    """Inductor computes a list of up to 8 numbers in a loop, but stores a matrix of one row."""
    graph = constant.graph
    value = getattr_recursive(graph.owning_module, constant.target)
    if not isinstance(value, torch.Tensor) or not GraphLowering.can_inline_constant(value):
        return
    name = f"{constant.target}_row".replace(".", "_")
    graph.owning_module.register_buffer(name, value[None])
    with graph.inserting_after(constant):
        row = graph.get_attr(name)
    # Core's passes refuse other operators on a tensor that is not fake.
    with graph.inserting_after(row):
        copy = graph.call_function(aten.lift_fresh_copy.default, (row,))
    copy.meta.update(should_fallback=True)
    with graph.inserting_after(copy):
        again = graph.call_function(aten.select.int, (copy, 0, 0))
    again.meta.update(constant.meta)
    constant.replace_all_uses_with(again)
    graph.erase_node(constant)


def _make_contiguous(copy: torch.fx.Node, source: torch.fx.Node) -> None:
    """Inductor makes a view contiguous before it copies it to the card."""
    value = source.meta["val"]
    if value.device.type == "cpu" and not value.is_contiguous():
        with copy.graph.inserting_before(copy):
            clone = copy.graph.call_function(
                aten.clone.default, (source,), {"memory_format": torch.contiguous_format}
            )
        clone.meta.update(val=value.contiguous(), should_fallback=True)
        copy.replace_input_with(source, clone)


def _foreach_in_place(op, tensors, *args, **kwargs):
    if _EAGER_FOREACH not in V.graph.current_node.meta:
        return None
    ir.FallbackKernel.create(op, tensors, *args, **kwargs)
    return list(tensors)


def install() -> None:
    for op in lowering.inplace_foreach_ops:
        lowering.user_lowerings[op] = functools.partial(_foreach_in_place, op)
    passes = compile_fx.post_grad_passes

    # Inductor's own passes write to memory in place, and split such writes.
    @functools.wraps(passes)
    def then_mark(gm: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> None:
        passes(gm, *args, **kwargs)
        # The branches of torch.cond are graphs of their own, and have been here before.
        graphs = [m.graph for m in gm.modules() if isinstance(m, torch.fx.GraphModule)]
        if any("openreg" in _devices(node) for graph in graphs for node in graph.nodes):
            for graph in graphs:
                mark(graph)
                graph.owning_module.recompile()

    compile_fx.post_grad_passes = then_mark
