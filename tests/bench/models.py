# SPDX-License-Identifier: MIT
"""(e) A training step of whole networks, on each named device.
usage: models.py [DEVICE[=NAME IN THE FIGURES]...]"""

import sys

from common import DEVICES, figure, measure
from networks import NETWORKS

for argument in sys.argv[1:] or DEVICES:
    device, _, shown = argument.partition("=")
    for name, make in NETWORKS.items():
        step = make(device)
        # No warm-up on an emulated CPU, where a step takes minutes.
        if device == "openreg" or shown:
            step()
        took = measure(step, device, 10 if device == "openreg" else 1)
        figure("e", f"{name}: step on {shown or device}", 1e3 * took, "ms")
