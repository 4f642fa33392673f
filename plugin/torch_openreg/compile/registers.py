# SPDX-License-Identifier: BSD-3-Clause
"""Values to registers, and programs that are too large for a packet to several."""

import dataclasses
import struct
from typing import Any, Optional

import sympy

from .loops import Loops
from .stages import staged
from .values import STORED, CpuScalar, Operand, Scalar, Unsupported, Value

REGISTERS, INSTRUCTIONS, OPERANDS, IMMEDIATES, DIMS = 16, 64, 16, 16, 8


@dataclasses.dataclass
class Instruction:
    op: str
    type: str
    dst: Optional[int]
    args: list[int]
    # Number of an operand, of an immediate or of a dimension; a type; the two operands of a
    # reduction.
    aux: Any = None


@dataclasses.dataclass
class Part:
    """One program: its packet's parts."""

    operands: list[Operand]
    imms: list[tuple[str, Any]]
    instructions: list[Instruction]


class _Full(Exception):
    """The values do not fit into one program."""


def parts_of(code: list[Value], loops: Loops) -> list[Part]:
    """Returns programs that together do the work of the code, in order."""
    code = staged(_live(_without_moves(code)), loops)
    if not any(v.is_reduction for v in code[:-1]):
        return _split(code, loops, 0)
    try:
        return [_assign(code)]
    except _Full:
        raise Unsupported("several reductions that do not fit into a packet") from None


def fits(code: list[Value], loops: Loops) -> bool:
    try:
        _assign(staged(_live(_without_moves(code)), loops))
        return True
    except (_Full, Unsupported):
        return False


def _without_moves(code: list[Value]) -> list[Value]:
    """A mov only gives a value another dtype."""
    source: dict[Value, Value] = {}
    kept = []
    for v in code:
        args = tuple(source.get(a, a) for a in v.args)
        if v.op == "mov":
            source[v] = args[0]
            continue
        if args != v.args:
            new = dataclasses.replace(v, args=args)
            source[v] = new
            v = new
        kept.append(v)
    return kept


def _live(code: list[Value]) -> list[Value]:
    """Drops values that nothing reads."""
    needed: set[Value] = set()
    kept = []
    for v in reversed(code):
        if v.writes or v in needed:
            needed.update(v.args)
            kept.append(v)
    kept.reverse()
    return kept


def _written(code: list[Value]) -> set[str]:
    return {o.buffer for v in code for o in v.outputs}


def _split(code: list[Value], loops: Loops, temporaries: int) -> list[Part]:
    try:
        return [_assign(code)]
    except _Full:
        pass
    best = None
    low, high = 1, len(code) - 1
    while low <= high:  # the longest first part that fits
        middle = (low + high) // 2
        first, rest = _cut(code, middle, loops, temporaries)
        try:
            best = (_assign(first), rest, middle)
            low = middle + 1
        except _Full:
            high = middle - 1
    if best is None or len(best[1]) >= len(code):
        raise Unsupported("a program that does not fit into packets")
    part, rest, _ = best
    used = temporaries + len({o.buffer for o in part.operands if o.buffer[0] == "%"})
    return [part, *_split(rest, loops, used)]


def _cut(code, at: int, loops: Loops, temporaries: int):
    """Passes the values that are live at a place through temporary memory."""
    first, rest = code[:at], code[at:]
    written = _written(code)
    defined = set(first)
    again: dict[Value, Value] = {}
    head: list[Value] = []
    stores: list[Value] = []
    for v in rest:
        for a in v.args:
            if a not in defined or a in again:
                continue
            if _repeatable(a, written):
                again[a] = dataclasses.replace(a)
            else:
                name = f"%{temporaries + len(stores)}"
                stride = loops.dense_stride()
                operand = Operand(name, STORED[a.type], sympy.S.Zero, stride)
                to = dataclasses.replace(operand, written=True)
                stores.append(Value("store", a.type, (a,), (to,), a.dtype))
                again[a] = Value("load", a.type, aux=operand, dtype=a.dtype)
            head.append(again[a])
    moved = []
    for v in rest:
        new = dataclasses.replace(v, args=tuple(again.get(a, a) for a in v.args))
        again[v] = new
        moved.append(new)
    return _live(first + stores), head + moved


def _repeatable(v: Value, written: set[str]) -> bool:
    """Computing the value once more is as cheap as a register, and gives the same."""
    if v.op == "load":
        return v.aux.buffer not in written
    return v.op in ("imm", "index")


def imm_bits(type: str, value: Any) -> Any:
    """Returns the bits of a known immediate, or the expression."""
    if isinstance(value, (sympy.Expr, CpuScalar, Scalar)):
        return (type[0], value)
    if type[0] == "f":
        return struct.unpack("<Q", struct.pack("<d", value))[0]
    return value & (1 << 64) - 1


class _Assigner:
    def __init__(self, code: list[Value]) -> None:
        self.code = code
        self.written = _written(code)
        self.operands: dict[Operand, int] = {}
        self.imms: dict[Any, int] = {}
        self.imm_values: list[tuple[str, Any]] = []
        self.instructions: list[Instruction] = []
        self.register: dict[Value, int] = {}
        self.free = list(range(REGISTERS - 1, -1, -1))
        self.uses: dict[Value, list[int]] = {}
        for place, v in enumerate(code):
            for a in v.args:
                self.uses.setdefault(a, []).append(place)

    def run(self) -> Part:
        stage_end = 0
        for place, v in enumerate(self.code):
            if v.is_reduction:
                if place >= stage_end:
                    stage_end = self.reductions(place)
                continue
            if v.has_result and _repeatable(v, self.written):
                continue  # comes before its first reader
            for a in v.args:
                if a not in self.register:
                    self.take(a, place, v.args)
                    self.put(a)
            args = [self.register[a] for a in v.args]
            for a in set(v.args):
                self.uses[a] = [u for u in self.uses[a] if u > place]
                if not self.uses[a]:
                    self.free.append(self.register.pop(a))
            if v.has_result:
                self.take(v, place, ())
            self.put(v, args)
        return Part(list(self.operands), self.imm_values, self.instructions)

    def reductions(self, place: int) -> int:
        """The reductions that end a stage. Returns the place behind them."""
        end = place
        while end < len(self.code) and self.code[end].is_reduction:
            end += 1
        group = self.code[place:end]
        sources = tuple(v.args[0] for v in group)
        for a in sources:
            if a not in self.register:
                self.take(a, place, sources)
                self.put(a)
        registers = [self.register[a] for a in sources]
        for a in set(sources):
            self.free.append(self.register.pop(a))
        for v, register in zip(group, registers):
            if end < len(self.code):
                self.take(v, place, ())
            self.put(v, [register])
        for v in group:
            if v in self.register and v not in self.uses:
                self.free.append(self.register.pop(v))
        return end

    def take(self, v: Value, place: int, needed: tuple) -> None:
        if not self.free:
            spare = [
                a
                for a in self.register
                if a not in needed and _repeatable(a, self.written)
            ]
            if not spare:
                raise _Full
            victim = max(spare, key=lambda a: self.uses[a][0])
            self.free.append(self.register.pop(victim))
        self.free.sort(reverse=True)
        self.register[v] = self.free.pop()

    def put(self, v: Value, args: Optional[list[int]] = None) -> None:
        aux = v.aux
        if v.op == "load":
            aux = self.operand(v.aux)
        elif v.op == "imm":
            aux = self.imm(v.type, v.aux)
        elif v.op == "store":
            aux = self.operand(v.aux[0])
        elif v.is_reduction:
            aux = tuple(None if o is None else self.operand(o) for o in v.aux or (None, None))
        if len(self.instructions) == INSTRUCTIONS:
            raise _Full
        self.instructions.append(
            Instruction(v.op, v.computes_in, self.register.get(v), args or [], aux)
        )

    def operand(self, operand: Operand) -> int:
        number = self.operands.setdefault(operand, len(self.operands))
        if number == OPERANDS:
            raise _Full
        return number

    def imm(self, type: str, value: Any) -> int:
        number = self.imms.setdefault(imm_bits(type, value), len(self.imms))
        if number == IMMEDIATES:
            raise _Full
        if number == len(self.imm_values):
            self.imm_values.append((type, value))
        return number


def _assign(code: list[Value]) -> Part:
    return _Assigner(code).run()


def merge_dims(parts: list[Part], loops: Loops, equal) -> tuple[list, int]:
    """Drops dimensions of size 1, and merges those that all operands walk as one. Returns
    the sizes and the number of folded dimensions."""
    size, folded = list(loops.size), loops.folded
    indexed = {i.aux for p in parts for i in p.instructions if i.op == "index"}
    numbers = list(range(len(size)))

    def drop(d: int) -> None:
        del size[d], numbers[d]
        for p in parts:
            p.operands = [
                dataclasses.replace(o, stride=o.stride[:d] + o.stride[d + 1 :])
                for o in p.operands
            ]

    for d in range(len(size) - 1, -1, -1):
        first_folded = len(size) - folded
        if equal(size[d], 1) and numbers[d] not in indexed and not (
            d >= first_folded and folded == 1
        ):
            folded -= d >= first_folded
            drop(d)
    for d in range(len(size) - 2, -1, -1):
        if d + 1 == len(size) - folded or {numbers[d], numbers[d + 1]} & indexed:
            continue
        if all(
            equal(o.stride[d], o.stride[d + 1] * size[d + 1])
            for p in parts
            for o in p.operands
        ):
            size[d + 1] = size[d] * size[d + 1]
            folded -= d >= len(size) - folded
            drop(d)
    for p in parts:
        for i in p.instructions:
            if i.op == "index":
                i.aux = numbers.index(i.aux)
    if len(size) > DIMS:
        raise Unsupported(f"a space of {len(size)} dimensions")
    return size, folded
