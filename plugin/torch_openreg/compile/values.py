# SPDX-License-Identifier: BSD-3-Clause
"""The values of a program: each is assigned once, by one instruction."""

import dataclasses
from typing import Any, Optional

import sympy
import torch

FLOATS = ("f32", "f64")

# Float dtypes of fewer bits than the card computes in.
SHORT_FLOATS = (
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
)


# Their result is an i32, 0 or 1.
TESTS = ("eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite", "signbit")


class Unsupported(Exception):
    """A loop that a VECTOR program cannot express. The text is the reason."""


def vector_type(dtype: torch.dtype) -> str:
    """Returns the type in which the card computes on this dtype."""
    if dtype is torch.float32 or dtype in SHORT_FLOATS:
        return "f32"
    if dtype is torch.float64:
        return "f64"
    if dtype is torch.int64:
        return "i64"
    if dtype in (torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool):
        return "i32"
    raise Unsupported(f"the card does not compute on {dtype}")


# The dtype of a temporary that holds a value of this type.
STORED = {
    "f32": torch.float32,
    "f64": torch.float64,
    "i32": torch.int32,
    "i64": torch.int64,
}


@dataclasses.dataclass(frozen=True)
class Operand:
    """A strided view of a buffer over the program's space."""

    buffer: str
    dtype: torch.dtype
    offset: sympy.Expr
    stride: tuple[sympy.Expr, ...]
    written: bool = False


@dataclasses.dataclass(eq=False)
class Value:
    """
    One instruction. op is a name of the manual's table, computes_in its type: f32, f64, i32 or
    i64. type is the type of the result.

    aux is the Operand of load and store, the number of imm (a Python number, a sympy expression,
    or the name of a CPU scalar), the dimension of index, the type of cvt's source, the dtype
    of round, and the Operands of a reduction for its value and its position, if any. position is
    the place of a reduction's result, which only a store can use.
    """

    op: str
    computes_in: str
    args: tuple["Value", ...] = ()
    aux: Any = None
    dtype: Optional[torch.dtype] = None  # the tensor dtype that the value stands for
    buffer: Optional[str] = None  # of a store: the name that it defines

    @property
    def type(self) -> str:
        return "i32" if self.op in TESTS else self.computes_in

    @property
    def has_result(self) -> bool:
        return self.op != "store"

    @property
    def is_reduction(self) -> bool:
        return self.op.startswith("red_")

    @property
    def writes(self) -> bool:
        return self.op == "store" or (self.is_reduction and self.aux is not None)

    @property
    def outputs(self) -> list[Operand]:
        """The operands that it writes."""
        if not self.writes:
            return []
        return [self.aux[0]] if self.op == "store" else [o for o in self.aux if o is not None]


@dataclasses.dataclass(frozen=True)
class CpuScalar:
    """The number of a tensor on the CPU with no dimensions, read at each call."""

    buffer: str


# What a call can compute by itself, before the program.
SCALAR_OPS = ("add", "sub", "mul", "div", "neg", "recip", "sqrt", "pow")


@dataclasses.dataclass(frozen=True)
class Scalar:
    """
    The result of one operation on numbers of the call. args are CpuScalars, Scalars, and the
    texts of constants, because 0.0 equals -0.0 and NaN does not equal itself.
    """

    op: str
    type: str  # f32 or f64
    args: tuple
