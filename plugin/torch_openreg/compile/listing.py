# SPDX-License-Identifier: BSD-3-Clause
"""
Writes programs as text, for the generated code. assembler.py reads it.

    space 64 128 fold 1
    operand 0 in float32 offset 0 stride 128 1
    operand 1 out float32 offset 0 stride 1 0
    r0 = load.f32 [0]
    r1 = imm.f32 2.5
    r0 = mul.f32 r0, r1
    red_sum.f32 [1], r0

An operand has the number of the call's tensor. $0 is the first number of the call. %0 is a
temporary, which a program stores, and which a later stage or program loads.

A reduction stores its value to an operand, keeps it in a register for the next stages, or both:

    r1 = red_max.f32 [1], r0, position [2]

A call computes s0 from its numbers, once, before the program:

    s0 = pow.f32 0.9, $0
    r1 = imm.f32 s0
"""

import struct
from typing import Any, Callable

import sympy

from .registers import Part, imm_bits
from .values import CpuScalar, Scalar


class Listing:
    def __init__(self, parts: list[Part], size: list, folded: int) -> None:
        self.tensors: list[str] = []  # names of buffers
        self.numbers: list[Any] = []  # (type, expression or CpuScalar)
        lines: list[str] = []
        for part in parts:
            lines += self._part(part, size, folded)
        self.text = "\n".join(lines)

    def _part(self, part: Part, size: list, folded: int) -> list[str]:
        space = " ".join(self._integer(s) for s in size)
        lines = [f"space {space}" + (f" fold {folded}" if folded else "")]
        for o in part.operands:
            way = "out" if o.written else "in"
            stride = " ".join(map(self._integer, o.stride))
            lines.append(
                f"operand {self._tensor(o.buffer)} {way} {str(o.dtype)[6:]} "
                f"offset {self._integer(o.offset)} stride {stride}"
            )
        self.scalars: dict[Scalar, int] = {}
        self.scalar_lines: list[str] = []
        code = [self._instruction(i, part) for i in part.instructions]
        return [*lines, *self.scalar_lines, *code]

    def _instruction(self, i, part: Part) -> str:
        args = [f"r{a}" for a in i.args]
        if i.op == "load":
            args = [f"[{i.aux}]"]
        elif i.op == "store":
            args = [f"[{i.aux}]", *args]
        elif i.op.startswith("red_"):
            value, position = i.aux
            args = ([] if value is None else [f"[{value}]"]) + args
            args += [] if position is None else [f"position [{position}]"]
        elif i.op == "imm":
            args = [self._imm(i.type, *part.imms[i.aux])]
        elif i.op == "index":
            args = [str(i.aux)]
        elif i.op == "round":
            args.append(str(i.aux)[6:])
        elif i.op == "cvt":
            args.append(i.aux)
        line = f"{i.op}.{i.type} {', '.join(args)}"
        return line if i.dst is None else f"r{i.dst} = {line}"

    def _tensor(self, buffer: str) -> str:
        if buffer[0] == "%":
            return buffer
        if buffer not in self.tensors:
            self.tensors.append(buffer)
        return str(self.tensors.index(buffer))

    def _integer(self, expr: Any) -> str:
        expr = sympy.sympify(expr)
        return str(expr) if expr.is_Integer else self._number("i64", expr)

    def _imm(self, type: str, stored: str, value: Any) -> str:
        """An immediate may have been added for another type with the same bits."""
        if isinstance(value, sympy.Expr) and value.is_number:
            value = float(value) if stored[0] == "f" else int(value)
        if isinstance(value, (sympy.Expr, CpuScalar)):
            return self._number(type, value)
        if isinstance(value, Scalar):
            return self._scalar(value)
        bits = struct.pack("<Q", imm_bits(stored, value))
        return repr(struct.unpack("<d" if type[0] == "f" else "<q", bits)[0])

    def _scalar(self, value: Scalar) -> str:
        if value not in self.scalars:
            args = [a if isinstance(a, str) else self._imm(value.type, "", a) for a in value.args]
            name = f"s{len(self.scalars)}"
            self.scalars[value] = len(self.scalars)
            self.scalar_lines.append(f"{name} = {value.op}.{value.type} {', '.join(args)}")
        return f"s{self.scalars[value]}"

    def _number(self, type: str, value: Any) -> str:
        entry = (type[0], value)
        if entry not in self.numbers:
            self.numbers.append(entry)
        return f"${self.numbers.index(entry)}"

    def arguments(self, name_of: Callable, print_expr: Callable) -> list[str]:
        """The call's arguments: tensors, then numbers."""
        found = [name_of(name) for name in self.tensors]
        for kind, value in self.numbers:
            if isinstance(value, CpuScalar):
                text = f"{value.buffer}.item()"
            else:
                text = print_expr(value)
            found.append(f"{'float' if kind == 'f' else 'int'}({text})")
        return found
