# SPDX-License-Identifier: BSD-3-Clause
"""torch.openreg.fall_back(): operators of packages that support only the CPU and CUDA."""

import pytest
import torch

DEV = "openreg"


def of_the_cpu(*tensors):
    for t in tensors:
        if t.device.type != "cpu":
            raise RuntimeError("must be CPU tensor")


def cube(x):
    of_the_cpu(x)
    return x * x * x


def scale_(x, factor):
    of_the_cpu(x)
    return x.mul_(factor)


def add_out(x, y, *, out):
    of_the_cpu(x, y, out)
    out.resize_(x.shape)
    return out.copy_(x + y)


def total(xs, more):
    of_the_cpu(*xs, *[t for t in more if t is not None])
    return sum([*xs, *[t for t in more if t is not None]]), [x + 1 for x in xs], len(xs)


@pytest.fixture(scope="module")
def package():
    library = torch.library.Library("openreg_test_cpu_only", "DEF")
    kernels = {
        "cube(Tensor x) -> Tensor": cube,
        "scale_(Tensor(a!) x, float factor) -> Tensor(a!)": scale_,
        "add.out(Tensor x, Tensor y, *, Tensor(a!) out) -> Tensor(a!)": add_out,
        "total(Tensor[] xs, Tensor?[] more) -> (Tensor, Tensor[], int)": total,
    }
    for schema, kernel in kernels.items():
        library.define(schema)
        library.impl(schema.partition("(")[0], kernel, "CompositeImplicitAutograd")
    library.define("by_key(Tensor x) -> Tensor")
    library.impl("by_key", cube, "CPU")
    library.define("native(Tensor x) -> Tensor")
    library.impl("native", lambda x: x + 1, "PrivateUse1")
    with pytest.raises(RuntimeError, match="must be CPU tensor"):
        torch.ops.openreg_test_cpu_only.cube(torch.ones(1, device=DEV))
    changed = torch.openreg.fall_back("openreg_test_cpu_only")
    assert sorted(name.partition("::")[2] for name in changed) == [
        "add.out",
        "by_key",
        "cube",
        "scale_",
        "total",
    ]
    yield torch.ops.openreg_test_cpu_only
    library._destroy()


@pytest.fixture(autouse=True)
def fresh():
    torch.openreg.reset_fallbacks()


def test_value_count_and_device(package):
    y = package.cube(torch.tensor([1.0, 2.0], device=f"{DEV}:1"))
    assert y.tolist() == [1, 8] and y.device == torch.device(DEV, 1)
    assert torch.openreg.fallbacks() == {"openreg_test_cpu_only::cube": 1}
    assert package.cube(torch.tensor([3.0])).tolist() == [27]
    assert sum(torch.openreg.fallbacks().values()) == 1


def test_gradients(package):
    x = torch.tensor([1.0, 2.0], device=DEV, requires_grad=True)
    (grad,) = torch.autograd.grad(package.cube(x).sum(), x, create_graph=True)
    assert grad.tolist() == [3, 12] and grad.device == x.device
    (second,) = torch.autograd.grad(grad.sum(), x)
    assert second.tolist() == [6, 12]


def test_inference_mode_and_no_grad(package):
    for mode in (torch.inference_mode, torch.no_grad):
        with mode():
            assert package.cube(torch.tensor([2.0], device=DEV)).tolist() == [8]


def test_in_place_and_out(package):
    x = torch.tensor([1.0, 2.0], device=DEV)
    view = x[1:]
    assert package.scale_(view, 3.0) is view and x.tolist() == [1, 6]
    out = torch.empty(0, device=DEV)
    assert package.add.out(x, x, out=out) is out and out.tolist() == [2, 12]
    leaf = torch.ones(2, device=DEV, requires_grad=True)
    y = package.scale_(leaf * 2, 5.0)
    y.sum().backward()
    assert y.tolist() == [10, 10] and leaf.grad.tolist() == [10, 10]


def test_lists(package):
    x = torch.tensor([1.0, 2.0], device=DEV, requires_grad=True)
    result, each, count = package.total([x, x], [None, x])
    assert result.tolist() == [3, 6] and count == 2
    assert [t.tolist() for t in each] == [[2, 3], [2, 3]]
    assert all(t.device == x.device for t in each)
    (result.sum() + each[1].sum()).backward()
    assert x.grad.tolist() == [4, 4]


def test_kernels_of_the_cpus_key_and_native_ones(package):
    x = torch.tensor([2.0], device=DEV)
    assert package.by_key(x).tolist() == [8]
    assert package.native(x).tolist() == [3]
    assert torch.openreg.fallbacks() == {"openreg_test_cpu_only::by_key": 1}


def test_two_devices_are_refused(package):
    with pytest.raises(RuntimeError, match="same device"):
        package.total([torch.ones(2, device=DEV), torch.ones(2)], [])


def test_a_second_call_changes_nothing(package):
    assert torch.openreg.fall_back("openreg_test_cpu_only") == []


def test_error_mode(package):
    before = torch.openreg.set_fallback("error")
    try:
        with pytest.raises(NotImplementedError, match="has no kernel for openreg"):
            package.cube(torch.ones(1, device=DEV))
    finally:
        torch.openreg.set_fallback(before)


@pytest.mark.parametrize("name", ["torch_cluster_that_is_not_there", "", "Torchvision"])
def test_a_namespace_that_does_not_exist(name):
    with pytest.raises(ValueError, match=r"Import the package first.*Known namespaces: .*quantized"):
        torch.openreg.fall_back(name)


@pytest.mark.parametrize("name", ["aten", "prim", "prims", "c10d"])
def test_namespaces_of_core_are_refused(name):
    with pytest.raises(ValueError, match="without fall_back"):
        torch.openreg.fall_back(name)


@pytest.mark.native
def test_torchvision(run_python):
    code = """
import torch, torchvision
torch.openreg.fall_back("torchvision")
torch.manual_seed(1)
boxes = torch.rand(20, 4) * 10
boxes[:, 2:] += boxes[:, :2]
scores = torch.rand(20)
keep = torchvision.ops.nms(boxes.to("openreg"), scores.to("openreg"), 0.5)
assert keep.is_openreg and torch.equal(keep.cpu(), torchvision.ops.nms(boxes, scores, 0.5))
rois = torch.tensor([[0, 1.0, 1, 6, 6], [0, 0, 2, 7, 5]])
def grad(device):
    x = torch.arange(128.0).view(1, 2, 8, 8).to(device).requires_grad_()
    y = torchvision.ops.roi_align(x, rois.to(device), (3, 3))
    y.square().sum().backward()
    return y.detach().cpu(), x.grad.cpu()
for ours, right in zip(grad("openreg"), grad("cpu")):
    torch.testing.assert_close(ours, right)
"""
    run_python(code)
