# SPDX-License-Identifier: BSD-3-Clause
"""torch.compile needs no C++ compiler, even where a graph with the card computes on the CPU."""

import copy

import pytest
import torch
from compiled import DEV, fresh  # noqa: F401
from torch import nn
from torch._inductor import config
from torch._inductor.utils import run_and_get_code

pytestmark = [pytest.mark.native, pytest.mark.usefixtures("fresh")]


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


def slow_function(x, n):
    return x * n.exp() + n.tanh(), x + n.sigmoid().log1p()


def long_chain(x, n):
    for _ in range(40):
        n = n * 1.01 + 0.1
    return x * n, x + n


def many_numbers(x, n):
    a, b = n + 1, n * 2
    return x * (a + b + a * b + n + a / b), x + (a - b)


def stored(x, n):
    y, z = x.clone(), x.clone()
    y[0] = n * 3
    z.copy_(n * 2)
    return y, z + x.clone().fill_(n * 2)


def written(x, n):
    n[1:3] += 1
    n[0] = 7
    m = n.clone()
    m[n.long() % 2] = 5.0
    return x * 2, m


def halves(x, n):
    torch._foreach_add_([n[:2], n[2:]], 1)
    return x + 1, n


def foreach_norm(x, n):
    return x * torch._foreach_norm([n * 2])[0], n


def both_devices(x, n):
    a, b = torch._foreach_add([x, n], 1)
    return a, b


def constant(x, n):
    return torch.where(x > 0, x, torch.tensor(0.25)) * 2, x * (n * 2) + 1


def listed(x, n):
    return x[:, [0, 2]] + n, x * torch.tensor([2.0, 3.0, 4.0]).to(x.device)


def listed_on_cpu(x, n):
    m = torch.tensor([1, 2]) + n
    m[torch.tensor([1])] = 9
    return x * 2, m, torch.tensor([3, 4])


def branches_on_cpu(x, n):
    y = torch.cond(n.sum() > 3, lambda n: n * 2 + torch.tensor([5, 6]), lambda n: n - 1, (n,))
    return x + y.sum(), y


def branches_of_both(x, n):
    def first(x, n):
        return x * 2, n.exp() + 1

    def second(x, n):
        return x - torch.tensor([1.0, 2.0, 3.0]).to(x.device), n * 3

    return torch.cond(n.sum() > 3, first, second, (x, n))


SIX = torch.arange(1.0, 7.0)


@pytest.mark.parametrize(
    "function, n",
    [
        (vector, torch.arange(4.0)),
        (number, torch.tensor(2.0)),
        (copied, torch.arange(3.0)),
        (views, torch.arange(4.0)),
        (gathered, torch.tensor([0, 1, 1])),
        (slow_function, torch.tensor(0.5)),
        (long_chain, torch.tensor(0.5)),
        (many_numbers, torch.tensor(0.5)),
        (stored, torch.tensor(2.0)),
        (written, SIX),
        (halves, SIX),
        (foreach_norm, torch.tensor(2.0)),
        (both_devices, SIX),
        (constant, torch.tensor(2.0)),
        (listed, torch.tensor(2.0)),
        (listed_on_cpu, torch.tensor([1, 2])),
        (branches_on_cpu, torch.tensor([1, 1])),
        (branches_on_cpu, torch.tensor([2, 2])),
        (branches_of_both, torch.tensor([1.0, 1.0])),
        (branches_of_both, torch.tensor([2.0, 2.0])),
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


def test_numbers_of_a_loop_are_in_its_program():
    x, n = torch.randn(2, 3).to(DEV), torch.tensor(2.0)
    found, (code,) = run_and_get_code(torch.compile(constant), x, n)
    torch.testing.assert_close(found, constant(x, n))
    lines = [line for line in code.splitlines() if not line.strip().startswith("#")]
    assert not [line for line in lines if "ops.aten." in line], code
