# SPDX-License-Identifier: MIT
"""Checks lab 8, as a client of host.py: engine, instruction, operators or stock."""
import ctypes
import os
import random
import struct

import torch
from client import attempt, load
from lab8_card import Card, Fault, Memory
from regs import C

ROLL = C["OP_EXPERIMENT"]
AVERAGE = 63  # LAB8_V_AVERAGE
STORE = C["V_LOAD"] + 1
READ_ONLY = 8  # OPENREG_BO_READONLY
FINDING_SIZE = 144  # struct openreg_finding
RECORD = struct.Struct("<52xH2xI4x")  # struct openreg_trace_record: opcode, slices
SLICES = range(4, 1001)  # of a packet of some milliseconds: a slice is 50 to 500 us
SIZES = {C[name]: size for name, size in (
    ("F32", 4), ("F64", 8), ("F16", 2), ("BF16", 2), ("I8", 1), ("U8", 1), ("I16", 2), ("I32", 4),
    ("I64", 8), ("BOOL", 1), *((name, 1) for name in C if name.startswith("F8E")))}


def packet(size, operands, imms, arg=(0, 0, 0, 0), ninstr=0) -> bytes:
    """operands: (address, dtype, strides) of each"""
    body = struct.pack("<4B4B8x", len(size), len(operands), len(imms), ninstr, *arg)
    body += struct.pack(f"<{len(size)}q", *size)
    for address, dtype, strides in operands:
        body += struct.pack(f"<QB7x{len(size)}q", address, dtype, *strides)
    body += struct.pack(f"<{len(imms)}Q", *imms) + bytes(8 * ninstr)
    slots = (16 + len(body) + 63) // 64
    return (struct.pack("<BBHIQ", ROLL, slots, 0, 0, 0) + body).ljust(64 * slots, b"\0")


class Trial:
    """A ROLL with operands in two pieces of memory. first: element of index 0 in each"""

    def __init__(self, card: Card, rng, rows: int, n: int, dtype: int, strides, shift: int) -> None:
        self.rows, self.n, self.dtype, self.strides, self.shift = rows, n, dtype, strides, shift
        size, esize = (rows, n), SIZES[dtype]
        self.first = [sum(-(s - 1) * t for s, t in zip(size, stride) if t < 0 and s)
                      for stride in strides]
        ends = [first + sum((s - 1) * t for s, t in zip(size, stride) if t > 0 and s) + 1
                for first, stride in zip(self.first, strides)]
        self.memory = [card.alloc(max(ends[i], 1) * esize) for i in range(2)]
        self.data = rng.randbytes(len(self.memory[1].view))
        if dtype == C["BOOL"]:
            self.data = bytes(byte & 1 for byte in self.data)
        self.memory[1].view[:] = self.data

    def operands(self):
        return [(memory.address + first * SIZES[self.dtype], self.dtype, stride)
                for memory, first, stride in zip(self.memory, self.first, self.strides)]

    def packet(self) -> bytes:
        return packet((self.rows, self.n), self.operands(), [self.shift])

    def wanted(self) -> bytes:
        esize = SIZES[self.dtype]
        want = bytearray(len(self.memory[0].view))
        for row in range(self.rows):
            for i in range(self.n):
                to, at = (first + row * stride[0] + column * stride[1] for first, stride, column in
                          zip(self.first, self.strides, ((i + self.shift) % self.n, i)))
                want[to * esize:(to + 1) * esize] = self.data[at * esize:(at + 1) * esize]
        return bytes(want)

    def run(self, card: Card) -> str:
        """What is wrong, or "" """
        what = f"{self.rows} rows of {self.n}, dtype {self.dtype}, strides {self.strides}, " \
               f"shift {self.shift}"
        try:
            card.run(self.packet())
        except Fault as fault:
            return f"{what}: {fault}"
        return "" if bytes(self.memory[0].view) == self.wanted() else f"{what}: wrong elements"

    def free(self) -> None:
        for memory in self.memory:
            memory.free()


def trial(card: Card, rng, rows: int, n: int, dtype: int, strides) -> str:
    one = Trial(card, rng, rows, n, dtype, strides, rng.randrange(n) if n else 0)
    seen = one.run(card)
    one.free()
    return seen


def dense(n: int):
    return [(max(n, 1), 1)] * 2


def rows(card: Card, rng) -> str:
    for _ in range(20):
        count, n = rng.randrange(1, 9), rng.randrange(1, 40)
        seen = trial(card, rng, count, n, C["F32"], dense(n))
        if seen:
            return seen
    return ""


def layouts(card: Card, rng) -> str:
    for _ in range(20):
        count, n = rng.randrange(1, 9), rng.randrange(1, 20)
        strides = [rng.choice([(n + 3, 1), (1, count), (-n, 1), (n, -1), (2 * n, 2)])
                   for _ in range(2)]
        seen = trial(card, rng, count, n, C["I16"], strides)
        if seen:
            return seen
    for source in ((0, 1), (1, 0), (0, 0)):  # a source of stride 0 is broadcast
        seen = trial(card, rng, 5, 7, C["I16"], [(7, 1), source])
        if seen:
            return seen
    for count, n in ((400, 700), (0, 5), (5, 0)):
        seen = trial(card, rng, count, n, C["F64"], dense(n))
        if seen:
            return seen
    return ""


def dtypes(card: Card, rng) -> str:
    return next(filter(None, (trial(card, rng, 3, 11, dtype, dense(11)) for dtype in SIZES)), "")


def refusal(card: Card, data: bytes, code: str, operand: int | None = None) -> str:
    """"" if the card refuses the packet so"""
    try:
        card.run(data)
    except Fault as fault:
        if fault.code == C["FAULT_" + code] and operand in (None, fault.operand):
            return ""
        return f"{fault}, and not {code}"
    return f"runs, and should fault with {code}"


def bounds(card: Card, rng) -> str:
    # The memory of 64 rows is whole pages, so that one element more is outside.
    for wrong in range(2):
        for move, strides in ((1, (64, 1)), (1 << 20, (64, 1)), (0, (65, 1)), (0, (-64, 1)),
                              (63, (64, -2))):
            one = Trial(card, rng, 64, 64, C["F32"], dense(64), rng.randrange(64))
            operands = one.operands()
            operands[wrong] = (operands[wrong][0] + 4 * move, C["F32"], strides)
            seen = refusal(card, packet((64, 64), operands, [one.shift]), "BOUNDS", wrong)
            written = any(one.memory[0].view)
            one.free()
            if seen or written:
                return (f"operand {wrong}, from element {move} on, strides {strides}: "
                        f"{seen or 'memory was written'}")
    return ""


def lend(memory: Memory, card: Card) -> int:
    """An address at which `card` may only read the memory of another Card."""
    fd, handle = memory.card.call("openreg_bo_export", memory.handle, READ_ONLY), ctypes.c_void_p()
    card.call("openreg_bo_import", card.device, fd, ctypes.byref(handle))
    os.close(fd)
    return card.library.openreg_bo_address(handle)


def finding(card: Card) -> str:
    """The first finding of a card that checks, or "" """
    one, text = ctypes.create_string_buffer(FINDING_SIZE), ctypes.create_string_buffer(400)
    if not card.call("openreg_device_findings", card.device, one, ctypes.c_size_t(1)):
        return ""
    card.library.openreg_finding_text(one, text, ctypes.c_size_t(400))
    return text.value.decode()


def access(card: Card, rng) -> str:
    one, lent = (Trial(of, rng, 4, 8, C["F32"], dense(8), 3) for of in (card, Card()))
    (result, source), memory = one.operands(), one.memory[0]
    finding(card)  # from here on the library does not print the findings
    only_read = [(lend(of, card), *result[1:]) for of in lent.memory]
    seen = refusal(card, packet((4, 8), [only_read[0], source], [3]), "PERMISSION", 0)
    if seen or any(lent.memory[0].view):
        return f"a result in memory that may only be read: {seen or 'it was written'}"
    # The card reports a packet that reads a block before any packet has written it.
    card.call("openreg_queue_note_block", card.queue, ctypes.c_uint64(memory.address),
              ctypes.c_uint64(len(memory.view)), 0)
    try:
        card.run(packet((4, 8), [result, only_read[1]], [3]))
    except Fault as fault:
        return f"a source in memory that may only be read: {fault}"
    if bytes(memory.view) != lent.wanted():
        return "a source in memory that may only be read: wrong elements"
    said = finding(card)
    return said and f"the packet reads its result: {said}"


def slices(card: Card, _rng) -> str:
    n, records = 2048, ctypes.create_string_buffer(16 * RECORD.size)
    memory = [card.alloc(n * n) for _ in range(2)]
    card.call("openreg_queue_trace_start", card.queue, ctypes.c_uint64(16))
    card.run(packet((n, n), [(one.address, C["I8"], (n, 1)) for one in memory], [5]))
    count = card.call("openreg_queue_trace_read", card.queue, records, ctypes.c_size_t(16), None)
    card.call("openreg_queue_trace_stop", card.queue)
    found = dict(RECORD.iter_unpack(records[:count * RECORD.size])).get(ROLL)
    return "" if found in SLICES else (
        f"a packet of {n} x {n} elements ran in {found} slices")


def refuses(card: Card, rng) -> str:
    one = Trial(card, rng, 4, 8, C["F32"], dense(8), 3)
    good, (result, source) = one.operands(), one.operands()
    f64 = (source[0], C["F64"], source[2])
    none = (result[0], 0, result[2])
    cases = {
        "arg": (packet((4, 8), good, [3], (0, 1, 0, 0)), "PACKET"),
        "one operand": (packet((4, 8), good[:1], [3]), "PACKET"),
        "three operands": (packet((4, 8), [*good, source], [3]), "PACKET"),
        "no immediate": (packet((4, 8), good, []), "PACKET"),
        "two immediates": (packet((4, 8), good, [3, 3]), "PACKET"),
        "an instruction": (packet((4, 8), good, [3], ninstr=1), "PACKET"),
        "one dimension": (packet((8,), [(a, d, s[1:]) for a, d, s in good], [3]), "SHAPE"),
        "three dimensions": (packet((1, 4, 8), [(a, d, (0, *s)) for a, d, s in good], [3]),
                             "SHAPE"),
        "a shift of a whole row": (packet((4, 8), good, [8]), "SHAPE"),
        "a shift of 2^63": (packet((4, 8), good, [1 << 63]), "SHAPE"),
        "two dtypes": (packet((4, 8), [result, f64], [3]), "DTYPE"),
        "no dtype": (packet((4, 8), [none, none], [3]), "DTYPE"),
        "a result of stride 0 along rows": (
            packet((4, 8), [(*result[:2], (0, 1)), source], [3]), "SHAPE"),
        "a result of stride 0 along n": (
            packet((4, 8), [(*result[:2], (8, 0)), source], [3]), "SHAPE"),
        "a shift of n, and no rows": (packet((0, 8), good, [8]), "SHAPE"),
    }
    for what, (data, code) in cases.items():
        seen = refusal(card, data, code)
        if seen:
            return f"{what}: {seen}"
    return "memory was written" if any(one.memory[0].view) else ""


def instr(op: int, kind: str, dst: int = 0, a: int = 0, b: int = 0, aux: int = 0) -> bytes:
    return struct.pack("<6BH", op, C["VT_" + kind], dst, a, b, 0, aux)


def program(card: Card, dtype: str, kind: str, values, source: int = 1) -> list[int]:
    """The averages of the columns of `values`, by a packet VECTOR."""
    letter, n = {"I32": "i", "I64": "q", "F32": "f"}[dtype], len(values[0])
    memory = [card.alloc(n * 8) for _ in range(3)]
    for i in range(2):
        data = struct.pack(f"<{n}{letter}", *values[i])
        memory[i + 1].view[:len(data)] = data
    code = [instr(C["V_LOAD"], kind, dst=0, aux=1), instr(C["V_LOAD"], kind, dst=1, aux=2),
            instr(AVERAGE, kind, dst=2, a=0, b=source), instr(STORE, kind, a=2, aux=0)]
    body = struct.pack("<4B4B8xq", 1, 3, 0, len(code), 0, 0, 0, 0, n)
    for one in memory:
        body += struct.pack("<QB7xq", one.address, C[dtype], 1)
    body += b"".join(code)
    slots = (16 + len(body) + 63) // 64
    try:
        card.run((struct.pack("<BBHIQ", C["OP_VECTOR"], slots, 0, 0, 0) + body)
                 .ljust(64 * slots, b"\0"))
        return list(struct.unpack_from(f"<{n}{letter}", memory[0].view))
    finally:
        for one in memory:
            one.free()


def refuses_program(card: Card) -> str:
    for kind, values, source in (("F32", [[1.0], [2.0]], 1), ("I32", [[1], [2]], 9)):
        try:
            program(card, kind, kind, values, source)
            return f"{kind}, register {source}: it runs, and should fault with PROGRAM"
        except Fault as fault:
            if fault.code != C["FAULT_PROGRAM"]:
                return f"{fault}, and not PROGRAM"
    return ""


def average(card: Card, rng) -> str:
    for kind, bits in (("I32", 32), ("I64", 64)):
        least = -1 << (bits - 1)
        ends = [least, least + 1, -1, 0, 1, -least - 2, -least - 1]
        more = [rng.randrange(least, -least) for _ in range(3000)]
        x = [a for a in ends for _ in ends] + more
        y = ends * len(ends) + more[::-1]
        seen = program(card, kind, kind, (x, y))
        for a, b, mean in zip(x, y, seen):
            if mean != (a + b) // 2:
                return f"{kind}: the average of {a} and {b} is {mean}"
    return refuses_program(card)


def one_packet(name: str, function, want) -> str:
    torch.openreg.reset_op_counts()
    torch.openreg.reset_fallbacks()
    y = function()
    names = dict(torch.openreg.op_counts())
    packets = names.get(name, 0)
    if packets > 1 or (want.numel() and not packets):
        return f"{name} of {tuple(want.shape)} {want.dtype} launched {packets} packets; all: {names}"
    if torch.openreg.fallbacks():
        return f"{name} ran on the CPU: {torch.openreg.fallbacks()}"
    same = y.device.type == "openreg" and y.dtype == want.dtype and torch.equal(y.cpu(), want)
    return "" if same else f"{name} of {tuple(want.shape)} {want.dtype} is {y}"


def operators(rng) -> str:
    torch.manual_seed(rng.randrange(1 << 30))
    for x, *size in ((torch.randn(4, 7),), (torch.randn(6),), (torch.randn(2, 3, 5),),
                     (torch.randn(5, 6).t(),), (torch.arange(12, dtype=torch.int16).view(3, 4),),
                     (torch.randn(1, 7), 4, 7), (torch.randn(4, 1), 4, 7), (torch.randn(0, 3),),
                     (torch.randn(3, 0),)):
        shift, there = rng.randrange(-20, 20), x.to(f"openreg:{rng.randrange(2)}")
        if size:  # broadcast; to() would make the tensor dense
            x, there = x.expand(size), there.expand(size)
        seen = one_packet("lab8::roll", lambda: torch.ops.lab8.roll(there, shift),
                          torch.roll(x, shift, -1))
        if seen:
            return seen
    try:
        torch.ops.lab8.roll(torch.ones(3, dtype=torch.complex64, device="openreg"), 1)
        return "lab8::roll takes complex64, and the card has no such dtype"
    except RuntimeError:
        pass
    for dtype in (torch.int32, torch.int64):
        least = torch.iinfo(dtype).min
        a, b = (torch.tensor([rng.randrange(least, -least) for _ in range(24)], dtype=dtype)
                for _ in range(2))
        a, b = a.view(3, 8), b.view(8, 3).t()
        want = (a & b) + ((a ^ b) >> 1)
        seen = one_packet("lab8::average",
                          lambda: torch.ops.lab8.average(a.to("openreg"), b.to("openreg")), want)
        if seen:
            return seen
    return ""


def stock(_rng) -> str:
    x = torch.arange(6, device="openreg").view(2, 3)
    for name, function in (("roll", lambda: torch.ops.lab8.roll(x, 1)),
                           ("average", lambda: torch.ops.lab8.average(x, x))):
        try:
            function().cpu()
            return f"{name} returns a result without the card"
        except RuntimeError:
            torch.openreg.reset()
    return ""


def main(part: str, directory: str, seed: int) -> None:
    rng = random.Random(f"{part} {seed}")
    if part in ("engine", "instruction"):
        card = Card()
        checks = (rows, layouts, dtypes, bounds, access, refuses, slices) if part == "engine" \
            else (average,)
        for check in checks:
            if not attempt(check.__name__, check, card, rng) and check is rows:
                return
        return
    load(directory, "lab8")
    if part == "operators":
        attempt("operators", operators, rng)
    else:
        attempt("by the card", stock, rng)
