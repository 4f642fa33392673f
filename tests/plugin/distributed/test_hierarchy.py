# SPDX-License-Identifier: BSD-3-Clause
"""Ranks of several machines: here two halves of four ranks stand for machines."""

import pytest
import torch
import torch.distributed as dist
from hierarchy_cases import broadcasts, limits, reductions, trained_like_one_card
from ranks import card

from torch_openreg.hierarchy import Hierarchy


@pytest.fixture(scope="module")
def two_by_two(processes):
    ranks = processes(4)
    ranks.start(backend="gloo", bind=False)
    yield ranks
    ranks.stop()


@pytest.mark.native
@pytest.mark.parametrize("case", [reductions, limits, broadcasts])
def test_collectives(two_by_two, case):
    two_by_two.run(case)


@pytest.mark.native
def test_data_parallel(two_by_two):
    first, *others = two_by_two.run(trained_like_one_card)
    for other in others:
        assert all(map(torch.equal, other, first))


def refused():
    for call, words in (
        (lambda: Hierarchy(card(), 3), "no whole number of machines"),
        (lambda: Hierarchy(card()), "ranks_of_a_machine"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    hierarchy = Hierarchy(card(), 2)
    with pytest.raises(ValueError, match="MAX and MIN"):
        hierarchy.all_reduce(torch.ones(2, device=card()), dist.ReduceOp.BAND)
    with pytest.raises(ValueError, match="no average"):
        hierarchy.all_reduce(torch.ones(2, device=card()) > 0, dist.ReduceOp.AVG)
    with pytest.raises(ValueError, match="contiguous"):
        hierarchy.all_reduce(torch.ones(4, 2, device=card()).t())


@pytest.mark.native
def test_bad_input(two_by_two):
    two_by_two.run(refused)
