# SPDX-License-Identifier: BSD-3-Clause
"""nn.DataParallel over two cards has the same results as one card."""

import copy

import pytest
import torch
from torch.nn.parallel import comm, data_parallel

DEV = "openreg"


@pytest.fixture
def model():
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 2)
    )


@pytest.mark.parametrize("devices", [[0], [1], [0, 1], [1, 0]])
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_forward_and_backward(model, devices, rows):
    model.eval()
    x = torch.randn(rows, 4)
    whole = copy.deepcopy(model)
    parallel = torch.nn.DataParallel(model.to(f"{DEV}:{devices[0]}"), devices)
    y = parallel(x.to(f"{DEV}:{devices[0]}"))
    assert y.device == torch.device(DEV, devices[0])
    assert torch.allclose(y.cpu(), whole(x), atol=1e-6)
    y.square().sum().backward()
    whole(x).square().sum().backward()
    for ours, right in zip(model.parameters(), whole.parameters()):
        assert ours.grad.device == ours.device
        assert torch.allclose(ours.grad.cpu(), right.grad, atol=1e-5)


def test_default_devices_and_inputs_of_the_cpu(model):
    parallel = torch.nn.DataParallel(model.to(DEV))
    assert parallel.device_ids[:2] == [0, 1]
    parallel.device_ids = [0, 1]
    x = torch.randn(6, 4)
    y = parallel(x)
    assert y.shape == (6, 2) and y.device == torch.device(DEV, 0)
    # The first replica updates the module's own running statistics.
    assert model[1].num_batches_tracked.item() == 1


def test_without_gradients_and_as_a_function(model):
    model.eval().to(DEV)
    x = torch.randn(6, 4, device=DEV)
    with torch.no_grad():
        assert torch.equal(torch.nn.DataParallel(model, [0, 1])(x), model(x))
    assert torch.allclose(data_parallel(model, x, [0, 1], 1), model(x).to(f"{DEV}:1"))


def test_complex_parameters():
    class Scale(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.tensor([1 + 2j, 3 - 1j]))

        def forward(self, x):
            return x * self.scale

    module = Scale().to(DEV)
    x = torch.randn(4, 2, dtype=torch.complex64)
    y = torch.nn.DataParallel(module, [0, 1])(x.to(DEV))
    assert torch.allclose(y.cpu(), x * module.scale.cpu())


def test_scalars_are_gathered_into_a_vector(model):
    class Loss(torch.nn.Module):
        def forward(self, x):
            return x.sum()

    x = torch.arange(4.0, device=DEV)
    with pytest.warns(UserWarning, match="will instead unsqueeze"):
        assert torch.nn.DataParallel(Loss(), [0, 1])(x).tolist() == [1, 5]


def test_comm():
    x = torch.arange(12.0).view(3, 4)
    a, b = comm.broadcast(x.to(DEV), [0, 1])
    assert (a.get_device(), b.get_device()) == (0, 1) and torch.equal(b.cpu(), x)
    out = [torch.empty(3, 4, device=f"{DEV}:{i}") for i in (1, 0)]
    comm.broadcast(x.to(DEV), out=out)
    assert all(torch.equal(t.cpu(), x) for t in out)
    first, second = comm.scatter(x, [1, 0], [1, 3], dim=-1)
    assert first.get_device() == 1 and torch.equal(first.cpu(), x[:, :1])
    assert second.get_device() == 0 and torch.equal(second.cpu(), x[:, 1:])
    out = [torch.empty(1, 4, device=DEV), torch.empty(2, 4, device=f"{DEV}:1")]
    comm.scatter(x.to(DEV), out=out)
    assert torch.equal(comm.gather(out, 0, 1).cpu(), x)
    assert comm.gather(out, 0, "cpu").device.type == "cpu"
    whole = torch.empty(3, 4, device=DEV)
    assert comm.gather(out, 0, out=whole) is whole and torch.equal(whole.cpu(), x)
    sums = comm.reduce_add_coalesced([[x.to(f"{DEV}:{i}")] * 2 for i in (0, 1)], 1)
    assert all(s.get_device() == 1 and torch.equal(s.cpu(), 2 * x) for s in sums)
