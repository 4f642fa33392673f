# SPDX-License-Identifier: BSD-3-Clause
"""Writes the body of a loop as lines of torch operators, for eager.loop()."""

import re
from typing import Any, Callable, Optional

import sympy
import torch
from torch._inductor.codegen.common import Kernel, PythonPrinter
from torch._inductor.ops_handler import DefaultHandler
from torch._inductor.sizevars import SimplifyIndexing
from torch._inductor.utils import sympy_index_symbol
from torch._inductor.virtualized import V

from .values import SHORT_FLOATS

_RENAMED = {
    "fmaximum": "fmax",
    "truediv": "true_divide",
    "div_rn": "true_divide",
    "int_truediv": "true_divide",
    "mod": "fmod",
    "mul_rn": "mul",
    "and_": "bitwise_and",
    "or_": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
    "where": "where",
    "modified_bessel_i0": "special.modified_bessel_i0",
}
_ROUNDED = {"truncdiv": "trunc", "floordiv": "floor"}
_TO_INT = {
    "trunc_to_int": "trunc",
    "floor_to_int": "floor",
    "ceil_to_int": "ceil",
    "round_to_int": "round",
}
_REDUCTIONS = {"sum": "sum", "prod": "prod", "max": "amax", "min": "amin", "any": "any"}


class _Printer(PythonPrinter):
    """Max and Min of tensors."""

    def _print_Max(self, expr: sympy.Expr) -> str:
        return f"eager.fold(torch.maximum, {', '.join(map(self._print, expr.args))})"

    def _print_Min(self, expr: sympy.Expr) -> str:
        return f"eager.fold(torch.minimum, {', '.join(map(self._print, expr.args))})"


class CannotRun(Exception):
    """A loop that has no form in torch operators either."""


class EagerKernel(Kernel):
    def __init__(self, node) -> None:
        super().__init__()
        self.node = node
        ranges = node.get_ranges()
        self.size = [*ranges[0], *ranges[1]]
        self.kept = len(ranges[0])
        self.vars = [sympy_index_symbol(f"i{d}") for d in range(len(self.size))]
        self.lines: list[str] = []
        self.buffers: list[str] = []
        self.symbols: list[sympy.Symbol] = []

    def __enter__(self) -> "EagerKernel":
        self.exit_stack.__enter__()
        self.exit_stack.enter_context(V.set_kernel_handler(self))
        return self

    def trace(self) -> None:
        handler = SimplifyIndexing(Lines(self), dict(zip(self.vars, self.size)))
        with self, V.set_ops_handler(handler), self.set_current_node(self.node):
            self.node._body(self.vars[: self.kept], self.vars[self.kept :])

    def text(self) -> str:
        parameters = [f"b{i}" for i in range(len(self.buffers))]
        parameters += [str(s) for s in self.symbols]
        lines = [f"def run({', '.join(parameters)}):"]
        lines.append(f"    size = {self.tuple(self.size)}")
        count = len(self.size)
        for d, var in enumerate(self.vars):
            shape = ", ".join("-1" if e == d else "1" for e in range(count))
            lines.append(
                f"    {var} = torch.arange(size[{d}], device=b0.device).view({shape})"
            )
        used = set(re.findall(r"\w+", " ".join(self.lines)))
        keep = [line for line in lines[2:] if line.split()[0] in used]
        return "\n".join([*lines[:2], *keep, *("    " + line for line in self.lines)])

    def expr(self, expr: Any) -> str:
        expr = sympy.sympify(expr)
        for symbol in sorted(expr.free_symbols, key=str):
            name = str(symbol)
            if symbol not in self.vars and not name.startswith("v"):
                if symbol not in self.symbols:
                    self.symbols.append(symbol)
        return _Printer().doprint(expr)

    def tuple(self, exprs) -> str:
        return "(" + "".join(self.expr(e) + ", " for e in exprs) + ")"

    def buffer(self, name: str) -> str:
        scheduler = V.graph.scheduler
        name = scheduler.mutation_real_name.get(name, name) if scheduler else name
        if name not in self.buffers:
            self.buffers.append(name)
        return f"b{self.buffers.index(name)}"


class Lines(DefaultHandler):
    """Each operation is a line; its value is the name of a variable."""

    def __init__(self, kernel: EagerKernel) -> None:
        self.kernel = kernel
        self.count = 0
        self.mask: Optional[str] = None

    def put(self, text: str) -> str:
        name = f"v{self.count}"
        self.count += 1
        self.kernel.lines.append(f"{name} = {text}")
        return name

    def affine(self, index: sympy.Expr) -> Optional[tuple]:
        kernel = self.kernel
        index = sympy.expand(index)
        stride, rest = [], index
        for var in kernel.vars:
            step = index.coeff(var)
            rest = rest - step * var
            stride.append(step)
        rest = sympy.expand(rest)
        for expr in (rest, *stride):
            for symbol in expr.free_symbols:
                if symbol in kernel.vars or str(symbol).startswith("v"):
                    return None
        return stride, rest

    def load(self, name: str, index: sympy.Expr) -> str:
        kernel = self.kernel
        kernel.args.input(name)
        buffer = kernel.buffer(name)
        place = self.affine(index) if self.mask is None else None
        if place is None:
            mask = "" if self.mask is None else f", {self.mask}"
            return self.put(f"eager.gather({buffer}, {kernel.expr(index)}{mask})")
        stride, offset = place
        return self.put(
            f"eager.load({buffer}, size, {kernel.tuple(stride)}, {kernel.expr(offset)})"
        )

    def store(self, name: str, index: sympy.Expr, value: str, mode=None) -> None:
        self._store(name, index, value, mode, list(self.kernel.size))

    def _store(self, name, index, value, mode, size) -> None:
        kernel = self.kernel
        if mode not in (None, "tma", "atomic_add"):
            raise CannotRun(f"a store with {mode}")
        if name in V.graph.removed_buffers:  # the result of device_assert_async
            return
        kernel.store_buffer_names.add(name)
        kernel.num_store += 1
        kernel.args.output(name)
        buffer = kernel.buffer(name)
        place = self.affine(index)
        if place is None or mode == "atomic_add":
            add = mode == "atomic_add"
            line = (
                f"eager.scatter({buffer}, {kernel.expr(index)}, {value}, "
                f"{kernel.tuple(size)}, {add})"
            )
        else:
            stride, offset = place
            line = (
                f"eager.view({buffer}, {kernel.tuple(size)}, {kernel.tuple(stride)}, "
                f"{kernel.expr(offset)}).copy_({value})"
            )
        kernel.lines.append(line)

    def reduction(self, dtype, src_dtype, reduction_type: str, value: Any) -> Any:
        kernel = self.kernel
        dims = tuple(range(kernel.kept, len(kernel.size)))
        if reduction_type == "welford_reduce":
            value = self.put(f"{value}.expand(size)")
            return tuple(
                self.put(f"eager.welford({value}, {dims})[{i}]") for i in range(3)
            )
        value = self.put(f"{value}.expand(size)")
        if reduction_type in ("argmax", "argmin"):
            return self.put(f"eager.position({value}, {dims}, {reduction_type!r})")
        op = _REDUCTIONS.get(reduction_type)
        if op is None:
            raise CannotRun(f"a reduction of kind {reduction_type}")
        if op == "prod":
            for d in dims:
                value = self.put(f"{value}.prod({d}, keepdim=True)")
            return value
        return self.put(f"{value}.{op}({dims}, keepdim=True)")

    def store_reduction(self, name: str, index: sympy.Expr, value: str) -> None:
        kernel = self.kernel
        size = [*kernel.size[: kernel.kept], *(sympy.S.One for _ in kernel.vars[kernel.kept :])]
        self._store(name, index, value, None, size)

    def index_expr(self, expr: sympy.Expr, dtype: torch.dtype) -> str:
        text = self.kernel.expr(expr)
        return self.put(f"torch.as_tensor({text}, device=b0.device).to({dtype})")

    value_expr = index_expr

    def constant(self, value: Any, dtype: torch.dtype) -> str:
        if isinstance(value, sympy.Expr):
            return self.index_expr(value, dtype)
        text = repr(value) if value == value and abs(value) != float("inf") else f"float('{value}')"
        compute = torch.float32 if dtype in SHORT_FLOATS else dtype
        return self.put(f"torch.full((), {text}, dtype={compute}, device=b0.device)")

    def to_dtype(self, x, dtype, src_dtype=None, use_compute_types=True) -> str:
        return self.put(f"eager.to({x}, {dtype})")

    def to_dtype_bitcast(self, x, dtype, src_dtype) -> str:
        return self.put(f"eager.bitcast({x}, {dtype}, {src_dtype})")

    def identity(self, x: str) -> str:
        return x

    def fma(self, x: str, y: str, z: str) -> str:
        return self.put(f"{x} * {y} + {z}")

    def frexp(self, x: str) -> tuple[str, str]:
        both = self.put(f"torch.frexp({x})")
        return self.put(f"{both}[0]"), self.put(f"{both}[1]")

    def masked(self, mask: str, body: Callable, other: Any) -> str:
        before = self.mask
        self.mask = mask if before is None else self.put(f"{before} & {mask}")
        value = body()
        self.mask = before
        other = repr(other) if other == other and abs(other) != float("inf") else f"float('{other}')"
        return self.put(f"torch.where({mask}, {value}, {other})")

    def indirect_indexing(self, index, size, check=True, wrap_neg=True) -> sympy.Symbol:
        mask = "" if self.mask is None else f", {self.mask}"
        size = self.kernel.expr(size)
        name = self.put(f"eager.wrap({index}, {size}, {check}, {wrap_neg}{mask})")
        return sympy_index_symbol(name)

    def check_bounds(self, expr, size, lower, upper) -> None:
        pass  # wrap() checks

    def device_assert_async(self, condition: str, msg: str) -> None:
        self.kernel.lines.append(f"torch._assert_async({condition}.all(), {msg!r})")

    def _default(self, name: str, args: tuple, kwargs: dict) -> str:
        if kwargs or not all(isinstance(a, (str, int, float)) for a in args):
            if name in _TO_INT:
                return self.put(f"eager.to(torch.{_TO_INT[name]}({args[0]}), {args[1]})")
            raise CannotRun(f"the operation {name}")
        text = ", ".join(map(str, args))
        if name in _ROUNDED:
            return self.put(f"torch.div({text}, rounding_mode='{_ROUNDED[name]}')")
        path = _RENAMED.get(name, name)
        for module, prefix in ((torch, "torch"), (torch.special, "torch.special")):
            if callable(getattr(module, path, None)):
                return self.put(f"{prefix}.{path}({text})")
        raise CannotRun(f"the operation {name}")
