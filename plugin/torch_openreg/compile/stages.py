# SPDX-License-Identifier: BSD-3-Clause
"""
Orders the values of a program by stages. Reductions end a stage, and only their results reach
the next one: a later stage computes what it needs once more, or loads what an earlier stage
stored.
"""

import dataclasses
from typing import Optional

import sympy
from torch._inductor.virtualized import V

from .loops import Loops
from .values import STORED, Operand, Unsupported, Value

STAGES, REDUCTIONS = 4, 8

# The time of an instruction, in simple instructions. The others take 1.
_TIMES = dict.fromkeys(
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh "
    "atanh erf erfc lgamma sigmoid pow atan2 hypot fmod remainder".split(),
    8,
) | dict.fromkeys("div recip sqrt rsqrt div_floor".split(), 3)

# A value that takes longer is stored for later stages: in memory that the program writes
# later, or in a temporary.
_LONG, _TOO_LONG = 8, 24


def staged(code: list[Value], loops: Loops) -> list[Value]:
    """Returns the values in the order of their stages."""
    code = _with_results(code)
    if not any(v.is_reduction for v in code):
        return code
    return _Stages(code, loops).run()


def _with_results(code: list[Value]) -> list[Value]:
    """A reduction writes its own result, unless the program loads or stores there, too."""
    loaded = {v.aux.buffer for v in code if v.op == "load"}
    stored = [v.aux[0].buffer for v in code if v.op == "store"]
    outputs: dict[Value, dict[str, Operand]] = {}
    kept = []
    for v in code:
        source = v.args[0] if v.op == "store" else None
        if source is not None and (source.is_reduction or source.op == "position"):
            to = v.aux[0]
            own = to.buffer not in loaded and stored.count(to.buffer) == 1
            reduction = source if source.is_reduction else source.args[0]
            if own and outputs.setdefault(reduction, {}).setdefault(source.op, to) is to:
                continue
        kept.append(v)
    if any(a.op == "position" for v in kept for a in v.args):
        raise Unsupported("a position that is used in its program")
    kept = [v for v in kept if v.op != "position"]
    for v, to in outputs.items():
        v.aux = (to.get(v.op), to.get("position"))
    return kept


class _Stages:
    def __init__(self, code: list[Value], loops: Loops) -> None:
        self.code = code
        self.loops = loops
        self.place = {v: i for i, v in enumerate(code)}
        self.uniform: dict[Value, bool] = {}
        self.level: dict[Value, int] = {}  # the first stage in which the value can be
        for v in code:
            self.uniform[v] = self._is_uniform(v)
            self.level[v] = max((self.level[a] + a.is_reduction for a in v.args), default=0)
        self.roots = [v for v in code if v.writes]
        self._check_stores()
        self.stage = self._stages()
        self.done: dict[Value, int] = {}  # the first stage that computes the value
        self.copies: dict[Value, tuple[Operand, int]] = {}  # the last stage that has the copy
        self.borrowed: set[Operand] = set()
        self.temporaries = 0
        self.reductions: dict[Value, Value] = {}  # with the arguments of their stage
        self.lists: list[list[Value]] = []
        self.clones: list[dict[Value, Value]] = []

    def run(self) -> list[Value]:
        reductions = [v for v in self.code if v.is_reduction]
        count = 1 + max(self.stage.values())
        if count > STAGES or len(reductions) > REDUCTIONS:
            raise Unsupported(f"{count} stages with {len(reductions)} reductions")
        for s in range(count):
            self._stage(s)
        return [v for part in self.lists for v in part]

    # what is where

    def _folded(self, operand: Operand) -> list:
        """The strides along folded dimensions."""
        loops = self.loops
        equal = V.graph.sizevars.statically_known_equals
        both = list(zip(loops.size, operand.stride))[len(loops.size) - loops.folded :]
        return [step for size, step in both if not equal(size, 1)]

    def _is_uniform(self, v: Value) -> bool:
        if v.is_reduction or v.op == "imm":
            return True
        if v.op == "index":
            return v.aux < len(self.loops.size) - self.loops.folded
        if v.op == "load":
            return all(step == 0 for step in self._folded(v.aux))
        return all(self.uniform[a] for a in v.args)

    def _check_stores(self) -> None:
        for v in self.roots:
            if v.op != "store":
                continue
            zeros = [step == 0 for step in self._folded(v.aux[0])]
            if any(zeros) and not (all(zeros) and self.uniform[v.args[0]]):
                raise Unsupported("several points write one element")

    def _loads(self, root: Value) -> set[str]:
        """The buffers that the root's stage loads for it."""
        found, waiting, seen = set(), list(root.args), set()
        while waiting:
            v = waiting.pop()
            if v in seen or (v.is_reduction and v is not root):
                continue
            seen.add(v)
            waiting += v.args
            if v.op == "load":
                found.add(v.aux.buffer)
        return found

    def _stages(self) -> dict[Value, int]:
        """The stage of each root. A store comes after all loads of what was there before."""
        stage = {v: self.level[v] for v in self.code if v.writes or v.is_reduction}
        loads = {v: self._loads(v) for v in stage}
        again = True
        while again:
            again = False
            for v in stage:
                if v.op != "store":
                    continue
                least, buffer = stage[v], v.aux[0].buffer
                by_row = all(step == 0 for step in self._folded(v.aux[0]))
                for other in stage:
                    if other is not v and buffer in loads[other]:
                        least = max(least, stage[other] + by_row)
                    earlier = other.op == "store" and self.place[other] < self.place[v]
                    if earlier and other.aux[0].buffer == buffer:
                        least = max(least, stage[other])
                if least > stage[v]:
                    stage[v] = least
                    again = True
                if least >= STAGES:
                    raise Unsupported("a store after the last stage")
        return stage

    # one stage

    def _stage(self, s: int) -> None:
        roots = [v for v in self.code if self.stage.get(v) == s]
        here: dict[Value, Optional[Operand]] = {}  # an operand: the value is loaded from it
        waiting = [a for r in roots for a in r.args]
        while waiting:
            v = waiting.pop()
            if v in here or (v.is_reduction and self.stage[v] < s):
                continue
            here[v] = self._copy(v, s)
            if here[v] is None:
                waiting += v.args
        clones: dict[Value, Value] = dict(self.reductions)
        out: list[Value] = []
        self.lists.append(out)
        self.clones.append(clones)
        for v in self.code:
            if v in here and here[v] is not None:
                clones[v] = Value("load", v.type, aux=here[v], dtype=v.dtype)
                out.append(clones[v])
            elif v in here or (v.op == "store" and self.stage[v] == s):
                self._clone(v, s)
                if v in here:
                    self.done.setdefault(v, s)
                else:
                    self._remember(v, s)
        for v in roots:
            if v.is_reduction:
                self.reductions[v] = self._clone(v, s)

    def _clone(self, v: Value, s: int) -> Value:
        clones = self.clones[s]
        clones[v] = dataclasses.replace(v, args=tuple(clones[a] for a in v.args))
        self.lists[s].append(clones[v])
        return clones[v]

    def _remember(self, store: Value, s: int) -> None:
        """Later stages can load an exact value from where the program stores it."""
        value, to = store.args[0], store.aux[0]
        if self._is_own(to) and not self.uniform[value] and to.dtype is STORED[value.type]:
            self.copies.setdefault(value, (to, STAGES))

    def _is_own(self, to: Operand) -> bool:
        """Does one store only access the memory?"""
        return not any(
            v.aux.buffer == to.buffer if v.op == "load" else v.aux[0].buffer == to.buffer
            for v in self.code
            if v.op == "load" or (v.op == "store" and v.aux[0] is not to)
        )

    def _copy(self, v: Value, s: int) -> Optional[Operand]:
        """Memory that has the value, if that is better than to compute it once more."""
        if v in self.copies and s <= self.copies[v][1]:
            return self.copies[v][0]
        if v.op == "load" or v not in self.done or self.uniform[v] or self.done[v] == s:
            return None
        time = self._time(v)
        if time < _LONG:
            return None
        to, last = self._borrow(v, s)
        if to is None:
            if time < _TOO_LONG:
                return None
            name = f"%{self.temporaries}"
            self.temporaries += 1
            dense = self.loops.dense_stride()
            to = Operand(name, STORED[v.type], sympy.S.Zero, dense, written=True)
        first = self.done[v]
        kept, clone = self.lists[first], self.clones[first][v]
        store = Value("store", v.type, (clone,), (to,), v.dtype)
        kept.insert(kept.index(clone) + 1, store)
        self.copies[v] = (to, last)
        return to

    def _borrow(self, v: Value, s: int) -> tuple[Optional[Operand], int]:
        """Memory that a later store writes: loads of the value come before."""
        for store in self.roots:
            if store.op != "store" or self.stage[store] < s:
                continue
            to = store.aux[0]
            if (
                self.place[store] > self.place[v]
                and to not in self.borrowed
                and to.dtype is STORED[v.type]
                and not self.uniform[store.args[0]]
                and self._is_own(to)
            ):
                self.borrowed.add(to)
                return to, self.stage[store]
        return None, STAGES

    def _time(self, v: Value) -> int:
        if self.uniform[v] or v in self.copies:
            return 0 if self.uniform[v] else 1
        return _TIMES.get(v.op, 1) + sum(map(self._time, v.args))
