# SPDX-License-Identifier: BSD-3-Clause
"""torch.compile: its options, graph breaks, and what cannot be compiled."""

import pytest
import torch
import torch.nn.functional as F
from compiled import DEV, assert_like_eager, fresh, ints, randn  # noqa: F401
from torch import nn
from torch._dynamo.utils import counters

pytestmark = [pytest.mark.native, pytest.mark.usefixtures("fresh")]


def block(x, w):
    return F.layer_norm(x @ w, (w.shape[1],)).relu().sum(0)


@pytest.mark.parametrize(
    "options",
    [
        {"fullgraph": True},
        {"dynamic": True},
        {"dynamic": False},
        {"mode": "max-autotune"},
        {"mode": "max-autotune-no-cudagraphs"},
        {"mode": "reduce-overhead"},
        {"options": {"epilogue_fusion": True, "max_autotune": True}},
        {"options": {"triton.cudagraphs": True}},
        {"options": {"fallback_random": True}},
        {"options": {"shape_padding": True, "memory_planning": True}},
        {"backend": "inductor"},
        {"backend": "aot_eager"},
        {"backend": "eager"},
    ],
    ids=str,
)
def test_options(options):
    assert_like_eager(block, (randn(4, 5), randn(5, 6)), **options)


def test_three_shapes_with_one_graph():
    counters.clear()

    def function(x, y):
        return (x @ y + x.sum(1, keepdim=True)).softmax(1)[:, : x.shape[0] // 2] * x.shape[1]

    compiled = torch.compile(function, dynamic=True, fullgraph=True)
    for n, m in ((4, 6), (8, 6), (13, 33)):
        x, y = randn(n, m).to(DEV), randn(m, n).to(DEV)
        torch.testing.assert_close(compiled(x, y), function(x, y))
    assert counters["stats"]["unique_graphs"] == 1


@pytest.mark.parametrize(
    "number",
    [lambda n: round(n / 2 * 123.4567, 1), lambda n: n / 4, lambda n: n**0.5 - 0.3, lambda n: -n],
)
def test_numbers_from_sizes(number):
    """Numbers that the call computes, with fractions."""

    def function(x):
        return x + number(x.shape[0]), (x * 2).long() * number(x.shape[0])

    compiled = torch.compile(function, dynamic=True, fullgraph=True)
    for n in (3, 5, 7):
        x = randn(n).to(DEV)
        torch.testing.assert_close(compiled(x), function(x))


def test_gradients_for_three_shapes():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3)).to(DEV)
    compiled = torch.compile(model, dynamic=True)
    for rows in (3, 7, 20):
        x = randn(rows, 5).to(DEV)
        found = torch.autograd.grad(compiled(x).square().sum(), list(model.parameters()))
        expected = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_of_a_model(dtype):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4)
    )
    model = model.to(DEV).eval()
    x = randn(2, 3, 8, 8).to(DEV)
    with torch.autocast(DEV, dtype=dtype):
        expected, found = model(x), torch.compile(model)(x)
    assert found.dtype is expected.dtype is dtype
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)


def test_graph_breaks():
    def function(x):
        y = x.sin() * 2
        if y.sum() > 0:  # needs the number
            y = y + 1
        torch._dynamo.graph_break()
        return y.tolist(), (y * 3).exp()

    for x in (randn(5).to(DEV).abs(), -randn(5).to(DEV).abs()):
        found, expected = torch.compile(function)(x), function(x)
        assert found[0] == pytest.approx(expected[0])
        torch.testing.assert_close(found[1], expected[1])


def test_explain():
    def function(x):
        y = x.sin() * 2
        print(end="")
        return y.cos()

    report = torch._dynamo.explain(function)(randn(5).to(DEV))
    assert report.graph_count == 2 and report.graph_break_count == 1


def test_the_second_card_trains():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.3), nn.Tanh(), nn.Linear(8, 3))
    model = model.to("openreg:1")
    x = randn(4, 5).to("openreg:1")
    grads = []
    for run in (model, torch.compile(model)):
        model.zero_grad()
        torch.manual_seed(3)
        run(x).square().sum().backward()
        grads.append([p.grad for p in model.parameters()])
        assert all(g.device.index == 1 for g in grads[-1])
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-4, atol=1e-5)


def test_each_card_in_turn():
    compiled = torch.compile(block)
    for index in (0, 1, 0):
        x, w = randn(4, 5).to(f"openreg:{index}"), randn(5, 6).to(f"openreg:{index}")
        torch.testing.assert_close(compiled(x, w), block(x, w))


def test_another_stream():
    compiled = torch.compile(block)
    x, w = randn(4, 5).to(DEV), randn(5, 6).to(DEV)
    compiled(x, w)
    stream = torch.openreg.Stream()
    stream.wait_stream(torch.openreg.current_stream())
    with torch.openreg.stream(stream):
        x = torch.ones(4, 5, device=DEV)
        found = compiled(x, w)
    stream.synchronize()
    torch.testing.assert_close(found, block(torch.ones(4, 5, device=DEV), w))


def test_a_dtype_that_the_card_lacks():
    x = ints(99, 6).to(torch.uint16).to(DEV)
    compiled = torch.compile(lambda x: x.to(torch.int32) + 1)
    torch.testing.assert_close(compiled(x), x.to(torch.int32) + 1)
    assert torch.openreg.compile_fallbacks() or torch.openreg.fallbacks()


def test_a_missing_operator_falls_back_counted():
    x = randn(4, 4).to(DEV)
    compiled = torch.compile(lambda x: torch.linalg.qr(x * 2)[1].abs() + 1)
    torch.testing.assert_close(compiled(x), torch.linalg.qr(x * 2)[1].abs() + 1)
    assert torch.openreg.fallbacks()


def test_custom_operators():
    @torch.library.custom_op("openreg_compile_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)
    compiled = torch.compile(lambda x: twice(x + 1).sin(), fullgraph=True)
    x = randn(5).to(DEV)
    torch.testing.assert_close(compiled(x), ((x + 1) * 2).sin())


def test_functions_of_higher_order():
    def branch(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin() * 2, lambda x: x.cos() - 1, (x,))

    for x in (randn(5).to(DEV).abs(), -randn(5).to(DEV).abs()):
        torch.testing.assert_close(torch.compile(branch)(x), branch(x))
    square = torch.func.vmap(torch.func.grad(lambda x: (x * x).sum()))
    x = randn(4, 5).to(DEV)
    torch.testing.assert_close(torch.compile(square)(x), 2 * x)


def test_a_forked_child_raises(run_forked):
    output = run_forked(
        "import os, sys, torch\n"
        "x = torch.ones(4, device='openreg')\n"
        "compiled = torch.compile(lambda x: (x * 2 + 1).relu())\n"
        "compiled(x)\n"
        "sys.stdout.flush()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    for run in (compiled, torch.compile(lambda x: (x * 3).sin())):\n"
        "        try:\n"
        "            run(x)\n"
        "        except Exception as error:\n"
        "            print(str(error).splitlines()[-1], flush=True)\n"
        "    os._exit(0)\n"
        "os.waitpid(pid, 0)\n"
        "print(compiled(x).tolist())\n"
    )
    *child, parent = output.splitlines()
    assert len(child) == 2 and all("forked" in line for line in child), output
    assert parent == "[3.0, 3.0, 3.0, 3.0]"
