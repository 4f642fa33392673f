# SPDX-License-Identifier: MIT
"""(e) a training step of whole networks, on each device that is named.
usage: models.py [DEVICE[=NAME IN THE FIGURES]...]"""

import sys

from common import DEVICES, figure, measure
from networks import NETWORKS

for argument in sys.argv[1:] or DEVICES:
    device, _, shown = argument.partition("=")
    for name, make in NETWORKS.items():
        step = make(device)
        # An emulated processor takes minutes for one.
        if device == "openreg" or shown:
            step()
        took = measure(step, device, 10 if device == "openreg" else 1)
        figure("e", f"{name}: step on {shown or device}", 1e3 * took, "ms")
