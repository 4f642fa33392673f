# SPDX-License-Identifier: BSD-3-Clause
"""torchvision's roi_align on the card. Its other operators run on the CPU and count as
fallbacks."""

import pytest
import torch
from ops import check, no_fallback, to_card, values, with_gradients

ops = pytest.importorskip("torchvision.ops")

SHAPES = [
    # image, output, scale, samples, aligned
    ((2, 3, 10, 14), (4, 4), 1.0, 2, False),
    ((2, 3, 10, 14), (4, 4), 1.0, 2, True),
    ((1, 5, 8, 8), (7, 7), 0.25, 2, True),
    ((3, 1, 6, 9), (2, 5), 0.5, 3, False),
    ((2, 4, 1, 1), (3, 2), 1.0, 1, True),
    ((1, 40, 30, 31), (7, 7), 0.5, 2, False),
]


def regions(count, image, scale, dtype=torch.float32):
    """Random regions, some of them partly or wholly outside of their image."""
    height, width = image[2] / scale, image[3] / scale
    at = values(count, 2, 2, low=-0.4, high=1.4, dtype=torch.float64).sort(1).values
    at = at * torch.tensor([width, height], dtype=torch.float64)
    which = torch.arange(count, dtype=torch.float64).remainder(image[0])
    return torch.cat([which[:, None], at.reshape(count, 4)], 1).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("count", [0, 1, 30])
@pytest.mark.parametrize("image, size, scale, samples, aligned", SHAPES)
def test_roi_align(image, size, scale, samples, aligned, count, dtype):
    boxes = regions(count, image, scale, dtype)
    # If a sample lies on the edge of the last pixel, rounding decides whether it counts.
    near = {"rtol": 1e-4, "atol": 1e-3} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-9}

    def call(x, boxes=boxes):
        return ops.roi_align(x, boxes.to(x.device), size, scale, samples, aligned)

    x = values(*image, dtype=dtype)
    check(call, x, **near)
    check(with_gradients(call), x, **near)
    check(with_gradients(call), x.contiguous(memory_format=torch.channels_last), **near)
    check(with_gradients(call), x.transpose(2, 3).contiguous().transpose(2, 3), **near)
    assert call(to_card(x)).stride() == call(x).stride()


def test_roi_align_of_many_regions():
    image = (2, 64, 40, 50)
    boxes = regions(600, image, 1.0)
    check(lambda x, b: ops.roi_align(x, b, (7, 7), 1.0, 2), values(*image), boxes, rtol=1e-3, atol=1e-3)


def test_a_pyramid():
    """The call of a detector: lists of boxes, with a level for each by its size."""
    pooler = ops.MultiScaleRoIAlign(["0", "1"], 7, 2)
    boxes = [regions(20, (1, 1, 64, 64), 1.0)[:, 1:]] * 2
    levels = {"0": values(2, 8, 32, 32), "1": values(2, 8, 16, 16, seed=1)}
    want = pooler(levels, boxes, [(64, 64)] * 2)
    with no_fallback():
        got = pooler({k: to_card(v) for k, v in levels.items()}, to_card(boxes), [(64, 64)] * 2)
    torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-3)


def test_as_many_samples_as_pixels():
    """The number of samples differs by region, so the operator falls back to the CPU."""
    x, boxes = values(1, 3, 20, 20), regions(5, (1, 3, 20, 20), 1.0)
    torch.openreg.reset_fallbacks()
    got = ops.roi_align(to_card(x), to_card(boxes), (3, 3), sampling_ratio=-1)
    assert torch.openreg.fallbacks() == {"torchvision::roi_align": 1}
    torch.testing.assert_close(got.cpu(), ops.roi_align(x, boxes, (3, 3), sampling_ratio=-1))


def test_errors():
    x, boxes = values(1, 3, 8, 8), regions(3, (1, 3, 8, 8), 1.0)
    for a, b in [(x, boxes), (to_card(x), to_card(boxes))]:
        with pytest.raises(RuntimeError, match="same type|should have the same"):
            ops.roi_align(a, b.double(), (2, 2), 1.0, 2)
        with pytest.raises(RuntimeError, match="Tensor\\[K, 5\\]|shape"):
            torch.ops.torchvision.roi_align(a, b[:, :4], 1.0, 2, 2, 2, False)
