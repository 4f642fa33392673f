# SPDX-License-Identifier: MIT
"""The training steps of whole networks, for models.py and inprocess.py."""

import torch
from torch import nn


def same(function):
    return function


def classify(model, inputs, labels, device, compiled, lr=0.1):
    model, inputs, labels = model.to(device), inputs.to(device), labels.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    run = compiled(model)

    def step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(run(inputs), labels).backward()
        optimizer.step()

    return step


def mlp(device, compiled=same):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(),
                          nn.Linear(1024, 1024), nn.ReLU(),
                          nn.Linear(1024, 10))
    return classify(model, torch.rand(256, 784), torch.randint(10, (256,)), device,
                    compiled)


def resnet18(device, compiled=same):
    from torchvision.models import resnet18 as network
    torch.manual_seed(0)
    return classify(network(num_classes=10), torch.rand(8, 3, 64, 64),
                    torch.randint(10, (8,)), device, compiled)


def language(model, device, compiled):
    model = model.to(device).train()
    tokens = torch.randint(model.config.vocab_size, (2, 128)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    run, update = compiled(model), compiled(optimizer.step)

    def step():
        optimizer.zero_grad()
        run(input_ids=tokens, labels=tokens).loss.backward()
        update()

    return step


def gpt2(device, compiled=same):
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.manual_seed(0)
    return language(GPT2LMHeadModel(GPT2Config(n_layer=4)), device, compiled)


def bert(device, compiled=same):
    from transformers import BertConfig, BertForMaskedLM
    torch.manual_seed(0)
    return language(BertForMaskedLM(BertConfig(num_hidden_layers=4)), device, compiled)


NETWORKS = {
    "MLP 784-1024-1024-10, batch 256": mlp,
    "ResNet-18, 8x3x64x64": resnet18,
    "GPT-2 of 4 layers, 2x128": gpt2,
}
