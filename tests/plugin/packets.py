# SPDX-License-Identifier: BSD-3-Clause
"""Builds packets as bytes, valid and invalid ones (uapi/openreg_isa.h)."""

import struct

import torch
from torch_openreg import _C

(NOP, COPY, FILL, VECTOR, MATMUL, SOFTMAX, WAIT, SIGNAL, TIMESTAMP, INDEX, CONV,
 POOL, SORT) = range(13)
F32, I64, U8 = 1, 9, 6


def packet(opcode, sizes=(), operands=(), imms=(), instrs=b"", cookie=0, arg=b""):
    """operands: a list of (address, dtype, strides); instrs: packed bytes."""
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


def wait_ge(address, value):
    return packet(WAIT, (), [(address, I64, ())], (value,))


def launched(work):
    """
    The number of packets that device 0 runs for work(). Does not count NOPs that pad the
    end of the ring, since their number depends on the position in the ring, and NOTEs,
    which only a card that checks programs has.
    """

    def count():
        torch.openreg.synchronize(0)
        stats = torch.openreg.queue_stats(0)
        return stats["packets"] - stats["pads"] - stats["notes"]

    before = count()
    work()
    return count() - before


class Gate:
    """A context that blocks the current stream of a device until its end."""

    closed = []  # gates that are still closed; the fixture settled() opens them

    def __init__(self, index=0):
        self.index = index

    def __enter__(self):
        Gate.closed.append(self)
        self.word = torch.zeros(1, dtype=torch.int64, device=f"openreg:{self.index}")
        self.side = torch.openreg.Stream(self.index)
        torch.openreg.synchronize(self.index)
        _C._launch_raw(wait_ge(self.word.data_ptr(), 1), self.index)

    def __exit__(self, *_):
        if self in Gate.closed:
            Gate.closed.remove(self)
        with torch.openreg.stream(self.side):
            signal = packet(SIGNAL, (), [(self.word.data_ptr(), I64, ())], (1,))
            _C._launch_raw(signal, self.index)


NO_SEGMENT = (0x9F << 55) | (8000 << 38)


def stuck(bad, *chain):
    """Makes the stream bad fault, with each stream of chain waiting for the one before.

    Returns the function that resets the device, so that the streams continue.
    """
    gate = Gate()
    with torch.openreg.stream(bad):
        gate.__enter__()
        _C._launch_raw(fill(NO_SEGMENT, 4), 0)
    event = bad.record_event()
    for stream in chain:
        stream.wait_event(event)
        event = stream.record_event()
    gate.__exit__()
    while True:
        try:
            bad.query()
        except RuntimeError:
            return torch.openreg.reset
