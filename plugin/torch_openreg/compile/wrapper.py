# SPDX-License-Identifier: BSD-3-Clause
"""The generated Python code."""

from typing import Any, Optional

from torch._inductor.codegen.wrapper import (
    PythonWrapperCodegen,
    SubgraphPythonWrapperCodegen,
)


class OpenregWrapper(PythonWrapperCodegen):
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

    def make_allocation(
        self, name, device, dtype, shape, stride, allocation_shape=None, is_pinned=False
    ) -> str:
        line = super().make_allocation(
            name, device, dtype, shape, stride, allocation_shape, is_pinned
        )
        if device.type == "openreg" and device.index is not None:
            # Without an index the memory would be on the current card.
            line = line.replace("device='openreg'", f"device='openreg:{device.index}'")
        return line


class OpenregSubgraph(SubgraphPythonWrapperCodegen):
    make_allocation = OpenregWrapper.make_allocation
