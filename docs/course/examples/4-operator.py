# SPDX-License-Identifier: BSD-3-Clause
"""One operator is one packet, with casts, broadcasts and scaling."""

import torch


def packets(what, work):
    torch.openreg.synchronize()
    torch.openreg.reset_op_counts()
    before = torch.openreg.queue_stats()["packets"]
    result = work()
    torch.openreg.synchronize()
    after = torch.openreg.queue_stats()["packets"]
    print(f"{what:<24} {after - before} packet", torch.openreg.op_counts())
    return result


a = torch.arange(6.0).reshape(2, 3).to("openreg")
b = torch.ones(3).to("openreg")
half = b.half()

c = packets("a + b", lambda: a + b)
packets("a + half", lambda: a + half)
packets("a + 2", lambda: a + 2)
packets("torch.add(a, b, alpha=3)", lambda: torch.add(a, b, alpha=3))
packets("a += b", lambda: a.add_(b))
print(c)
