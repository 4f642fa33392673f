# SPDX-License-Identifier: BSD-3-Clause
"""Decides which loops become one program, and writes the programs and their calls."""

import dataclasses
import functools
from typing import Any, Sequence

import torch
from torch._inductor import config
from torch._inductor.codegen.common import BackendFeature
from torch._inductor.codegen.wrapper import pexpr
from torch._inductor.scheduler import (
    BaseSchedulerNode,
    BaseScheduling,
    FusedSchedulerNode,
    SchedulerNode,
)
from torch._inductor.utils import get_fused_kernel_name, get_kernel_metadata, sympy_product
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from .eager_lines import CannotRun, EagerKernel
from .listing import Listing
from .registers import fits, merge_dims, parts_of
from .tracing import VectorKernel
from .values import Unsupported


# Pointwise loops over at most so many elements wait for others, to save their packets.
_SMALL = 1 << 18

# Loops that each need the one before save no packet by waiting, and keep their buffers alive.
_CHAIN = 8


@dataclasses.dataclass
class _Group:
    """Loops that wait to become one program. None of them needs another."""

    nodes: list
    size: Any  # elements
    full: bool = False

    def is_needed_by(self, ancestors: OrderedSet) -> bool:
        return any(node.get_operation_names() & ancestors for node in self.nodes)


class OpenregScheduling(BaseScheduling):
    def __init__(self, scheduler: Any) -> None:
        super().__init__(scheduler)
        self.waiting: list[_Group] = []

    def get_backend_features(self, device: torch.device) -> OrderedSet[BackendFeature]:
        # The card folds any number of elements in one program: do not split reductions.
        return OrderedSet([BackendFeature.REDUCE_TO_SINGLE_ELEMENT])

    def group_fn(self, sizes: Sequence) -> tuple:
        return tuple(V.graph.sizevars.simplify(sympy_product(s)) for s in sizes)

    def can_fuse_vertical(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> bool:
        return self._can_fuse(node1, node2)

    can_fuse_horizontal = can_fuse_vertical

    def _can_fuse(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> bool:
        nodes = [*node1.get_nodes(), *node2.get_nodes()]
        if not all(type(node) is SchedulerNode for node in nodes):
            return False
        if any(node.is_template() for node in nodes):
            return False
        return _fit_together(nodes)

    def codegen_node(self, node: Any) -> None:
        if self._is_small(node):
            self._wait(node)
        else:
            self.flush()
            self._write(list(node.get_nodes()))
            self.free_buffers_in_scheduler()

    def _is_small(self, node: Any) -> bool:
        scheduler = self.scheduler
        if scheduler._has_multi_stream_nodes() or scheduler._has_mempool_nodes():
            return False
        if self._has_kernels_without_device:
            return False
        points = node.group[1][0]
        return not node.is_reduction() and points.is_Integer and points <= _SMALL

    @functools.cached_property
    def _has_kernels_without_device(self) -> bool:
        """The scheduler does not call flush() before such kernels: record_event() is one."""
        return any(n.is_extern() and n.get_device() is None for n in self.scheduler.nodes)

    def _wait(self, node: Any) -> None:
        """Adds the loops to a group that has room, unless a later group has to run before."""
        nodes, size = list(node.get_nodes()), node.group[1][0]
        first = len(self.waiting)
        while first and not self.waiting[first - 1].is_needed_by(node.ancestors):
            first -= 1
        for group in self.waiting[first:]:
            if group.full or group.size != size:
                continue
            if _fit_together([*group.nodes, *nodes]):
                group.nodes += nodes
                return
            group.full = True
        self.waiting.append(_Group(nodes, size))
        if first + 1 == len(self.waiting) > _CHAIN:
            self.flush()
            self.free_buffers_in_scheduler()

    def _write(self, nodes: list) -> None:
        try:
            self._write_program(nodes)
        except Unsupported as error:
            if len(nodes) > 1:
                for one in nodes:
                    self._write([one])
                return
            self._write_eager(nodes[0], str(error))

    def _write_program(self, nodes: list) -> None:
        kernel = VectorKernel(nodes)
        kernel.trace()
        parts = parts_of(kernel.code, kernel.loops)
        equal = V.graph.sizevars.statically_known_equals
        size, folded = merge_dims(parts, kernel.loops, equal)
        listing = Listing(parts, size, folded)
        name = self._define(listing.text, nodes)
        with V.set_kernel_handler(kernel):
            for node in nodes:
                node.mark_run()
        wrapper = V.graph.wrapper_code
        self.codegen_comment(nodes, name)
        arguments = listing.arguments(lambda buffer: buffer, pexpr)
        wrapper.writeline(f"{name}({', '.join(arguments)})")
        V.graph.removed_buffers |= kernel.removed_buffers
        V.graph.inplaced_to_remove |= kernel.inplaced_to_remove

    def _write_eager(self, node: SchedulerNode, reason: str) -> None:
        """Writes the loop as torch operators."""
        what = _operators(node)
        kernel = EagerKernel(node)
        try:
            kernel.trace()
        except CannotRun as error:
            raise NotImplementedError(
                f"torch.compile: openreg cannot compile {what} because of {error}. Use "
                "torch.compile(..., backend='aot_eager'), which runs the operators of the "
                "captured graph on the card."
            ) from None
        text = kernel.text()
        name = self._define(text, [node], (what, reason))
        with V.set_kernel_handler(kernel):
            node.mark_run()
        self.codegen_comment([node], name)
        arguments = [*kernel.buffers, *map(str, kernel.symbols)]
        V.graph.wrapper_code.writeline(f"{name}({', '.join(arguments)})")
        V.graph.removed_buffers |= kernel.removed_buffers

    def _define(self, text: str, nodes: list, eager: tuple = ()) -> str:
        """Writes the program, unless the graph has it already. Returns its name."""
        wrapper = V.graph.wrapper_code
        name = wrapper.src_to_kernel.get(text)
        if name is None:
            what = (
                get_fused_kernel_name(nodes, config.triton.descriptive_names)
                if config.triton.descriptive_names
                else "fused"
            )
            name = f"openreg_{what}_{wrapper.next_kernel_suffix()}"
            wrapper.src_to_kernel[text] = name
            origins, detailed = get_kernel_metadata(nodes, wrapper)
            how = (
                f"eager.loop({eager[0]!r}, {eager[1]!r}, "
                if eager
                else f'program("{name}", '
            )
            wrapper.define_kernel(
                name,
                f'{how}"""\n{text}\n""")',
                f"{origins}\n{detailed}",
                gpu=False,
            )
        return name

    def codegen_sync(self) -> None:
        V.graph.wrapper_code.writeline("torch.openreg.synchronize()")

    def flush(self) -> None:
        """The scheduler calls this before other kernels that have a device, and frees buffers
        behind it."""
        waiting, self.waiting = self.waiting, []
        for group in waiting:
            self._write(group.nodes)

    def ready_to_flush(self) -> bool:
        return False


def _fit_together(nodes: list) -> bool:
    """Are the loops one program?"""
    try:
        kernel = VectorKernel(nodes, trial=True)
        kernel.trace()
    except Unsupported:
        return False
    return fits(kernel.code, kernel.loops)


def _operators(node: SchedulerNode) -> str:
    """The operators of the user's graph that a loop computes."""
    origins = node.node.get_origins() if node.node is not None else ()
    names = {str(o.meta.get("original_aten") or o.target) for o in origins}
    return ", ".join(sorted(names)) or node.get_name()
