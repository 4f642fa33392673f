# SPDX-License-Identifier: MIT
"""Whole models of torchvision and transformers, with random weights. Each case creates a
model on a device, and returns one training step or one inference."""

import torch
import torch.nn.functional as F
from torch import nn

from sweep_report import BF16

CASES: dict = {}


def case(name, bf16=False):
    """Registers a case. bf16 adds a second entry, which runs the step under autocast."""

    def add(make):
        CASES[name] = lambda device: make(device, False)
        if bf16:
            CASES[name + BF16] = lambda device: make(device, True)
        return make

    return add


def trained(device, model, loss, autocast):
    """Returns a step of SGD on loss(model)."""
    model = model.to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.bfloat16, enabled=autocast):
            value = loss(model)
        value.backward()
        optimizer.step()

    return step


def images(name, size, batch=4, bf16=False, **options):
    @case(f"{name} {batch}x3x{size}x{size}", bf16)
    def _(device, autocast):
        import torchvision

        torch.manual_seed(0)
        model = getattr(torchvision.models, name)(num_classes=10, **options)
        x = torch.rand(batch, 3, size, size).to(device)
        labels = torch.randint(10, (batch,)).to(device)
        return trained(device, model, lambda m: F.cross_entropy(m(x), labels), autocast)


images("resnet18", 64, 8)
images("resnet50", 96, bf16=True)
images("convnext_tiny", 96, bf16=True)
images("efficientnet_b0", 96)
images("mobilenet_v2", 96)
images("mobilenet_v3_small", 96)
images("vit_b_16", 64, image_size=64)


@case("GPT-2 of 4 layers 2x128", bf16=True)
def _(device, autocast):
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(n_layer=4))
    tokens = torch.randint(50257, (2, 128)).to(device)
    return trained(
        device, model, lambda m: m(input_ids=tokens, labels=tokens).loss, autocast
    )


@case("BERT of 4 layers 4x128")
def _(device, autocast):
    from transformers import BertConfig, BertForMaskedLM

    torch.manual_seed(0)
    model = BertForMaskedLM(BertConfig(num_hidden_layers=4))
    tokens = torch.randint(30000, (4, 128)).to(device)
    return trained(
        device, model, lambda m: m(input_ids=tokens, labels=tokens).loss, autocast
    )


@case("EnCodec 24 kHz, 1 s, encode and decode")
def _(device, autocast):
    from transformers import EncodecConfig, EncodecModel

    torch.manual_seed(0)
    model = EncodecModel(EncodecConfig()).to(device).eval()
    sound = torch.rand(1, 1, 24000).to(device)

    def run():
        with torch.no_grad():
            return model(sound).audio_values

    return run


class Tagger(nn.Module):
    """An LSTM that tags each word of a sequence."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(1000, 64)
        self.lstm = nn.LSTM(64, 128, num_layers=2, batch_first=True)
        self.tags = nn.Linear(128, 20)

    def forward(self, words):
        return self.tags(self.lstm(self.words(words))[0])


@case("LSTM(128) of 2 layers, 16x100")
def _(device, autocast):
    torch.manual_seed(0)
    words = torch.randint(1000, (16, 100)).to(device)
    tags = torch.randint(20, (1600,)).to(device)
    return trained(
        device, Tagger(), lambda m: F.cross_entropy(m(words).flatten(0, 1), tags), autocast
    )


@case("MLP 784-1024-1024-10, batch 256")
def _(device, autocast):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
    )
    x = torch.rand(256, 784).to(device)
    labels = torch.randint(10, (256,)).to(device)
    return trained(device, model, lambda m: F.cross_entropy(m(x), labels), autocast)
