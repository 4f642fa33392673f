# SPDX-License-Identifier: BSD-3-Clause
"""torch.export, saved compiled functions, and what AOTInductor lacks."""

import ctypes

import pytest
import torch
from compiled import DEV, fresh, randn  # noqa: F401
from torch import nn
from torch.export.passes import move_to_device_pass

pytestmark = [pytest.mark.native, pytest.mark.usefixtures("fresh")]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 4)
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("scale", torch.linspace(1, 2, 4))

    def forward(self, x):
        return self.norm(self.linear(x)).relu() * self.scale


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model().eval()


def export(model, x, **options):
    return torch.export.export(model, (x,), **options)


def test_export_runs_on_the_card(model):
    x = randn(3, 8)
    expected = model(x)
    program = export(model.to(DEV), x.to(DEV))
    torch.openreg.reset_fallbacks()
    found = program.module()(x.to(DEV))
    assert found.device.type == DEV
    torch.testing.assert_close(found.cpu(), expected)
    assert torch.openreg.fallbacks() == {}


def test_save_and_load(model, tmp_path):
    x = randn(3, 8).to(DEV)
    expected = model.to(DEV)(x)
    torch.export.save(export(model, x), tmp_path / "model.pt2")
    program = torch.export.load(tmp_path / "model.pt2")
    assert {t.device.type for t in program.state_dict.values()} == {DEV}
    torch.testing.assert_close(program.module()(x), expected)
    torch.testing.assert_close(torch.compile(program.module())(x), expected)


def test_sizes_that_change(model):
    batch = {"x": {0: torch.export.Dim("batch", min=2)}}
    program = export(model.to(DEV), randn(3, 8).to(DEV), dynamic_shapes=batch)
    for rows in (2, 7):
        x = randn(rows, 8).to(DEV)
        torch.testing.assert_close(program.module()(x), model(x))


def test_a_program_of_the_cpu_moves_to_the_card(model):
    x = randn(3, 8)
    program = move_to_device_pass(export(model, x), DEV)
    found = program.module()(x.to(DEV))
    assert found.device.type == DEV
    torch.testing.assert_close(found.cpu(), model(x))


def test_gradients(model):
    x = randn(3, 8).to(DEV)
    program = export(model.to(DEV), x)
    loaded = program.module()
    loaded(x).sum().backward()
    model(x).sum().backward()
    torch.testing.assert_close(loaded.linear.weight.grad, model.linear.weight.grad)


def test_a_compiled_function_is_saved(run_python, tmp_path):
    path = tmp_path / "function"
    code = (
        "import torch\n"
        "x = torch.arange(6.0, device='openreg')\n"
        "f = torch.compile(lambda x: (x * 2 + 1).relu().sum(), fullgraph=True)\n"
        f"f.aot_compile(((x,), {{}})).save_compiled_function({str(path)!r})\n"
    )
    run_python(code)
    code = (
        "import torch\n"
        "x = torch.arange(6.0, device='openreg')\n"
        f"with open({str(path)!r}, 'rb') as file:\n"
        "    f = torch.compiler.load_compiled_function(file)\n"
        "print(f(x).item())\n"
    )
    assert run_python(code) == "36.0\n"


MISSING = "aoti_torch_openreg_mm_out"


@pytest.mark.parametrize("how", ["package", "cpp_wrapper"])
def test_aotinductor_names_what_is_missing(model, how):
    x = randn(3, 8).to(DEV)
    with pytest.raises(Exception, match=rf"AOTInductor.*{MISSING}.*torch\.export\.save"):
        if how == "package":
            torch._inductor.aoti_compile_and_package(export(model.to(DEV), x))
        else:
            torch.compile(model.to(DEV), options={"cpp_wrapper": True})(x)


def test_libtorch_lacks_what_aotinductor_calls():
    """If this fails, libtorch has the functions: AOTInductor may be possible now."""
    libtorch = ctypes.CDLL(torch._C.__file__)  # and the libraries that it needs
    assert hasattr(libtorch, "aoti_torch_cpu_mm_out")
    for device in ("openreg", "privateuse1"):
        assert not hasattr(libtorch, f"aoti_torch_{device}_mm_out")
