# SPDX-License-Identifier: MIT
"""The device as a whole, whatever its backend has of it."""

import torch

# Core's word of a backend without synchronizeDevice().
UNABLE = "doesn't support synchronizing"


def synchronize() -> None:
    """A backend that cannot is taken to be done when its calls return."""
    try:
        torch.accelerator.synchronize()
    except RuntimeError as error:
        if UNABLE not in str(error):
            raise
