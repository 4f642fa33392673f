# SPDX-License-Identifier: MIT
"""(e) a training step of an MLP 784-1024-1024-10, batch 256."""

import torch
from torch import nn

from common import DEVICES, figure, measure


def make_step(device):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(),
                          nn.Linear(1024, 1024), nn.ReLU(),
                          nn.Linear(1024, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = torch.rand(256, 784).to(device)
    labels = torch.randint(10, (256,)).to(device)

    def step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()

    return step


for device in DEVICES:
    step = make_step(device)
    step()
    took = measure(step, device, 20 if device == "openreg" else 2)
    figure("e", f"training step on {device}", 1e3 * took, "ms")
