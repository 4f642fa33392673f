# SPDX-License-Identifier: BSD-3-Clause
"""Blocks, segments, streams, and host memory that the card can reach."""

import torch


def show(when):
    used, held = torch.openreg.memory_allocated(), torch.openreg.memory_reserved()
    print(f"{when:<12} allocated {used:>8}  reserved {held:>8}")


show("at first")
a = torch.empty(1000, device="openreg")
show("4000 bytes")
address = a.data_ptr()
del a
show("freed")
b = torch.empty(1000, device="openreg")
print("the same block:", b.data_ptr() == address)

side = torch.openreg.Stream()
with torch.openreg.stream(side):
    c = torch.empty(1000, device="openreg")  # from the other stream's pool
b.record_stream(side)
address = b.data_ptr()
del b, c
torch.openreg.synchronize()
torch.openreg.empty_cache()
show("emptied")

host = torch.ones(1000).pin_memory()
print("pinned:", host.is_pinned(), "on", host.device)
print(f"bits 55 to 63 of a device address: {address >> 55:#x}")
