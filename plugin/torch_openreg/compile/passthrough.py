# SPDX-License-Identifier: BSD-3-Clause
"""
torch.compile(model, backend="openreg"): the smallest compiler, to start your own from.

It runs the operators of the captured graph one by one, forward and backward, and checks each
result against what the operator's meta function promises. The entry point
torch_dynamo_backends registers it.
"""

from typing import Any, Callable, Sequence

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch.utils._pytree import tree_leaves


def _facts(t: torch.Tensor, shape: Sequence[int]) -> dict[str, Any]:
    """What a compiler relies on. None: unknown at compile time, or of no effect."""

    def known(n: Any) -> Any:
        return n if type(n) is int else None

    size = tuple(map(known, t.shape))
    stride = tuple(
        known(s) if n > 1 and 0 not in shape else None
        for s, n in zip(t.stride() if t.layout is torch.strided else (), shape)
    )
    return {"dtype": (t.dtype,), "device": (t.device,), "size": size, "stride": stride}


class Checked(fx.Interpreter):
    """Runs a graph. node.meta["val"] has the FakeTensors that the meta function returned."""

    def run_node(self, node: fx.Node) -> Any:
        result = super().run_node(node)
        if node.op == "call_function":
            for found, fake in zip(tree_leaves(result), tree_leaves(node.meta.get("val"))):
                if isinstance(found, torch.Tensor) and isinstance(fake, torch.Tensor):
                    self.check(node, _facts(found, found.shape), _facts(fake, found.shape))
        return result

    def check(self, node: fx.Node, found: dict, promised: dict) -> None:
        for what, values in promised.items():
            pairs = zip(found[what], values)
            if len(found[what]) != len(values) or any(p not in (None, f) for f, p in pairs):
                raise RuntimeError(
                    f"{node.target} returns a tensor of {what} {found[what]}, but its meta "
                    f"function promises {values}. Correct one of them: compilers rely on it."
                )


def _compile_graph(graph: fx.GraphModule, inputs: Sequence) -> Callable:
    graph.graph.lint()
    checked = Checked(graph)

    def run(args: list) -> Any:
        return checked.boxed_run(args)  # takes the list apart, to free arguments early

    run._boxed_call = True
    return run


def openreg(graph: fx.GraphModule, inputs: Sequence, **options: Any) -> Callable:
    if options:
        raise ValueError("backend='openreg' has no options: it generates no code")
    graph.graph.lint()
    return aot_autograd(fw_compiler=_compile_graph)(graph, inputs)
