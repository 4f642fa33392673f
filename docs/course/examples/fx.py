# SPDX-License-Identifier: BSD-3-Clause
"""A compiler that prints the graphs it gets, and runs them as they are."""

import torch
from torch._dynamo.backends.common import aot_autograd


def compiler(name):
    def compile_graph(graph, inputs):
        print(name)
        for node in graph.graph.nodes:
            if node.op == "call_function":
                result = node.meta["val"]
                print(f"  {node.name} = {node.target}  {tuple(result.shape)}")

        def run(args):  # the compiled code: a list of tensors, and a list of results
            return graph(*args)

        run._boxed_call = True
        return run

    return compile_graph


backend = aot_autograd(fw_compiler=compiler("forward"), bw_compiler=compiler("backward"))


@torch.compile(backend=backend)
def layer(x, w):
    return (x @ w).tanh()


x = torch.ones(4, 8, device="openreg")
w = torch.ones(8, 2, device="openreg", requires_grad=True)
layer(x, w).sum().backward()
print("gradient:", tuple(w.grad.shape), w.grad.device)
