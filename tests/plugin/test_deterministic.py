# SPDX-License-Identifier: BSD-3-Clause
"""torch.use_deterministic_algorithms(): nothing of the card's is left to chance."""

import pytest
import torch

from ops import values

DEV = "openreg"


@pytest.fixture
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def is_filled(t):
    if t.is_floating_point():
        return t.isnan().all()
    return (t == (True if t.dtype == torch.bool else torch.iinfo(t.dtype).max)).all()


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool]
)
def test_new_memory_is_filled(deterministic, dtype):
    how = {"dtype": dtype, "device": DEV}
    for t in (
        torch.empty(33, **how),
        torch.empty_strided((4, 3), (1, 4), **how),
        torch.empty_like(torch.ones(5, **how)),
        torch.ones(2, **how).resize_(40)[2:],
    ):
        assert is_filled(t.cpu())
    assert (torch.ones(2, **how).resize_(40)[:2] == 1).all()
    torch.empty(0, **how)


def test_it_can_be_left_out(deterministic):
    torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        torch.openreg.reset_op_counts()
        torch.empty(33, device=DEV)
        assert torch.openreg.op_counts() == {}
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = True
    torch.empty(33, device=DEV)
    assert torch.openreg.op_counts() != {}


def test_sums_into_one_place_are_the_same_in_every_run(deterministic):
    """Where others refuse or take a slower way, the card adds in order."""
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


def test_types_that_the_card_has_not(deterministic):
    before = torch.openreg.set_fallback("error")
    try:
        x = torch.empty(3, dtype=torch.complex64, device="openreg")
        torch.empty(3, dtype=torch.uint16, device="openreg")
    finally:
        torch.openreg.set_fallback(before)
    assert torch.isnan(torch.view_as_real(x).cpu()).all()
