# SPDX-License-Identifier: MIT
"""The training steps of whole networks, for models.py and inprocess.py."""

import torch
from torch import nn


def classify(model, inputs, labels, device, lr=0.1):
    model, inputs, labels = model.to(device), inputs.to(device), labels.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)

    def step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()

    return step


def mlp(device):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(),
                          nn.Linear(1024, 1024), nn.ReLU(),
                          nn.Linear(1024, 10))
    return classify(model, torch.rand(256, 784), torch.randint(10, (256,)), device)


def resnet18(device):
    from torchvision.models import resnet18 as network
    torch.manual_seed(0)
    return classify(network(num_classes=10), torch.rand(8, 3, 64, 64),
                    torch.randint(10, (8,)), device)


def gpt2(device):
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(n_layer=4)).to(device).train()
    tokens = torch.randint(50257, (2, 128)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step():
        optimizer.zero_grad()
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()

    return step


NETWORKS = {
    "MLP 784-1024-1024-10, batch 256": mlp,
    "ResNet-18, 8x3x64x64": resnet18,
    "GPT-2 of 4 layers, 2x128": gpt2,
}
