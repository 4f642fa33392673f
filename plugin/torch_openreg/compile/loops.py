# SPDX-License-Identifier: BSD-3-Clause
"""One iteration space for several loops over the same number of elements."""

from typing import Optional, Sequence

import sympy
from torch._inductor.utils import sympy_index_symbol, sympy_product
from torch._inductor.virtualized import V
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from .values import Unsupported


class Loops:
    """
    The common space of scheduler nodes: dimensions row-major, of which the last are folded by
    reductions. A node without a reduction has a value for each point, or one for each row: for
    the points that a reduction folds. indices[i] are the expressions for the loop variables of
    node i.
    """

    def __init__(self, nodes: Sequence) -> None:
        ranges = [node.get_ranges() for node in nodes]
        reduction = next((r for r in ranges if len(r[1])), None)
        for r in ranges:
            if len(r[1]) and not _same_rows(r, reduction):
                raise Unsupported("reductions over different dimensions")
        by_row = [_is_by_row(r, reduction) for r in ranges]
        if all(_same(r, ranges[0]) for r in ranges) and not any(map(_cuts, nodes)):
            self.size = [*ranges[0][0], *ranges[0][1]]
            self.folded = len(ranges[0][1])
        else:
            self.size, self.folded = _common(nodes, ranges, by_row, reduction)
        self.vars = [sympy_index_symbol(f"i{d}") for d in range(len(self.size))]
        self.indices = [self._indices(r, row) for r, row in zip(ranges, by_row)]

    def var_ranges(self) -> dict:
        return dict(zip(self.vars, self.size))

    def dense_stride(self) -> tuple:
        stride, step = [], sympy.S.One
        for size in reversed(self.size):
            stride.insert(0, step)
            step = step * size
        return tuple(stride)

    def _indices(self, ranges: Sequence, by_row: bool) -> tuple[list, list]:
        flat = [*ranges[0], *ranges[1]]
        found, at = [], len(self.size) - (self.folded if by_row else 0)
        for r in reversed(flat):  # innermost first
            index, step = sympy.S.Zero, sympy.S.One
            while at and not _equal(step, r):
                at -= 1
                index += self.vars[at] * step
                step *= self.size[at]
            if not _equal(step, r):
                raise Unsupported(f"a loop of {r} does not fit into {self.size}")
            found.append(index)
        found.reverse()
        return found[: len(ranges[0])], found[len(ranges[0]) :]

    def affine(self, index: sympy.Expr) -> tuple[sympy.Expr, tuple[sympy.Expr, ...]]:
        """Returns the offset and the stride along each dimension."""
        index = sympy.expand(V.graph.sizevars.simplify_with_ranges(index, self.var_ranges()))
        rest = index
        stride = []
        for var in self.vars:
            step = index.coeff(var)
            rest = rest - step * var
            stride.append(step)
        rest = sympy.expand(rest)
        for expr in (rest, *stride):
            if any(var in expr.free_symbols for var in self.vars):
                raise Unsupported(f"index {index} is not affine")
        one = [_equal(size, 1) for size in self.size]
        return rest, tuple(
            sympy.S.Zero if single else step for single, step in zip(one, stride)
        )


def _equal(a, b) -> bool:
    return V.graph.sizevars.statically_known_equals(a, b)


def _same(a, b) -> bool:
    return all(
        len(x) == len(y) and all(map(_equal, x, y)) for x, y in zip(a, b)
    )


def _cuts(node) -> list[int]:
    """Where FloorDiv and ModularIndexing of one loop variable split its range."""
    cuts = []
    body = node._body
    inner = sympy.S.One
    below = {}
    names = [*body.iter_vars, *body.reduce_vars]
    sizes = [*node.get_ranges()[0], *node.get_ranges()[1]]
    for var, size in reversed(list(zip(names, sizes))):
        below[var] = inner
        inner = inner * size
    for expr in body.indexing_exprs.values():
        for atom in sympy.sympify(expr).atoms(FloorDiv, ModularIndexing):
            base = below.get(atom.args[0])
            if base is not None:
                cuts.append(base * atom.args[1])
                if isinstance(atom, ModularIndexing):
                    cuts.append(base * atom.args[1] * atom.args[2])
    return cuts


def _same_rows(a: Sequence, b: Sequence) -> bool:
    return all(_equal(sympy_product(x), sympy_product(y)) for x, y in zip(a, b))


def _is_by_row(ranges: Sequence, reduction: Optional[Sequence]) -> bool:
    if reduction is None or len(ranges[1]):
        return False
    points, rows = sympy_product(ranges[0]), sympy_product(reduction[0])
    return _equal(points, rows) and not _equal(sympy_product(reduction[1]), 1)


def _common(nodes, ranges, by_row, reduction) -> tuple[list, int]:
    """Refines all loops: the steps between elements must divide one another in a chain."""
    most = reduction or max(ranges, key=lambda r: len(r[0]))
    total = sympy_product([*most[0], *most[1]])
    folded = sympy_product(reduction[1]) if reduction else sympy.S.One
    steps = {sympy.S.One, total, folded}
    for node, r, row in zip(nodes, ranges, by_row):
        inner = step = folded if row else sympy.S.One
        for size in reversed([*r[0], *r[1]]):
            step = step * size
            steps.add(step)
        if not _equal(step, total):
            raise Unsupported(f"loops over {step} and {total} elements")
        steps.update(inner * cut for cut in _cuts(node))
    try:
        chain = sorted({int(step) for step in steps})
    except TypeError:  # sizes that are not known: the other loops must fit into these
        return [*most[0], *most[1]], len(most[1])
    size, count = [], 0
    for inner, outer in zip(chain, chain[1:]):
        if outer % inner:
            raise Unsupported(f"loops with steps of {inner} and {outer}")
        size.insert(0, sympy.Integer(outer // inner))
        count += outer <= int(folded)
    return size, count
