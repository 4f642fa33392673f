# SPDX-License-Identifier: BSD-3-Clause
"""A card is pulled out while ranks use it. Run this in a VM, after all other tests: the card
does not come back."""

import pathlib
import time

import torch.distributed as dist
from test_failures import all_reduce, all_reduce_until_it_fails, fails

DRIVER = pathlib.Path("/sys/bus/pci/drivers/openreg")


def leave():
    dist.destroy_process_group()


def test_unplugged_card(new_ranks):
    ranks = new_ranks(2)
    ranks.start()
    ranks.run(all_reduce)
    for rank in range(2):
        ranks.send(rank, all_reduce_until_it_fails)
    time.sleep(1)
    (sorted(DRIVER.glob("0000:*"))[1] / "remove").write_text("1")
    fails(ranks, 0, "rank 1", "all_reduce")
    done, (_, text, _) = ranks.outcome(1)
    assert not done and "was removed" in text, text
    ranks.run(leave)
    others = new_ranks(2)
    others.start()
    assert others.run(all_reduce) == [2, 2]
