# SPDX-License-Identifier: BSD-3-Clause
"""torch.use_deterministic_algorithms(): all results on the card are reproducible."""

import pytest
import torch

from ops import ALL, no_fallback, values

DEV = "openreg"
EVERY_TYPE = [
    *ALL, torch.complex32, torch.complex64, torch.complex128, torch.uint16, torch.uint32, torch.uint64,
    torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
]


@pytest.fixture
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def is_filled(t):
    want = torch.empty(t.shape, dtype=t.dtype)  # the CPU fills it, too
    return torch.equal(t.contiguous().view(torch.uint8), want.view(torch.uint8))


@pytest.mark.parametrize("dtype", EVERY_TYPE)
def test_new_memory_is_filled(deterministic, dtype):
    how = {"dtype": dtype, "device": DEV}
    with no_fallback():
        two = torch.zeros(2, **how)
        for t in (
            torch.empty(33, **how),
            torch.empty_strided((4, 3), (1, 4), **how),
            torch.empty_like(two),
            two.new_empty(7),
            two.clone().resize_(40)[2:],
            two.clone().resize_(4, 5)[1:],
        ):
            assert is_filled(t.cpu())
        kept = two.clone().resize_(40)[:2].cpu()
        torch.empty(0, **how)
    assert not kept.view(torch.uint8).any()


def test_fill_can_be_switched_off(deterministic):
    torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        torch.openreg.reset_op_counts()
        torch.empty(33, device=DEV)
        assert torch.openreg.op_counts() == {}
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = True
    torch.empty(33, device=DEV)
    assert torch.openreg.op_counts() != {}


def test_scattered_sums_are_reproducible(deterministic):
    """Other devices refuse such sums, or use a slower algorithm. The card always adds in
    order."""
    index = torch.arange(4000).remainder(7).to(DEV)
    source = values(4000).to(DEV)
    results = []
    for _ in range(3):
        out = torch.zeros(7, device=DEV)
        out.index_add_(0, index, source)
        out.scatter_add_(0, index, source)
        out.index_put_((index,), source, accumulate=True)
        results.append(out.cpu())
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])
    want = 3 * torch.zeros(7).index_add_(0, index.cpu(), values(4000))
    torch.testing.assert_close(results[0], want, rtol=1e-3, atol=1e-3)
