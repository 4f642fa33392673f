# SPDX-License-Identifier: BSD-3-Clause
"""torch.compile: aot_eager works. Inductor raises an error that suggests aot_eager."""

import pytest
import torch

DEV = "openreg"
SUGGESTION = r"generates no code for openreg yet\. Use torch\.compile\(\.\.\., backend='aot_eager'\)"

FUNCTIONS = {
    "pointwise": lambda x: (x + 1).relu(),
    "reduction": lambda x: x.softmax(-1).sum(),
    "matmul": lambda x: x @ x,
    "copy_to_the_cpu": lambda x: x.cpu() * 2,
    "copy_from_the_cpu": lambda x: x.cpu().sin().to(DEV) + x,
}


@pytest.fixture(autouse=True)
def fresh():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.mark.native
@pytest.mark.parametrize("name", FUNCTIONS)
def test_inductor_suggests_aot_eager(name):
    x = torch.randn(4, 4)
    f = FUNCTIONS[name]
    with pytest.raises(Exception, match=SUGGESTION):
        torch.compile(f)(x.to(DEV))
    compiled = torch.compile(f, backend="aot_eager")
    assert torch.allclose(compiled(x.to(DEV)).cpu(), f(x.to(DEV)).cpu())


@pytest.mark.native
def test_inductor_suggests_aot_eager_in_training():
    x = torch.randn(4, 4, device=DEV, requires_grad=True)
    with pytest.raises(Exception, match=SUGGESTION):
        torch.compile(lambda x: (x * x).sum())(x)


@pytest.mark.native
def test_inductor_still_compiles_for_the_cpu():
    x = torch.randn(8, 8)
    f = FUNCTIONS["reduction"]
    with pytest.raises(Exception, match=SUGGESTION):
        torch.compile(f)(x.to(DEV))
    torch.compiler.reset()
    assert torch.allclose(torch.compile(f)(x), f(x))


@pytest.mark.native
def test_import_loads_no_compiler(run_python):
    code = (
        "import sys, torch\n"
        "torch.ones(2, device='openreg').sum().item()\n"
        "print([n for n in ('torch._dynamo', 'torch._inductor') if n in sys.modules])\n"
    )
    assert run_python(code) == "[]\n"
