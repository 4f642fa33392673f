# SPDX-License-Identifier: BSD-3-Clause
"""Mixed precision: autocast and the scaling of gradients."""

import pytest
import torch

DEV = "openreg"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_dtypes(dtype):
    layer = torch.nn.Linear(4, 4).to(DEV)
    x = torch.randn(3, 4).to(DEV)
    with torch.autocast(DEV, dtype=dtype):
        y = layer(x)
        assert y.dtype == dtype
        assert (y @ y.t()).dtype == dtype
        for f in (torch.softmax, torch.log_softmax, torch.cumsum):
            assert f(y, 0).dtype == torch.float32
        assert torch.nn.functional.mse_loss(y, y).dtype == torch.float32
        assert (y + x).dtype == torch.float32
        assert torch.cat([y, x]).dtype == torch.float32
        with torch.autocast(DEV, enabled=False):
            assert layer(x).dtype == torch.float32
    assert layer(x).dtype == torch.float32


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_nansum_is_not_cast(half):
    x = torch.tensor([[1, float("nan"), 2.5]], dtype=half, device=DEV)
    with torch.autocast(DEV, dtype=half):
        for y in (torch.nansum(x), x.nansum(1), x.nansum(1, dtype=half), x[0, 1:].nansum()):
            assert y.dtype == half
        assert torch.nansum(x, dtype=torch.float64).dtype == torch.float64
        assert torch.nansum(x.int()).dtype == torch.int64
        assert torch.nansum(x).item() == 3.5
    assert torch.nansum(x).dtype == half


def test_autocast_default_and_state():
    assert torch.get_autocast_dtype(DEV) in (torch.float16, torch.bfloat16)
    assert not torch.is_autocast_enabled(DEV)
    with torch.autocast(DEV):
        assert torch.is_autocast_enabled(DEV)
    with pytest.warns(UserWarning, match="not supported"):
        with torch.autocast(DEV, dtype=torch.float64):
            assert not torch.is_autocast_enabled(DEV)


def test_autocast_matches_the_cpu():
    torch.manual_seed(0)
    layer = torch.nn.Linear(16, 8)
    x = torch.randn(4, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        want = layer(x)
    with torch.autocast(DEV, dtype=torch.bfloat16):
        got = layer.to(DEV)(x.to(DEV))
    assert torch.allclose(got.cpu().float(), want.float(), atol=2e-2)


def test_autocast_backward_and_cache():
    weight = torch.randn(4, 4).to(DEV).requires_grad_()
    x = torch.randn(2, 4).to(DEV)
    with torch.autocast(DEV, dtype=torch.bfloat16):
        y = x @ weight @ weight
    y.float().sum().backward()
    assert weight.grad.dtype == torch.float32
    w = weight.detach().cpu().requires_grad_()
    (x.cpu() @ w @ w).sum().backward()
    assert torch.allclose(weight.grad.cpu(), w.grad, atol=0.1, rtol=0.05)


def test_custom_function():
    class Double(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type=DEV, cast_inputs=torch.float32)
        def forward(ctx, x):
            assert not torch.is_autocast_enabled(DEV)
            return x * 2

        @staticmethod
        @torch.amp.custom_bwd(device_type=DEV)
        def backward(ctx, grad):
            return grad * 2

    x = torch.ones(2, dtype=torch.float16, device=DEV).requires_grad_()
    with torch.autocast(DEV, dtype=torch.float16):
        y = Double.apply(x)
    assert y.dtype == torch.float32
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]


def scaled_step(scaler, weight, optimizer, factor):
    optimizer.zero_grad()
    loss = (weight * factor).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


def test_grad_scaler():
    """The scaler takes a step with finite gradients. It skips one with infinite gradients,
    and halves the scale."""
    weight = torch.nn.Parameter(torch.ones(3, device=DEV))
    optimizer = torch.optim.SGD([weight], lr=0.5)
    scaler = torch.amp.GradScaler(DEV, init_scale=1024.0, growth_interval=2)
    scaled_step(scaler, weight, optimizer, 1.0)
    assert weight.tolist() == [0.5, 0.5, 0.5] and scaler.get_scale() == 1024
    scaled_step(scaler, weight, optimizer, float("inf"))
    assert weight.tolist() == [0.5, 0.5, 0.5] and scaler.get_scale() == 512
    scaled_step(scaler, weight, optimizer, 1.0)
    scaled_step(scaler, weight, optimizer, 1.0)
    assert weight.tolist() == [-0.5, -0.5, -0.5] and scaler.get_scale() == 1024


def test_grad_scaler_unscales_for_clipping():
    weight = torch.nn.Parameter(torch.ones(4, device=DEV))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler(DEV, init_scale=256.0)
    scaler.scale((weight * 3).sum()).backward()
    scaler.unscale_(optimizer)
    assert weight.grad.tolist() == [3, 3, 3, 3]
    torch.nn.utils.clip_grad_norm_([weight], 1.0)
    scaler.step(optimizer)
    assert torch.allclose(weight.cpu(), torch.full((4,), 0.5), atol=1e-5)


def test_grad_scaler_is_saved():
    scaler = torch.amp.GradScaler(DEV, init_scale=64.0)
    scaler.scale(torch.ones(1, device=DEV))
    other = torch.amp.GradScaler(DEV)
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 64


def test_cross_entropy_of_probabilities_is_refused():
    p = torch.rand(4, device="openreg")
    with torch.autocast("openreg", torch.float16):
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            torch.nn.functional.binary_cross_entropy(p, p)


def test_autocast_of_torchvision():
    """torchvision's operators run in float32 for every dtype, as on other accelerators."""
    from torchvision import ops

    boxes = torch.tensor([[0.0, 0, 10, 10], [1, 1, 10, 10], [20, 20, 30, 30]], device=DEV)
    scores = torch.tensor([0.5, 0.9, 0.7], device=DEV)
    x = torch.randn(1, 4, 32, 32, device=DEV)
    rois = [boxes]
    offset, weight = torch.randn(1, 18, 30, 30, device=DEV), torch.randn(2, 4, 3, 3, device=DEV)
    calls = {
        "roi_align": lambda x, *b: ops.roi_align(x, list(b), 4),
        "roi_pool": lambda x, *b: ops.roi_pool(x, list(b), 4),
        "ps_roi_align": lambda x, *b: ops.ps_roi_align(x, list(b), 2),
        "ps_roi_pool": lambda x, *b: ops.ps_roi_pool(x, list(b), 2),
        "deform_conv2d": lambda x, *b: ops.deform_conv2d(x, offset, weight),
    }
    with torch.autocast(DEV, dtype=torch.bfloat16):
        assert ops.nms(boxes, scores.bfloat16(), 0.5).tolist() == [1, 2]
        for name, call in calls.items():
            half = x.bfloat16().requires_grad_()
            got = call(half, *rois)
            assert got.dtype == torch.bfloat16, name
            got.float().sum().backward()
            assert half.grad.dtype == torch.bfloat16
            want = call(half.detach().float(), *rois)
            torch.testing.assert_close(got, want.bfloat16(), msg=name)
