# SPDX-License-Identifier: BSD-3-Clause
"""A graph is one packet. It reads new inputs, draws new numbers, and refuses some work."""

import torch


def packets(work):
    torch.openreg.synchronize()
    before = torch.openreg.queue_stats()["packets"]
    work()
    torch.openreg.synchronize()
    return torch.openreg.queue_stats()["packets"] - before


def chain(x):
    for _ in range(100):
        x = x + 1
    return x


def capture(work):
    graph = torch.openreg.Graph()
    with torch.openreg.graph(graph):
        result = work()
    return graph, result


x = torch.zeros(16, device="openreg")
graph, y = capture(lambda: chain(x))
graph.replay()  # the first one waits for the stream of the capture
print("packets:", packets(lambda: chain(x)), "eager,", packets(graph.replay), "as a graph")
x.fill_(5)
graph.replay()
print("new input:", y[0].item())

graph, n = capture(lambda: torch.rand(3, device="openreg"))
torch.openreg.manual_seed(0)
eager = [torch.rand(3, device="openreg").tolist() for _ in range(2)]
torch.openreg.manual_seed(0)
for expected in eager:
    graph.replay()
    print("numbers of eager:", n.tolist() == expected)

for name, work in (("item", lambda: x.sum().item()), ("qr", lambda: torch.linalg.qr(n[None]))):
    try:
        capture(work)
    except RuntimeError as error:
        print(f"{name}: {error}")

graph, y = capture(lambda: x + 1)
del x
try:
    graph.replay()
except RuntimeError as error:
    print(f"replay: {error}")
