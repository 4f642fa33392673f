# SPDX-License-Identifier: BSD-3-Clause
"""Making, viewing and resizing tensors."""

import math

import pytest
import torch

DEV = "openreg"


def test_round_trip():
    x = torch.arange(12.0).reshape(3, 4)
    y = x.to(DEV)
    assert y.device == torch.device("openreg", 0)
    assert torch.equal(y.cpu(), x)


@pytest.mark.parametrize("size", [(), (0,), (3, 0, 2), (5,), (2, 3, 4)])
def test_empty(size):
    t = torch.empty(size, device=DEV)
    assert t.shape == size and t.is_contiguous()
    assert torch.equal(t.fill_(1).cpu(), torch.ones(size))


def test_empty_strided_and_channels_last():
    t = torch.empty_strided((3, 4), (1, 3), device=DEV)
    assert t.stride() == (1, 3)
    c = torch.empty(2, 3, 4, 5, device=DEV, memory_format=torch.channels_last)
    assert c.is_contiguous(memory_format=torch.channels_last)


def test_tensor_from_data():
    t = torch.tensor([[1, 2], [3, 4]], device=DEV)
    assert t.dtype == torch.int64 and t.cpu().tolist() == [[1, 2], [3, 4]]
    assert t.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    "value, dtype",
    [
        (True, torch.bool),
        (200, torch.uint8),
        (-7, torch.int8),
        (-300, torch.int16),
        (-70000, torch.int32),
        (2**40, torch.int64),
        (0.5, torch.float16),
        (0.5, torch.bfloat16),
        (1.25, torch.float32),
        (1e300, torch.float64),
        (1 + 2j, torch.complex64),
    ],
)
def test_item(value, dtype):
    assert torch.tensor([0, value], dtype=dtype).to(DEV)[1].item() == value


def test_views():
    x = torch.arange(24.0)
    y = x.to(DEV)
    for view in (
        lambda t: t.view(2, 3, 4),
        lambda t: t.view(2, 3, 4).transpose(0, 2),
        lambda t: t[5:20:3],
        lambda t: t.view(4, 6).t()[1:4],
        lambda t: t.unfold(0, 4, 2),
        lambda t: t.view(2, 12)[:, None].expand(2, 5, 12),
        lambda t: t.as_strided((3, 4), (2, 5), 1),
        lambda t: t.view(torch.int32),
        lambda t: t.view(4, 6).diagonal(),
        lambda t: t.view(2, 3, 4).permute(2, 0, 1).unsqueeze(1).squeeze(),
    ):
        a, b = view(x), view(y)
        assert b.stride() == a.stride() and b.storage_offset() == a.storage_offset()
        assert torch.equal(b.cpu(), a)
    assert torch.openreg.fallbacks() == {} or "aten::view" not in torch.openreg.fallbacks()


def test_reshape_of_strided_copies():
    x = torch.arange(24.0).view(4, 6)
    assert torch.equal(x.to(DEV).t().reshape(3, 8).cpu(), x.t().reshape(3, 8))


def test_resize_keeps_data():
    x = torch.arange(8.0)
    y = x.to(DEV)
    y.resize_(4, 4)
    assert y.shape == (4, 4)
    assert torch.equal(y.view(-1)[:8].cpu(), x)
    y.resize_(2, 2)
    assert torch.equal(y.cpu().view(-1), x[:4])


def test_storage_resize():
    y = torch.arange(8.0).to(DEV)
    y.untyped_storage().resize_(0)
    assert y.untyped_storage().nbytes() == 0
    y.untyped_storage().resize_(64)
    assert y.untyped_storage().nbytes() == 64


def test_set():
    y = torch.arange(8.0).to(DEV)
    z = torch.empty(0, device=DEV)
    z.set_(y)
    assert z.is_set_to(y)
    z.set_(y.untyped_storage(), 2, (3,), (2,))
    assert z.cpu().tolist() == [2.0, 4.0, 6.0]
    z.set_()
    assert z.numel() == 0
    with pytest.raises(RuntimeError, match="out of bounds|device"):
        torch.empty(3).set_(y)


def test_clone_and_contiguous():
    x = torch.arange(24.0).view(4, 6)
    y = x.to(DEV)
    assert torch.equal(y.clone().cpu(), x)
    assert torch.equal(y.t().contiguous().cpu(), x.t())
    assert y.t().contiguous().is_contiguous()


@pytest.mark.parametrize("dim", [-4, 3])
def test_narrow_copy_of_a_missing_dimension(dim):
    with pytest.raises(IndexError, match="out of range"):
        torch.narrow_copy(torch.ones(2, 3, 4, device=DEV), dim, 0, 1)


def test_pin_memory_argument_is_refused():
    with pytest.raises(RuntimeError, match="CPU can be pinned"):
        torch.empty(3, device=DEV, pin_memory=True)


def test_print_and_deepcopy():
    import copy

    y = torch.arange(3.0).to(DEV)
    assert "device='openreg:0'" in repr(y)
    assert torch.equal(copy.deepcopy(y).cpu(), y.cpu())


@pytest.mark.parametrize("shape", [(3000,), (50, 60), (4, 2, 9, 300), (1001, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_print_of_many(shape, dtype):
    x = torch.linspace(-2, 3, math.prod(shape)).view(shape).to(dtype)
    torch.openreg.reset_fallbacks()
    text = "".join(str(x.to(DEV)).split()).replace(",device='openreg:0'", "")
    assert text == "".join(str(x).split())
    assert not torch.openreg.fallbacks()


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t[0, 0].expand(2**40),
        lambda t: t.view(-1)[:, None].expand(2000, 2**40),
        lambda t: t[:, 1:, None].expand(40, 49, 2**40).transpose(0, 2),
        lambda t: t.as_strided((1000, 2, 1001), (1, 0, 1)),
        lambda t: t.view(torch.complex64)[None].expand(2**40, 40, 25),
        lambda t: t.to(torch.int64).as_strided((2**40, 2), (0, 3), 7),
    ],
)
def test_print_of_views_larger_than_memory(view):
    x = torch.linspace(-2, 3, 2000).view(40, 50)
    text = "".join(str(view(x.to(DEV))).split()).replace(",device='openreg:0'", "")
    assert text == "".join(str(view(x)).split())


def test_save_and_load(tmp_path):
    y = torch.arange(5.0).to("openreg:1")
    torch.save(y, tmp_path / "t.pt")
    assert torch.load(tmp_path / "t.pt").device == torch.device("openreg:1")
    z = torch.load(tmp_path / "t.pt", map_location="openreg:0")
    assert z.device == torch.device("openreg:0") and torch.equal(z.cpu(), y.cpu())
    assert torch.load(tmp_path / "t.pt", map_location="cpu").tolist() == y.tolist()


def test_autograd_through_copies():
    x = torch.arange(4.0, requires_grad=True)
    x.to(DEV).cpu().sum().backward()
    assert torch.equal(x.grad, torch.ones(4))


def test_moving_a_module_keeps_its_weights_tied():
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    module[1].weight = module[0].weight
    weight = module[0].weight
    for device in [DEV, "cpu"]:
        module.to(device)
        assert module[0].weight is module[1].weight is weight
        assert weight.device.type == device
    weight.data = torch.ones(2, 2, device=DEV)
    assert weight.is_openreg and weight.tolist() == [[1, 1], [1, 1]]
