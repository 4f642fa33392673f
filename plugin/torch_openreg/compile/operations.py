# SPDX-License-Identifier: BSD-3-Clause
"""Inductor's operations that compute, as VECTOR instructions."""

from typing import Any

import torch

from .values import FLOATS, SHORT_FLOATS, Unsupported, Value, vector_type

_NARROW = {torch.uint8: 8, torch.int8: 8, torch.int16: 16}

# Operations whose instruction has another name.
_FLOAT_UNARY = {
    name: name
    for name in (
        "exp exp2 expm1 sqrt rsqrt cos sin tan tanh sigmoid lgamma erf erfc cosh sinh "
        "acos acosh asin asinh atan atanh log log2 log10 log1p floor ceil trunc"
    ).split()
}
_FLOAT_UNARY |= {"reciprocal": "recip", "round": "rint"}
_UNARY = {"abs": "abs", "neg": "neg"}
_TESTS = {"isnan": "isnan", "isinf": "isinf"}
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_FLOAT_BINARY = {
    "truediv": "div",
    "div_rn": "div",
    "fmaximum": "fmax",
    "atan2": "atan2",
    "hypot": "hypot",
    "copysign": "copysign",
}
_BINARY = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "mul_rn": "mul",
    "minimum": "min",
    "maximum": "max",
    "fmod": "fmod",
    "mod": "fmod",
    "remainder": "remainder",
    "truncdiv": "div",
    "floordiv": "div_floor",
    "pow": "pow",
}
_BITS = {
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
    "and_": "and",
    "or_": "or",
    "xor": "xor",
}
_SHIFTS = {
    "bitwise_left_shift": "shl",
    "lshift": "shl",
    "bitwise_right_shift": "shr",
    "rshift": "shr",
}
_LOGICAL = {"logical_and": "and", "logical_or": "or", "logical_xor": "ne"}


class Operations:
    """Needs emit(op, type, *args, aux, dtype) and number(value, dtype)."""

    # casts

    def cast(self, value: Value, dtype: torch.dtype, rounded: bool = True) -> Value:
        """
        Converts as a tensor is converted. rounded: rounds to a half type; a store does this
        by itself.
        """
        source = value.dtype
        if source is dtype:
            return value
        if dtype is torch.bool:
            return self.truth(value)
        type = vector_type(dtype)
        if value.type != type:
            value = self.emit("cvt", type, value, aux=value.type, dtype=dtype)
        if dtype in SHORT_FLOATS and rounded and source is not torch.bool:
            value = self.emit("round", type, value, aux=dtype, dtype=dtype)
        if dtype in _NARROW and source is not torch.bool:
            value = self.narrow(value, dtype)
        return self._as(value, dtype)

    def _as(self, value: Value, dtype: torch.dtype) -> Value:
        if value.dtype is dtype:
            return value
        return self.emit("mov", value.type, value, dtype=dtype)

    def narrow(self, value: Value, dtype: torch.dtype) -> Value:
        """Keeps the low bits: the card computes small integers in 32 bits."""
        bits = _NARROW[dtype]
        i32 = torch.int32
        if dtype is torch.uint8:
            return self.emit("and", "i32", value, self.number(255, i32), dtype=dtype)
        shift = self.number(32 - bits, i32)
        up = self.emit("shl", "i32", value, shift, dtype=i32)
        return self.emit("shr", "i32", up, shift, dtype=dtype)

    def truth(self, value: Value) -> Value:
        if value.dtype is torch.bool:
            return value
        zero = self.number(0, value.dtype)
        return self.emit("ne", value.type, value, zero, dtype=torch.bool)

    def to_dtype(self, x, dtype, src_dtype=None, use_compute_types=True) -> Value:
        """use_compute_types is False where the option emulate_precision_casts asks for the
        rounding of eager mode. A value of a half type is unrounded otherwise."""
        if not use_compute_types and dtype is x.dtype and dtype in SHORT_FLOATS:
            rounded = x.op in ("load", "round")
            return x if rounded else self.emit("round", x.type, x, aux=dtype, dtype=dtype)
        return self.cast(x, dtype)

    def constant(self, value: Any, dtype: torch.dtype) -> Value:
        if isinstance(value, Value):
            return self.cast(value, dtype)
        return self.number(bool(value) if dtype is torch.bool else value, dtype)

    def identity(self, x: Value) -> Value:
        return x

    # types

    def match(self, *values: Any) -> list[Value]:
        """Converts operands to their common type, as torch promotes tensors."""
        known = [v for v in values if isinstance(v, Value)]
        dtype = known[0].dtype
        for v in known[1:]:
            dtype = torch.promote_types(dtype, v.dtype)
        if any(isinstance(v, float) for v in values) and not dtype.is_floating_point:
            dtype = torch.float32
        return [
            self.cast(v, dtype) if isinstance(v, Value) else self.number(v, dtype)
            for v in values
        ]

    def as_float(self, x: Value) -> Value:
        return x if x.type in FLOATS else self.cast(x, torch.float32)

    def result(self, op: str, *args: Value) -> Value:
        """The instruction, in the type of its operands."""
        dtype = args[0].dtype
        if dtype is torch.bool and op in ("add", "sub", "mul", "neg"):
            raise Unsupported(f"{op} of truth values")
        value = self.emit(op, args[0].type, *args, dtype=dtype)
        return self.narrow(value, dtype) if dtype in _NARROW else value

    # operations that are not one instruction

    def relu(self, x: Value) -> Value:
        return self.maximum(x, self.number(0, x.dtype))

    def square(self, x: Value) -> Value:
        return self.mul(x, x)

    def fma(self, x: Value, y: Value, z: Value) -> Value:
        return self.result("fma", *self.match(x, y, z))

    def where(self, condition: Value, a: Any, b: Any) -> Value:
        condition = self.truth(condition)
        a, b = self.match(a, b)
        return self.emit("select", a.type, condition, a, b, dtype=a.dtype)

    def int_truediv(self, a: Value, b: Value) -> Value:
        a, b = self.match(a, b)
        return self.result("div", self.as_float(a), self.as_float(b))

    def sign(self, x: Value) -> Value:
        """The card's sign of NaN is NaN; core's is 0."""
        found = self.result("sign", x)
        return self.where(self.isnan(x), 0.0, found) if x.type in FLOATS else found

    def signbit(self, x: Value) -> Value:
        return self.emit("signbit", x.type, x, dtype=torch.bool)

    def logical_not(self, x: Value) -> Value:
        zero = self.number(0, x.dtype)
        return self.emit("eq", x.type, x, zero, dtype=torch.bool)

    def bitwise_not(self, x: Value) -> Value:
        if x.dtype is torch.bool:
            return self.logical_not(x)
        return self.result("not", x)

    def trunc_to_int(self, x: Value, dtype: torch.dtype) -> Value:
        return self.cast(x, dtype)

    def floor_to_int(self, x: Value, dtype: torch.dtype) -> Value:
        return self.cast(self.floor(x), dtype)

    def ceil_to_int(self, x: Value, dtype: torch.dtype) -> Value:
        return self.cast(self.ceil(x), dtype)

    def round_to_int(self, x: Value, dtype: torch.dtype) -> Value:
        return self.cast(self.round(x), dtype)


def _install() -> None:
    """Adds the operations that are one instruction."""

    def define(names: dict, make) -> None:
        for name, op in names.items():
            setattr(Operations, name, make(op))

    def float_unary(op):
        return lambda self, x: self.result(op, self.as_float(x))

    def unary(op):
        return lambda self, x: self.result(op, x)

    def test(op):
        def run(self, x):
            if x.type not in FLOATS:
                return self.number(0, torch.bool)
            return self.emit(op, x.type, x, dtype=torch.bool)

        return run

    def comparison(op):
        def run(self, a, b):
            a, b = self.match(a, b)
            return self.emit(op, a.type, a, b, dtype=torch.bool)

        return run

    def float_binary(op):
        def run(self, a, b):
            a, b = self.match(a, b)
            return self.result(op, self.as_float(a), self.as_float(b))

        return run

    def binary(op):
        return lambda self, a, b: self.result(op, *self.match(a, b))

    def logical(op):
        def run(self, a, b):
            return self.emit(op, "i32", self.truth(a), self.truth(b), dtype=torch.bool)

        return run

    define(_FLOAT_UNARY, float_unary)
    define(_UNARY, unary)
    define(_TESTS, test)
    define({name: name for name in _COMPARISONS}, comparison)
    define(_FLOAT_BINARY, float_binary)
    define(_BINARY, binary)
    define(_BITS, binary)
    define(_SHIFTS, binary)
    define(_LOGICAL, logical)


_install()
