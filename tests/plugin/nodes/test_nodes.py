# SPDX-License-Identifier: BSD-3-Clause
"""Collectives among the cards of two VMs. Each rank is a pytest of its own:

    scripts/suite nodes
"""

import os
import sys

import pytest
import torch
import torch.distributed as dist

sys.path.append(os.path.join(os.path.dirname(__file__), "../distributed"))
from hierarchy_cases import broadcasts, limits, reductions, trained_like_one_card  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def group():
    torch.openreg.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("gloo")
    yield
    dist.destroy_process_group()


def test_reductions():
    reductions()


def test_limits():
    limits()


def test_broadcasts():
    broadcasts()


def test_data_parallel_equals_one_card():
    weights = trained_like_one_card()
    of_all = [None] * dist.get_world_size()
    dist.all_gather_object(of_all, weights)
    for other in of_all:
        assert all(map(torch.equal, other, weights))
