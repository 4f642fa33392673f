# SPDX-License-Identifier: BSD-3-Clause
"""A torch::autograd::Function in C++ that does not mention the card.

torch compiles it as an extension, which takes minutes on an emulated processor.
"""

import pytest
import torch
from torch.autograd import grad, gradcheck, gradgradcheck
from torch.utils import cpp_extension

from ops import no_fallback, values

pytestmark = pytest.mark.native

SOURCE = """
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// factor * x * tanh(x), and what it was called with.
struct Gate : Function<Gate> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, double factor) {
    Tensor t = at::tanh(x);
    ctx->save_for_backward({x});
    ctx->saved_data["factor"] = factor;
    return x * t * factor;
  }

  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    Tensor x = ctx->get_saved_variables()[0], t = at::tanh(x);
    TORCH_CHECK(gradients[0].device() == x.device());
    double factor = ctx->saved_data["factor"].toDouble();
    return {gradients[0] * (t + x * (1 - t * t)) * factor, Tensor()};
  }
};

Tensor gate(const Tensor& x, double factor) {
  return Gate::apply(x, factor);
}

// Doubles its argument in place, and says so.
struct Twice : Function<Twice> {
  static Tensor forward(AutogradContext* ctx, Tensor x) {
    ctx->mark_dirty({x});
    return x.mul_(2);
  }

  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    return {gradients[0] * 2};
  }
};

Tensor twice(Tensor x) {
  return Twice::apply(x);
}

TORCH_LIBRARY(openreg_test, m) {
  m.def("gate(Tensor x, float factor) -> Tensor", gate);
  m.def("twice(Tensor(a!) x) -> Tensor(a!)", twice);
}
"""


@pytest.fixture(scope="module")
def extension(tmp_path_factory):
    cpp_extension.load_inline(
        "openreg_test", SOURCE, is_python_module=False, no_implicit_headers=True,
        extra_cflags=["-O0"], build_directory=str(tmp_path_factory.mktemp("extension")),
    )
    return torch.ops.openreg_test


def gradients(function, x: torch.Tensor) -> list[torch.Tensor]:
    """The value, the gradient, and the gradient of the gradient's square."""
    x = x.requires_grad_()
    y = function(x, 0.5)
    (first,) = grad(y.sum(), x, create_graph=True)
    (second,) = grad(first.square().sum(), x)
    return [t.detach().cpu() for t in (y, first, second)]


@pytest.mark.parametrize("index", [0, 1])
def test_gradients(extension, index):
    want = gradients(lambda x, factor: x * x.tanh() * factor, values(4, 5))
    with no_fallback():
        got = gradients(extension.gate, values(4, 5).to(f"openreg:{index}"))
    torch.testing.assert_close(got, want)


def test_numeric_gradients(extension):
    x = values(3, 4, dtype=torch.float64).to("openreg").requires_grad_()
    with no_fallback():
        assert gradcheck(lambda x: extension.gate(x, 2.0), x)
        assert gradgradcheck(lambda x: extension.gate(x, 2.0), x)


def test_in_place(extension):
    x = values(6).to("openreg").requires_grad_()
    with no_fallback():
        y = x.clone()
        z = extension.twice(y)
        assert "Twice" in z.grad_fn.name()
        z.square().sum().backward()
    torch.testing.assert_close(z.detach().cpu(), values(6) * 2)
    torch.testing.assert_close(x.grad.cpu(), values(6) * 8)


def test_trains_a_network(extension):
    """The function trains between core's operators, with core's optimizer."""
    weight = values(5, 5, seed=1).to("openreg").requires_grad_()
    optimizer = torch.optim.SGD([weight], lr=0.01)
    losses = []
    with no_fallback():
        for _ in range(5):
            optimizer.zero_grad()
            loss = extension.gate(values(4, 5).to("openreg") @ weight, 0.1).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0]
