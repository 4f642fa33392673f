# SPDX-License-Identifier: BSD-3-Clause
"""A refused packet stops its stream; other streams continue."""

import struct

import torch
from torch_openreg import _C

FILL, F32 = 2, 1
nowhere = (0x9F << 55) | (8000 << 38)  # a segment without memory
packet = struct.pack("<BBHIQ", FILL, 2, 0, 0, 0)
packet += struct.pack("<4B4xQ", 1, 1, 1, 0, 0)  # one dimension, operand, immediate
packet += struct.pack("<qQB7xqQ", 4, nowhere, F32, 1, 0)


def attempt(work):
    try:
        return work()
    except RuntimeError as error:
        return f"RuntimeError: {str(error).splitlines()[0]}"


def numbers():
    return torch.arange(3.0).to("openreg").tolist()


_C._launch_raw(packet, 0)
print(attempt(torch.openreg.synchronize))
with torch.openreg.stream(torch.openreg.Stream()):
    print("another stream:", attempt(numbers))
print("still:", attempt(numbers))
torch.openreg.reset()
print("after reset:", attempt(numbers))
