# SPDX-License-Identifier: BSD-3-Clause
"""Counts the packets of each kind of copy."""

import torch


def packets(what, work):
    before = torch.openreg.queue_stats()["packets"]
    result = work()
    torch.openreg.synchronize()
    print(f"{what:<34}", torch.openreg.queue_stats()["packets"] - before)
    return result


small = torch.arange(1000.0)
large = torch.zeros(1 << 20)  # 4 MiB
pinned = large.pin_memory()

x = packets("4 KB from pageable memory", lambda: small.to("openreg"))
packets("4 MiB from pageable memory", lambda: large.to("openreg"))
y = packets("4 MiB from pinned memory", lambda: pinned.to("openreg", non_blocking=True))
packets("transposed, to half, on the card", lambda: y.view(1024, 1024).t().half())
packets("4 KB to the host", lambda: x.cpu())

back = torch.empty(1 << 20).pin_memory()
back.copy_(y, non_blocking=True)
torch.openreg.current_stream().synchronize()  # before the CPU reads
print("arrived:", torch.equal(back, large))
print("round trip:", torch.equal(x.cpu(), small))
print("fallbacks:", torch.openreg.fallbacks())
