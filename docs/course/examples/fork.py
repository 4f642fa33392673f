# SPDX-License-Identifier: BSD-3-Clause
"""Forks a child after the parent has used the card."""

import os

import torch

x = torch.ones(2).to("openreg")
child = os.fork()
if child == 0:
    try:
        torch.ones(2).to("openreg")
    except RuntimeError as error:
        print("child:", error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print("parent:", x.tolist())
