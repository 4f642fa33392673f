# SPDX-License-Identifier: BSD-3-Clause
"""The generated Python code."""

from typing import Any, Optional

import sympy
import torch
from torch._inductor import config
from torch._inductor.codegen.wrapper import (
    PythonWrapperCodegen,
    SubgraphPythonWrapperCodegen,
)
from torch._inductor.virtualized import V


class _CountsWholeOperators:
    """Lists the operators that the graph runs as they are, and counts the runs."""

    def generate_fallback_kernel(self, node: Any) -> None:
        device, op = node.get_device(), node.op_overload
        packet = getattr(op, "overloadpacket", None)
        own = packet is torch.ops.aten.convolution_backward  # has packets of its own
        if device is not None and device.type == "openreg" and not own:
            names = self.__dict__.setdefault("whole_operators", [])
            if not names:
                self.writeline(f"whole_{self.launcher_fn_name}.runs += 1")
            names.append(str(op))
        super().generate_fallback_kernel(node)

    def generate_before_suffix(self, result: Any) -> None:
        super().generate_before_suffix(result)
        if names := self.__dict__.get("whole_operators"):
            result.writeline(f"whole_{self.launcher_fn_name} = eager.whole({names})")


class OpenregWrapper(_CountsWholeOperators, PythonWrapperCodegen):
    @staticmethod
    def create(
        is_subgraph: bool,
        subgraph_name: Optional[str],
        parent_wrapper: Any,
        partition_signatures: Any = None,
    ) -> PythonWrapperCodegen:
        if is_subgraph:
            return OpenregSubgraph(subgraph_name, parent_wrapper, partition_signatures)
        return OpenregWrapper()

    def write_header(self) -> None:
        super().write_header()
        self.imports.splice("from torch_openreg.compile.assembler import program\n")
        self.imports.splice("from torch_openreg.compile import eager\n")
        self.imports.splice("from torch_openreg._C import empty_strided as empty_on_card\n")

    def generate_after_suffix(self, result: Any) -> None:
        super().generate_after_suffix(result)
        graph = V.graph
        on_one_card = set(graph.device_types) == {"openreg"} and len(graph.device_idxs) == 1
        if config.triton.cudagraphs and on_one_card and not graph.aot_mode:
            (card,) = graph.device_idxs
            numbers = any(isinstance(i, sympy.Expr) for i in graph.graph_inputs.values())
            result.writeline("from torch_openreg.compile.replay import Replayed")
            result.writeline(f"call = Replayed(call, {card}, {numbers})")

    def make_allocation(
        self, name, device, dtype, shape, stride, allocation_shape=None, is_pinned=False
    ) -> str:
        if device.type != "openreg":
            return PythonWrapperCodegen.make_allocation(
                self, name, device, dtype, shape, stride, allocation_shape, is_pinned
            )
        size, stride = map(self.codegen_python_shape_tuple, (shape, stride))
        larger = self.codegen_python_shape_tuple(allocation_shape or shape)
        index = -1 if device.index is None else device.index  # -1: the current card
        line = f"{name} = empty_on_card({larger}, {stride}, {dtype}, {index})"
        return line if larger == size else f"{line}.as_strided({size}, {stride})"


class OpenregCppWrapper(OpenregWrapper):
    """AOTInductor and the option cpp_wrapper want C++ code, which openreg cannot have."""

    @staticmethod
    def create(*args: Any) -> PythonWrapperCodegen:
        raise NotImplementedError(
            "AOTInductor and cpp_wrapper=True cannot compile for openreg: their C++ code calls "
            "functions such as aoti_torch_openreg_mm_out, and libtorch has such functions only "
            "for its own devices. Save the model with torch.export.save(), and call "
            "torch.compile() on the module() of the loaded program."
        )


class OpenregSubgraph(_CountsWholeOperators, SubgraphPythonWrapperCodegen):
    make_allocation = OpenregWrapper.make_allocation
