# SPDX-License-Identifier: BSD-3-Clause
"""torch.compile(mode="reduce-overhead"): packets that are kept and run again."""

import gc

import pytest
import torch
import torch.nn.functional as F
from compiled import DEV, fresh, randn  # noqa: F401
from torch import nn

pytestmark = [pytest.mark.native, pytest.mark.usefixtures("fresh")]

MODE = "reduce-overhead"
PLAN = "openreg::compiled_plan"


def replays(work) -> int:
    """How many graphs work() replays."""
    before = torch.openreg.op_counts().get(PLAN, 0)
    work()
    return torch.openreg.op_counts().get(PLAN, 0) - before


def warm(compiled, *args) -> None:
    for _ in range(3):
        compiled(*args)


def test_results_live_and_inputs_move():
    function = lambda x, y: ((x @ y.t()).softmax(-1) @ y, x + y)  # noqa: E731
    compiled = torch.compile(function, mode=MODE)
    pairs = [(randn(8, 9, seed=i).to(DEV), randn(8, 9, seed=-i).to(DEV)) for i in range(1, 9)]
    warm(compiled, *pairs[0])
    found = []
    assert replays(lambda: found.extend(compiled(*pair) for pair in pairs)) == len(pairs)
    for results, pair in zip(found, pairs):
        for a, b in zip(results, function(*pair), strict=True):
            torch.testing.assert_close(a, b)


def test_an_input_that_is_changed():
    def step(x, y):
        x.add_(y)
        return x @ y @ x * 2

    compiled = torch.compile(step, mode=MODE)
    x, y = randn(9, 9).to(DEV), randn(9, 9, seed=1).to(DEV)
    expected = x.clone()
    for i in range(6):
        found = []
        assert replays(lambda: found.append(compiled(x, y))) == (i >= 1)
        expected += y
        torch.testing.assert_close(found[0], expected @ y @ expected * 2, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(x, expected)


def test_results_that_are_inputs_and_views_of_them():
    compiled = torch.compile(lambda x: (x, x[1:].t(), x @ x.t() @ x, (x * 2).view(-1)), mode=MODE)
    for i in range(5):
        x = randn(4, 5, seed=i).to(DEV)
        same, view, more, flat = compiled(x)
        assert same is x and view.data_ptr() == x[1:].data_ptr()
        torch.testing.assert_close(more, x @ x.t() @ x)
        torch.testing.assert_close(flat, (x * 2).view(-1))


def test_random_numbers_are_those_of_eager():
    def function(x):
        return F.dropout(x * 1, 0.5), torch.rand_like(x)

    compiled = torch.compile(function, mode=MODE)
    x = randn(64, 64).to(DEV)
    torch.manual_seed(5)
    expected = [function(x) for _ in range(6)]
    torch.manual_seed(5)
    found = [compiled(x) for _ in range(6)]
    for a, b in zip(found, expected):
        torch.testing.assert_close(a, b)
    torch.manual_seed(5)
    torch.testing.assert_close(compiled(x), expected[0])


def model():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.BatchNorm1d(32), nn.Linear(32, 4)
    ).to(DEV)


@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("accumulate", [1, 3])
def test_training(set_to_none, accumulate):
    """Weights change in place, gradients accumulate, and activations of several forward passes
    live at a time."""
    theirs, ours = model(), model()
    compiled = torch.compile(ours, mode=MODE)

    def train(m, run):
        optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
        for i in range(6):
            optimizer.zero_grad(set_to_none=set_to_none)
            losses = [
                run(randn(8, 16, seed=10 * i + j).to(DEV)).square().mean()
                for j in range(accumulate)
            ]
            for loss in losses:
                loss.backward()
            optimizer.step()

    train(theirs, theirs)
    assert replays(lambda: train(ours, compiled)) >= 6
    for a, b in zip(ours.state_dict().values(), theirs.state_dict().values()):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_weights_that_are_replaced():
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)).to(DEV)
    compiled = torch.compile(net, mode=MODE)
    x = randn(2, 4).to(DEV)
    with torch.no_grad():
        warm(compiled, x)
        assert replays(lambda: compiled(x)) == 1
        net[0].weight.data = randn(4, 4, seed=7).to(DEV)
        gc.collect()
        found = []
        assert replays(lambda: found.append(compiled(x))) == 1
        torch.testing.assert_close(found[0], net(x))


def test_sizes_and_streams():
    def function(x):
        return (x.t() @ x @ x.t() + 1).sum(0)

    compiled = torch.compile(function, mode=MODE, dynamic=True)
    for i in range(4):
        for n in (3, 5, 9):
            x = randn(n, 4).to(DEV)
            found = []
            assert replays(lambda: found.append(compiled(x))) == (i >= 1)
            torch.testing.assert_close(found[0], function(x))
    stream = torch.openreg.Stream()
    stream.wait_stream(torch.openreg.current_stream())
    with torch.openreg.stream(stream):
        assert replays(lambda: torch.testing.assert_close(compiled(x), function(x))) == 0


def test_what_cannot_be_kept_runs_as_before():
    def function(x, scale):
        return x[x > 0] * scale

    compiled = torch.compile(function, mode=MODE)
    for i in range(4):
        x = randn(9, seed=i).to(DEV)
        for scale in (torch.tensor(2.0 + i), 3.0):
            torch.testing.assert_close(compiled(x, scale), function(x, scale))


def test_the_second_card_keeps_its_own():
    compiled = torch.compile(lambda x: (x @ x @ x * 3).tanh(), mode=MODE)
    for _ in range(4):
        for card in (0, 1):
            x = randn(5, 5, seed=card).to(f"{DEV}:{card}")
            found = compiled(x)
            assert found.device == x.device
            torch.testing.assert_close(found, (x @ x @ x * 3).tanh())
