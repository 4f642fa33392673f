# SPDX-License-Identifier: BSD-3-Clause
"""torch.compile: a compiled step of an optimizer does what the eager step does."""

import copy

import pytest
import torch
from compiled import DEV, fresh, randn  # noqa: F401
from torch import nn, optim

pytestmark = [pytest.mark.native, pytest.mark.usefixtures("fresh")]

OPTIMIZERS = {
    "sgd": lambda p: optim.SGD(p, lr=0.1),
    "sgd_momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "sgd_nesterov": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: optim.Adam(p, lr=0.01),
    "adam_one_by_one": lambda p: optim.Adam(p, lr=0.01, foreach=False),
    "adam_amsgrad": lambda p: optim.Adam(p, lr=0.01, amsgrad=True),
    "adamw": lambda p: optim.AdamW(p, lr=0.01),
    "adamw_capturable": lambda p: optim.AdamW(p, lr=0.01, capturable=True),
    "adamw_rate_in_a_tensor": lambda p: optim.AdamW(p, lr=torch.tensor(0.01)),
    "adamax": lambda p: optim.Adamax(p, lr=0.01),
    "nadam": lambda p: optim.NAdam(p, lr=0.01),
    "radam": lambda p: optim.RAdam(p, lr=0.01),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "rprop": lambda p: optim.Rprop(p, lr=0.01),
    "adagrad": lambda p: optim.Adagrad(p, lr=0.1),
    "adadelta": lambda p: optim.Adadelta(p),
    "asgd": lambda p: optim.ASGD(p, lr=0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps(name):
    torch.manual_seed(0)
    theirs = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 3)).to(DEV)
    ours = copy.deepcopy(theirs)
    eager, compiled = OPTIMIZERS[name](theirs.parameters()), OPTIMIZERS[name](ours.parameters())
    step = torch.compile(compiled.step)
    for i in range(4):
        x = randn(5, 6, seed=i).to(DEV)
        for model, optimizer, run in ((theirs, eager, eager.step), (ours, compiled, step)):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            run()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert torch.openreg.compile_fallbacks() == {}


def test_a_whole_step_of_training():
    """Forward, backward and the optimizer, in one function and under one loop."""
    torch.manual_seed(0)
    theirs = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3)).to(DEV)
    ours = copy.deepcopy(theirs)

    def train(model, optimizer, x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    compiled = torch.compile(train)
    optimizers = [optim.AdamW(m.parameters(), lr=0.01) for m in (theirs, ours)]
    for i in range(4):
        x = randn(5, 6, seed=i).to(DEV)
        torch.testing.assert_close(
            compiled(ours, optimizers[1], x), train(theirs, optimizers[0], x)
        )
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_clipping_of_gradients():
    torch.manual_seed(0)
    models = [nn.Linear(6, 3).to(DEV)]
    models.append(copy.deepcopy(models[0]))
    clip = nn.utils.clip_grad_norm_
    for model, run in zip(models, (clip, torch.compile(clip))):
        (model(randn(5, 6).to(DEV)) * 9).square().sum().backward()
        run(list(model.parameters()), 1.0)
    for a, b in zip(models[1].parameters(), models[0].parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)
