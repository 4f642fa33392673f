# SPDX-License-Identifier: BSD-3-Clause
"""Two cards: each thread has its own current device."""

import threading

import torch

print(torch.accelerator.current_accelerator(), torch.accelerator.device_count())
print("opened:", torch.openreg.is_initialized())

x = torch.zeros(2, device="openreg")  # no index: the current device
with torch.openreg.device(1):
    y = torch.zeros(2, device="openreg")
    thread = threading.Thread(
        target=lambda: print("another thread:", torch.openreg.current_device())
    )
    thread.start()
    thread.join()
print(x.device, y.device, "now:", torch.openreg.current_device())
print("sum on", (y + 1).sum().device)  # the guard went to card 1 and came back
print("opened:", torch.openreg.is_initialized())
