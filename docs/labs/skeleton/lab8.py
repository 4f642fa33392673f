# SPDX-License-Identifier: MIT
"""Lab 8: the operator lab8::roll of torch, which the packet ROLL computes."""
import struct

import torch
from lab8_card import Card

ROLL = 48  # OPENREG_OP_EXPERIMENT

card = Card()


def encode(dtype: int, rows: int, n: int, result: int, source: int, shift: int) -> bytes:
    """A ROLL of dense rows. result and source are addresses of the card."""
    packet = struct.pack("<BBHIQ", ROLL, 1, 0, 0, 0)
    # TODO: struct openreg_op, sizes, two operands with their strides, the immediate. The
    # second byte is the packet's length in slots of 64 bytes.
    return packet


@torch.library.custom_op("lab8::roll", mutates_args=())
def roll(x: torch.Tensor, shift: int) -> torch.Tensor:
    """As torch.roll(x, shift, -1)"""
    # TODO: copy x to memory of the card, run a ROLL, copy the result back.
    raise NotImplementedError
