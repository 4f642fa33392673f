# SPDX-License-Identifier: MIT
"""Runs in the root: runs packets on a card inside the process, and prints a line for each check.
usage: lab8_client.py engine | operator | stock DIRECTORY SEED"""
import json
import pathlib
import random
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "given"))
from lab8_card import Card, Fault  # noqa: E402
from regs import C  # noqa: E402

ROLL = C["OP_EXPERIMENT"]
SIZES = {C[name]: size for name, size in (
    ("F32", 4), ("F64", 8), ("F16", 2), ("BF16", 2), ("I8", 1), ("U8", 1), ("I16", 2), ("I32", 4),
    ("I64", 8), ("BOOL", 1))}


def tell(name: str, good: bool, seen: object) -> None:
    print(json.dumps([name, good, str(seen)]), flush=True)


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
        "a result of stride 0": (packet((4, 8), [(*result[:2], (0, 1)), source], [3]), "SHAPE"),
    }
    for what, (data, code) in cases.items():
        seen = refusal(card, data, code)
        if seen:
            return f"{what}: {seen}"
    return "memory was written" if any(one.memory[0].view) else ""


def engine(rng) -> None:
    card = Card()
    for name, check in (("rows", rows), ("layouts", layouts), ("dtypes", dtypes),
                        ("bounds", bounds), ("refuses", refuses)):
        seen = check(card, rng)
        tell(name, not seen, seen)
        if name == "rows" and seen:
            return


def operator(directory: str, rng, stock: bool) -> None:
    import torch  # pylint: disable=import-outside-toplevel
    sys.path.insert(0, directory)
    __import__("lab8")
    torch.manual_seed(rng.randrange(1 << 30))
    shapes = [(4, 7), (6,), (2, 3, 5)]
    inputs = [torch.randn(shape) for shape in shapes] + [
        torch.randn(5, 6).t(), torch.arange(12, dtype=torch.int16).view(3, 4), torch.randn(0, 3)]
    if stock:
        try:
            torch.ops.lab8.roll(inputs[0], 3)
        except Exception as error:  # pylint: disable=broad-except
            return tell("by the card", not isinstance(error, NotImplementedError), error)
        return tell("by the card", False, "it returns a result without the card")
    for x in inputs:
        shift = rng.randrange(-20, 20)
        y = torch.ops.lab8.roll(x, shift)
        if not torch.equal(y, torch.roll(x, shift, -1)):
            return tell("operator", False, f"of {tuple(x.shape)} {x.dtype} by {shift}: {y}")
    tell("operator", True, "")


def main() -> None:
    part, directory, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
    rng = random.Random(f"{part} {seed}")
    if part == "engine":
        engine(rng)
        return
    try:
        operator(directory, rng, part == "stock")
    except Exception as error:  # pylint: disable=broad-except
        tell("by the card" if part == "stock" else "operator", False,
             f"{type(error).__name__}: {error}")


main()
