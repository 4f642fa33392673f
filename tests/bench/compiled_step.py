#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A training step of GPT-2 in a guest, compiled and in eager mode: its packets, and the least
time of some steps in turns. On an emulated processor the first compiled step takes minutes.

usage: scripts/vm --timeout 3600 --vram 4G --with lib,plugin -- \\
           python3 tests/bench/compiled_step.py [STEPS]
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "plugin"))

import torch  # noqa: E402

from common import figure, least  # noqa: E402
from networks import gpt2  # noqa: E402
from packets import launched  # noqa: E402

NAME = "GPT-2 of 4 layers, 2x128"
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 5
ways = {"eager": gpt2("openreg"), "compiled": gpt2("openreg", torch.compile)}
for way, step in ways.items():
    for _ in range(3):  # the second step compiles the update once more
        step()
    figure("h", f"{NAME}: packets of a step in a VM, {way}", launched(step), "")
took = least({way: (step, "openreg") for way, step in ways.items()}, steps, 1)
for way, seconds in took.items():
    figure("h", f"{NAME}: step in a VM, {way}", 1e3 * seconds, "ms")
