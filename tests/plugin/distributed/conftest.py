# SPDX-License-Identifier: BSD-3-Clause
"""Ranks for the tests of torch.distributed. Their processes start once: that takes seconds."""

import pytest
from ranks import Ranks


@pytest.fixture(scope="session")
def processes():
    kept = {}

    def of(size):
        if size in kept and kept[size].lost:
            kept.pop(size).close()
        if size not in kept:
            kept[size] = Ranks(size)
        return kept[size]

    yield of
    for ranks in kept.values():
        ranks.close()


@pytest.fixture(scope="module")
def pair(processes):
    """Two ranks with a process group."""
    ranks = processes(2)
    ranks.start()
    yield ranks
    ranks.stop()


@pytest.fixture(scope="module")
def trio(processes):
    ranks = processes(3)
    ranks.start()
    yield ranks
    ranks.stop()


@pytest.fixture
def new_ranks():
    """Makes ranks that a test may kill."""
    made = []

    def make(size, **kwargs):
        made.append(Ranks(size, **kwargs))
        return made[-1]

    yield make
    for ranks in made:
        ranks.close()
