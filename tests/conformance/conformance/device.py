# SPDX-License-Identifier: MIT
"""Synchronizes the device, if its backend can."""

import torch

# Part of core's error for a backend without synchronizeDevice().
UNABLE = "doesn't support synchronizing"


def synchronize() -> None:
    """Waits for the device. A backend that cannot wait is taken to be synchronous."""
    try:
        torch.accelerator.synchronize()
    except RuntimeError as error:
        if UNABLE not in str(error):
            raise
