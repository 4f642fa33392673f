# SPDX-License-Identifier: BSD-3-Clause
"""A model whose forward and backward passes are graphs, in an ordinary training loop."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1)).to("openreg")
data = torch.randn(64, 8).to("openreg")
target = data.sum(1, keepdim=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

model = torch.openreg.make_graphed_callables(model, (data,))
torch.openreg.reset_op_counts()
losses = []
for _ in range(20):
    optimizer.zero_grad(set_to_none=True)
    loss = nn.functional.mse_loss(model(data), target)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print("learns:", losses[-1] < losses[0] / 4)
counts = torch.openreg.op_counts()
print("replays:", counts["openreg::graph_replay"], "matrix products:", counts.get("aten::addmm", 0))
