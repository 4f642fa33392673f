# SPDX-License-Identifier: BSD-3-Clause
"""A rank with too few file descriptors names the cause, the others name the rank, nothing
leaks, and the next group works."""

import os
import re
import resource

import pytest
import torch
import torch.distributed as dist
from ranks import card, start_group

LIMIT = 256  # a card inside the process uses descriptors up to half of the limit
MOST = 60  # descriptors that a group needs, at most
VICTIM = 1


def sum_of_ones():
    x = torch.ones(100, device=card())
    dist.all_reduce(x)
    return x[0].item()


def open_files():
    return len(os.listdir("/proc/self/fd"))


class Files:
    """Leaves so many descriptors, the lowest ones, to the process."""

    def __init__(self, free):
        self.before = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.taken = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, self.before[1]))
        try:
            while True:
                self.taken.append(os.dup(0))
        except OSError:
            pass
        for file in self.taken[:free]:
            os.close(file)
        del self.taken[:free]

    def close(self):
        for file in self.taken:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, self.before)


def joins(rank, size, path, free):
    """Returns what the group's first collective raises, or None, and descriptors that leak."""
    before, error = open_files(), None
    files = Files(free) if rank == VICTIM else None
    try:
        start_group(rank, size, path, timeout=5, bind=False)
        sum_of_ones()
    except Exception as raised:
        error = str(raised)
        del raised
    if files:
        files.close()
    if dist.is_initialized():
        dist.destroy_process_group()
    return error, open_files() - before


@pytest.mark.native
@pytest.mark.long
def test_few_files(new_ranks):
    ranks = new_ranks(2)
    size = 2
    for free in (None, *range(MOST)):
        path = ranks.path()
        for rank in range(size):
            ranks.send(rank, joins, rank, size, path, 1000 if free is None else free)
        results = [ranks.result(rank) for rank in range(size)]
        errors = [error for error, _ in results]
        if free is None:
            assert errors == [None] * size
            continue  # the first group loads modules, which keep files open
        assert [leaked for _, leaked in results] == [0] * size, (free, errors)
        if errors == [None] * size:
            break
        assert re.search("(?i)too many open files", errors[VICTIM]), errors
        assert re.search(f"rank {VICTIM}|store", errors[1 - VICTIM]), errors
    assert 0 < free < MOST - 1
