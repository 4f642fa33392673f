# SPDX-License-Identifier: BSD-3-Clause
"""torch.compile: forward and backward of models, and optimizers."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

DEV = "openreg"


@pytest.fixture(autouse=True)
def fresh():
    torch.compiler.reset()
    torch.manual_seed(0)
    yield
    torch.compiler.reset()


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.qkv = nn.Linear(16, 48)
        self.out = nn.Linear(16, 16)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).view(2, 5, 3, 2, 8).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-1, -2) / 8**0.5).softmax(-1)
        return x + self.out((weights @ v).transpose(1, 2).reshape(2, 5, 16))


MODELS = {
    "mlp": (
        lambda: nn.Sequential(
            nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 10)
        ),
        (4, 16),
    ),
    "convolutions": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(8 * 16, 10),
        ),
        (4, 3, 8, 8),
    ),
    "attention": (Attention, (2, 5, 16)),
    "embedding": (
        lambda: nn.Sequential(nn.Embedding(10, 8), nn.Tanh(), nn.Linear(8, 4)),
        None,
    ),
}


def step(model, x):
    result = model(x)
    loss = F.mse_loss(result, torch.ones_like(result)) + result.abs().mean()
    loss.backward()
    return loss.detach().cpu()


@pytest.mark.native
@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_the_cpu(name):
    make, shape = MODELS[name]
    model = make()
    x = torch.randint(0, 10, (3, 5)) if shape is None else torch.randn(shape)
    on_card = copy.deepcopy(model).to(DEV)
    compiled = torch.compile(on_card)
    expected = step(model, x)
    torch.testing.assert_close(step(compiled, x.to(DEV)), expected, rtol=1e-4, atol=1e-5)
    for (what, ours), theirs in zip(on_card.named_parameters(), model.parameters()):
        torch.testing.assert_close(
            ours.grad.cpu(), theirs.grad, rtol=1e-3, atol=1e-5, msg=lambda m: f"{what}: {m}"
        )


@pytest.mark.native
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_compiled_optimizers(optimizer):
    model = nn.Linear(8, 8)
    on_card = copy.deepcopy(model).to(DEV)
    ours = optimizer(on_card.parameters(), lr=torch.tensor(0.1))
    theirs = optimizer(model.parameters(), lr=0.1)
    compiled = torch.compile(ours.step)
    for i in range(3):
        x = torch.randn(4, 8)
        for m, o, run, at in (
            (model, theirs, theirs.step, x),
            (on_card, ours, compiled, x.to(DEV)),
        ):
            o.zero_grad()
            m(at).square().sum().backward()
            run()
    for a, b in zip(on_card.parameters(), model.parameters()):
        torch.testing.assert_close(a.detach().cpu(), b.detach(), rtol=1e-4, atol=1e-5)
