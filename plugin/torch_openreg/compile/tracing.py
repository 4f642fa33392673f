# SPDX-License-Identifier: BSD-3-Clause
"""Runs the bodies of loops, and records each operation as a Value."""

import contextlib
import math
from typing import Any, Callable, Optional

import sympy
import torch
from torch._inductor.codegen.common import Kernel
from torch._inductor.ops_handler import DefaultHandler
from torch._inductor.sizevars import SimplifyIndexing
from torch._inductor.virtualized import V
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from .loops import Loops
from .operations import Operations
from .values import (
    FLOATS,
    SCALAR_OPS,
    CpuScalar,
    Operand,
    Scalar,
    Unsupported,
    Value,
    vector_type,
)


class VectorKernel(Kernel):
    """The loops of some scheduler nodes as one list of values."""

    def __init__(self, nodes: list, trial: bool = False) -> None:
        super().__init__(increase_kernel_count=not trial)
        self.nodes = nodes
        self.trial = trial
        self.loops = Loops(nodes)
        self.code: list[Value] = []

    def __enter__(self) -> "VectorKernel":
        self.exit_stack.__enter__()
        self.exit_stack.enter_context(V.set_kernel_handler(self))
        return self

    def trace(self) -> None:
        tracer = Tracer(self)
        ranges = self.loops.var_ranges()
        with self, V.set_ops_handler(SimplifyIndexing(tracer, ranges)):
            for node, index in zip(self.nodes, self.loops.indices):
                with self.set_current_node(node):
                    node._body(*index)
        removed = self.removed_buffers
        self.code = [v for v in self.code if v.buffer is None or v.buffer not in removed]


def real_name(name: str) -> str:
    """Returns the buffer whose memory a name stands for."""
    scheduler = V.graph.scheduler
    return scheduler.mutation_real_name.get(name, name) if scheduler else name


class Tracer(Operations, DefaultHandler):
    """Inductor's operations. Operations has those that compute."""

    def __init__(self, kernel: VectorKernel) -> None:
        self.kernel = kernel
        self.stored: dict[str, tuple[sympy.Expr, Value]] = {}
        self.known: dict[Any, Value] = {}
        self.masked_by: Optional[Value] = None

    # values

    def emit(self, op: str, type: str, *args: Value, aux: Any = None, dtype=None) -> Value:
        simple = self._without_program(op, type, args, dtype)
        if simple is not None:
            return simple
        key = (op, type, tuple(map(id, args)), aux)
        if isinstance(aux, float):  # 0.0 == -0.0, and NaN != NaN
            key = (*key[:3], repr(aux), math.copysign(1, aux))
        elif isinstance(aux, int):
            key = (*key[:3], "int", aux)
        found = self.known.get((key, dtype))
        if found is None:
            found = Value(op, type, args, aux, dtype)
            self.known[(key, dtype)] = found
            self.kernel.code.append(found)
        return found

    def _without_program(self, op: str, type: str, args: tuple, dtype) -> Optional[Value]:
        """An argument that is the result, or a number that the call computes once."""
        if type not in FLOATS:
            return None
        if op == "mul":
            for x, y in (args, args[::-1]):
                one = y.op == "imm" and isinstance(y.aux, float) and y.aux == 1
                if one and x.dtype is dtype:
                    return x
        if op not in SCALAR_OPS or any(a.op != "imm" for a in args):
            return None
        if not any(isinstance(a.aux, (CpuScalar, Scalar)) for a in args):
            return None
        if any(isinstance(a.aux, sympy.Expr) for a in args):
            return None
        numbers = (repr(a.aux) if isinstance(a.aux, float) else a.aux for a in args)
        return self.emit("imm", type, aux=Scalar(op, type, tuple(numbers)), dtype=dtype)

    def number(self, value: Any, dtype: torch.dtype) -> Value:
        type = vector_type(dtype)
        if isinstance(value, (bool, int, float)):
            value = float(value) if type in FLOATS else int(value)
        return self.emit("imm", type, aux=value, dtype=dtype)

    # memory

    def load(self, name: str, index: sympy.Expr) -> Value:
        if name in self.stored:
            at, value = self.stored[name]
            if at != index:
                raise Unsupported(f"{name} is read at another place than it is written")
            return value
        dtype = V.graph.get_dtype(name)
        if self._is_cpu(name):
            return self.number(CpuScalar(name), dtype)
        offset, stride = self.kernel.loops.affine(index)
        if self.masked_by is not None:
            self._check_inside(name, offset, stride)
        self.kernel.args.input(name)
        operand = Operand(real_name(name), dtype, offset, stride)
        return self.emit("load", vector_type(dtype), aux=operand, dtype=dtype)

    def _is_cpu(self, name: str) -> bool:
        buffer = V.graph.try_get_buffer(name)
        device = buffer.get_device() if buffer is not None else None
        if device is None or device.type != "cpu":
            return False
        if len(buffer.get_size()) != 0:
            raise Unsupported(f"{name} is on the CPU")
        return True

    def _check_inside(self, name: str, offset, stride) -> None:
        """Masked-out points are loaded as well: their addresses must be in the buffer."""
        try:
            end = int(V.graph.try_get_buffer(name).get_layout().storage_size())
            first = last = int(offset)
            for step, size in zip(stride, self.kernel.loops.size):
                reach = int(step) * (int(size) - 1)
                first, last = first + min(reach, 0), last + max(reach, 0)
        except (TypeError, AttributeError):
            raise Unsupported("a masked load of unknown size") from None
        if first < 0 or last >= end:
            raise Unsupported("a masked load beyond the buffer")

    def store(self, name: str, index: sympy.Expr, value: Value, mode=None) -> None:
        if mode not in (None, "tma"):
            raise Unsupported(f"a store with {mode}")
        value = self.cast(value, V.graph.get_dtype(name), rounded=False)
        self._remember(name, index, value)
        self._write(name, index, value)

    def _remember(self, name: str, index: sympy.Expr, value: Value) -> None:
        kernel = self.kernel
        kernel.store_buffer_names.add(name)
        self.stored[name] = (index, value)
        if kernel.current_node and name in V.graph.name_to_buffer:
            for other in kernel.current_node.get_output(name).get_mutations():
                self.stored[other] = (index, value)

    def _write(self, name, index, value) -> None:
        kernel = self.kernel
        if name in V.graph.removed_buffers:
            return
        kernel.num_store += 1
        kernel.args.output(name)
        offset, stride = kernel.loops.affine(index)
        self._check_distinct(stride)
        dtype = V.graph.get_dtype(name)
        operand = Operand(real_name(name), dtype, offset, stride, written=True)
        kernel.code.append(
            Value("store", value.type, (value,), (operand,), dtype, buffer=name)
        )

    def _check_distinct(self, stride) -> None:
        """A written operand has no stride of 0 where the space has several rows."""
        loops = self.kernel.loops
        kept = len(loops.size) - loops.folded
        for step, size in list(zip(stride, loops.size))[:kept]:
            if step == 0 and not V.graph.sizevars.statically_known_equals(size, 1):
                raise Unsupported("several points write one element")

    def reduction(self, dtype, src_dtype, reduction_type: str, value) -> Any:
        op = {
            "sum": "red_sum",
            "prod": "red_prod",
            "max": "red_max",
            "min": "red_min",
            "any": "red_or",
            "argmax": "red_max",
            "argmin": "red_min",
        }.get(reduction_type)
        if op is None or not isinstance(value, Value):
            raise Unsupported(f"a reduction of kind {reduction_type}")
        if reduction_type.startswith("arg"):
            result = self.emit(op, value.type, value, dtype=value.dtype)
            return self.emit("position", "i64", result, dtype=torch.int64)
        value = (
            self.truth(value)
            if op == "red_or"
            else self.cast(value, dtype, rounded=False)
        )
        return self.emit(op, value.type, value, dtype=value.dtype)

    def store_reduction(self, name: str, index: sympy.Expr, value: Any) -> None:
        if value.op == "position" and V.graph.get_dtype(name) is not torch.int64:
            raise Unsupported("a position that is no int64")
        self.store(name, index, value)

    # indices

    def index_expr(self, expr: sympy.Expr, dtype: torch.dtype) -> Value:
        expr = sympy.expand(expr)
        if expr.is_integer:
            return self.cast(self._expr(expr), dtype)
        if any(var in expr.free_symbols for var in self.kernel.loops.vars):
            raise Unsupported(f"the expression {expr}")
        return self.cast(self.number(expr, torch.float64), dtype)

    value_expr = index_expr

    def _expr(self, expr: sympy.Expr) -> Value:
        loops = self.kernel.loops
        integer = torch.int64
        if expr in loops.vars:
            return self.emit("index", "i64", aux=loops.vars.index(expr), dtype=integer)
        if expr.is_Integer:
            return self.number(int(expr), integer)
        if not any(var in expr.free_symbols for var in loops.vars):
            return self.number(expr, integer)
        folds = {sympy.Add: "add", sympy.Mul: "mul", sympy.Max: "max", sympy.Min: "min"}
        for kind, op in folds.items():
            if isinstance(expr, kind):
                first, *rest = map(self._expr, expr.args)
                for other in rest:
                    first = self.emit(op, "i64", first, other, dtype=integer)
                return first
        if isinstance(expr, FloorDiv):
            a, b = map(self._expr, expr.args)
            return self.emit("div_floor", "i64", a, b, dtype=integer)
        if isinstance(expr, ModularIndexing):
            a, b, c = map(self._expr, expr.args)
            a = self.emit("div_floor", "i64", a, b, dtype=integer)
            return self.emit("remainder", "i64", a, c, dtype=integer)
        raise Unsupported(f"the expression {expr}")

    def masked(self, mask: Value, body: Callable, other: Any) -> Value:
        with self._under(mask):
            value = body()
        return self.where(mask, value, self.constant(other, value.dtype))

    @contextlib.contextmanager
    def _under(self, mask: Value):
        before, self.masked_by = self.masked_by, mask
        try:
            yield
        finally:
            self.masked_by = before

    def check_bounds(self, expr, size, lower, upper) -> None:
        raise Unsupported("an index that depends on data")

    def indirect_indexing(self, index, size, check=True, wrap_neg=True):
        raise Unsupported("an index that depends on data")

    def _default(self, name: str, args: tuple, kwargs: dict) -> Any:
        raise Unsupported(f"the operation {name}")
