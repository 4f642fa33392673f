# SPDX-License-Identifier: BSD-3-Clause
"""The same step on the CPU and on the card, then with AMP."""

import torch
from torch import nn


def step(device):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).to(device)
    data = torch.linspace(-1, 1, 32).reshape(4, 8).to(device)
    nn.functional.mse_loss(model(data), torch.zeros(4, 4, device=device)).backward()
    return model, data


cpu, _ = step("cpu")
model, data = step("openreg")
for ours, theirs in zip(model.parameters(), cpu.parameters()):
    assert torch.allclose(ours.grad.cpu(), theirs.grad, atol=1e-6)
print("gradients agree, fallbacks:", torch.openreg.fallbacks())

optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
scaler = torch.amp.GradScaler("openreg")
losses = []
for _ in range(40):
    optimizer.zero_grad()
    with torch.autocast("openreg", dtype=torch.bfloat16):
        out = model(data)
        loss = nn.functional.mse_loss(out, torch.zeros_like(out))
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    losses.append(loss.item())
print("matrix products in", out.dtype, "losses in", loss.dtype)
print("learns:", losses[-1] < losses[0] / 2)
print("weights in", model[0].weight.dtype, "fallbacks:", torch.openreg.fallbacks())
