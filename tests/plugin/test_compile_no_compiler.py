# SPDX-License-Identifier: BSD-3-Clause
"""torch.compile needs no C++ compiler, even where a graph with the card computes on the CPU."""

import copy

import pytest
import torch
from compiled import DEV, fresh  # noqa: F401
from torch import nn
from torch._inductor import config

pytestmark = pytest.mark.usefixtures("fresh")


@pytest.fixture(autouse=True)
def no_compiler():
    with config.patch({"cpp.cxx": (None, "/none")}):
        yield


def trained(model, optimizer, compiled):
    """Returns the weights and the optimizer's state."""
    update = torch.compile(optimizer.step) if compiled else optimizer.step
    generator = torch.Generator().manual_seed(1)
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(4, 6, generator=generator).to(DEV)).square().mean().backward()
        update()
    states = [optimizer.state[p] for p in model.parameters()]
    tensors = [v for state in states for v in state.values() if isinstance(v, torch.Tensor)]
    return [t.detach().cpu() for t in (*model.parameters(), *tensors)]


@pytest.mark.filterwarnings("ignore:Profiler record function")
@pytest.mark.parametrize("foreach", [None, False])
@pytest.mark.parametrize(
    "name",
    ["Adadelta", "Adagrad", "Adam", "Adamax", "AdamW", "ASGD", "NAdam", "RAdam", "RMSprop",
     "Rprop", "SGD"],
)
def test_optimizers(name, foreach):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 1)).to(DEV)
    twin = copy.deepcopy(model)
    make = getattr(torch.optim, name)
    results = [
        trained(m, make(m.parameters(), lr=torch.tensor(0.01) if foreach is None else 0.01,
                        foreach=foreach), compiled)
        for m, compiled in ((model, False), (twin, True))
    ]
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)


def vector(x, n):
    return x * (n * 2).sum(), n.flip(0) + 1


def number(x, n):
    n.add_(1)
    return x * (n.double().sqrt() / 3).float(), n.exp()


def copied(x, n):
    return x + (n + 1).to(x.device), (x * 2).cpu() + n


def views(x, n):
    m = (n * 3).reshape(-1, 1).expand(-1, 2)
    return x + m.to(x.device).sum(), m.t().contiguous()


def gathered(x, n):
    return x[(n.long() + 1) % 2], n


@pytest.mark.parametrize(
    "function, n",
    [
        (vector, torch.arange(4.0)),
        (number, torch.tensor(2.0)),
        (copied, torch.arange(3.0)),
        (views, torch.arange(4.0)),
        (gathered, torch.tensor([0, 1, 1])),
    ],
)
def test_graphs_of_both_devices(function, n):
    x = torch.randn(2, 3).to(DEV)
    expected = function(x, n.clone())
    mine = n.clone()
    found = torch.compile(function)(x, mine)
    for a, b in zip(found, expected):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)
    theirs = n.clone()
    function(x, theirs)
    assert torch.equal(mine, theirs)
