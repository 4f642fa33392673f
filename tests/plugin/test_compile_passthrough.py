# SPDX-License-Identifier: BSD-3-Clause
"""backend="openreg", which runs the captured graph and checks each operator's result."""

import models
import pytest
import torch
from compiled import DEV, assert_like_eager, assert_model_like_eager, fresh, randn  # noqa: F401
from torch_openreg.compile import passthrough

pytestmark = [pytest.mark.native, pytest.mark.usefixtures("fresh")]


def test_the_name_is_registered():
    assert "openreg" in torch._dynamo.list_backends()


@pytest.mark.parametrize("name", ["lstm", "gpt2", "unet"])
def test_models(name):
    case = models.CASES[name]()
    torch.manual_seed(0)
    assert_model_like_eager(case.make(), case.inputs, case.loss_of, backend="openreg")


@pytest.mark.parametrize("dynamic", [True, False])
def test_functions(dynamic):
    def function(x, y):
        return x.mul_(2).t() @ y.cumsum(0), y.sort(1)

    args = randn(4, 5), randn(4, 3)
    assert_like_eager(function, args, grad=False, backend="openreg", dynamic=dynamic)


LIBRARY = torch.library.Library("openreg_passthrough_test", "DEF")
LIBRARY.define("wrong(Tensor x, str what) -> Tensor")
WRONG = {
    "dtype": lambda x: x.double(),
    "device": lambda x: x.cpu(),
    "size": lambda x: x[:1].clone(),
    "stride": lambda x: x.t().contiguous().t(),
}
LIBRARY.impl("wrong", lambda x, what: WRONG[what](x), "PrivateUse1")
LIBRARY.impl("wrong", lambda x, what: torch.empty_like(x), "Meta")


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_result_is_found(what):
    compiled = torch.compile(
        lambda x: torch.ops.openreg_passthrough_test.wrong(x + 1, what), backend="openreg"
    )
    with pytest.raises(RuntimeError, match=f"wrong.default returns a tensor of {what} .* promises"):
        compiled(randn(4, 5).to(DEV))


def test_a_bad_graph_is_refused():
    graph = torch.fx.symbolic_trace(lambda x: x + 1)
    first, second, _ = graph.graph.nodes
    first.append(second)
    second.append(first)
    with pytest.raises(RuntimeError, match="used before it has been defined"):
        passthrough.openreg(graph, [randn(4).to(DEV)])


def test_options_are_refused():
    with pytest.raises(Exception, match="has no options"):
        torch.compile(lambda x: x + 1, backend="openreg", options={"colour": 1})(randn(4).to(DEV))
