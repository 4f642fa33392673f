# SPDX-License-Identifier: BSD-3-Clause
"""Packets as bytes, right ones and wrong ones (uapi/openreg_isa.h)."""

import struct

NOP, COPY, FILL, VECTOR, MATMUL, SOFTMAX, WAIT, SIGNAL, TIMESTAMP = range(9)
F32, I64, U8 = 1, 9, 6


def packet(opcode, sizes=(), operands=(), imms=(), instrs=b"", cookie=0, arg=b""):
    """operands: (address, dtype, strides) each; instrs: packed already."""
    body = struct.pack(
        "<4B4sQ", len(sizes), len(operands), len(imms), len(instrs) // 8, arg, 0
    )
    body += struct.pack(f"<{len(sizes)}q", *sizes)
    for address, dtype, strides in operands:
        body += struct.pack("<QB7x", address, dtype)
        body += struct.pack(f"<{len(sizes)}q", *strides)
    body += b"".join(struct.pack("<Q", imm & (1 << 64) - 1) for imm in imms)
    body += instrs
    slots = (16 + len(body) + 63) // 64
    return struct.pack("<BBHIQ", opcode, slots, 0, cookie, 0) + body


def fill(address, count, dtype=F32, stride=1, cookie=0):
    return packet(FILL, (count,), [(address, dtype, (stride,))], (0,), cookie=cookie)
