# SPDX-License-Identifier: BSD-3-Clause
"""
torch.compile: random programs have the bits of eager mode.

OPENREG_COMPILE_PROGRAMS is the number of programs, each with its number as the seed; the
suite compile-random runs 1,000. Values are chosen so that the order of a sum does not
change its bits.
"""

import os
import random

import pytest
import torch

DEV = "openreg"
PROGRAMS = int(os.environ.get("OPENREG_COMPILE_PROGRAMS", "30"))

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
SHAPES = ((6,), (4, 5), (3, 4, 5), (2, 3, 2, 3), (7, 1), (2, 1, 65))


@pytest.fixture(autouse=True)
def fresh():
    torch.compiler.reset()
    torch.openreg.reset_compile_fallbacks()
    yield
    torch.compiler.reset()


class Program:
    """A function as source text, and its arguments."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.shape = self.random.choice(SHAPES)
        self.dtype = self.random.choice(FLOATS[:1] * 3 + FLOATS[1:] + INTEGERS[:2])
        self.args: list[torch.Tensor] = []
        self.lines: list[str] = []
        self.values: dict[str, torch.Tensor] = {}  # on the CPU, for dtypes and shapes
        for _ in range(self.random.randint(1, 4)):
            self.leaf()
        for _ in range(self.random.choice((3, 6, 12, 40))):
            self.step()
        self.mutate()
        names = [n for n in self.values if n[0] == "v"] or list(self.values)
        count = min(len(names), self.random.randint(0, 3))
        results = {names[-1], *self.random.sample(names, count)}
        self.lines.append(f"return {', '.join(sorted(results))},")

    # arguments

    def leaf(self) -> None:
        dtype = self.dtype
        if self.random.random() < 0.4:
            dtype = self.random.choice(FLOATS + INTEGERS + (torch.bool,))
        shape = [size if self.random.random() < 0.8 else 1 for size in self.shape]
        shape = shape[self.random.choice((0, 0, 0, 1)) :]
        name = f"x{len(self.args)}"
        self.args.append(self.view(dtype, shape))
        self.values[name] = self.args[-1]

    def numbers(self, dtype: torch.dtype, shape: list) -> torch.Tensor:
        low = 0 if dtype is torch.uint8 else -8
        found = torch.randint(low, 9, shape, generator=self.generator)
        if dtype is torch.bool:
            return found > 0
        return (found / 4 if dtype.is_floating_point else found).to(dtype)

    def view(self, dtype: torch.dtype, shape: list) -> torch.Tensor:
        kind = self.random.choice(("dense", "dense", "steps", "reversed", "expanded"))
        if kind == "steps":
            found = self.numbers(dtype, [2 * size + 1 for size in shape])
            return found[tuple(slice(1, None, 2) for _ in shape)]
        if kind == "reversed" and shape:
            return self.numbers(dtype, shape[::-1]).permute(*range(len(shape))[::-1])
        if kind == "expanded" and shape:
            return self.numbers(dtype, [1, *shape[1:]]).expand(shape)
        return self.numbers(dtype, shape)

    # steps

    def step(self) -> None:
        kind = self.random.choices(
            (self.binary, self.unary, self.number, self.test, self.where, self.cast, self.fold,
             self.move),
            (6, 5, 3, 2, 2, 2, 1.5, 1),
        )[0]
        text = kind()
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        scope = dict(self.values, torch=torch)
        self.values[name] = eval(text, scope)

    def pick(self, allowed=lambda t: True) -> str:
        """A value, preferably a late one. A single number, if no value is allowed."""
        names = [n for n, t in self.values.items() if allowed(t)]
        if not names:
            return "torch.ones((), device=x0.device)"
        late = names[-self.random.choice((3, len(names))) :]
        return self.random.choice(late)

    def arithmetic(self) -> str:
        return self.pick(lambda t: t.dtype is not torch.bool)

    def binary(self) -> str:
        a, b = self.arithmetic(), self.arithmetic()
        op = self.random.choice(
            ("{} + {}", "{} - {}", "{} * {}", "torch.maximum({}, {})", "torch.minimum({}, {})",
             "torch.true_divide({}, {}.abs() + 1)", "{} & {}", "{} | {}", "{} ^ {}")
        )
        if op[3] in "&|^":
            a, b = (self.pick(lambda t: not t.dtype.is_floating_point) for _ in range(2))
            if a[0] == "t":  # no value has bits
                op = "{} + {}"
        return op.format(a, b)

    def unary(self) -> str:
        a = self.arithmetic()
        if getattr(self.values.get(a), "is_floating_point", bool)():
            op = self.random.choice(
                ("-{}", "{}.abs()", "{}.relu()", "{}.sigmoid()", "{}.tanh()", "{}.sin()",
                 "{}.clamp(-3, 3).exp()", "{}.abs().sqrt()", "{}.floor()", "{}.round()",
                 "{}.clamp(-1.5, 2)", "{}.sign()", "{}.square()", "torch.reciprocal({}.abs() + 1)",
                 "{}.erf()", "torch.log1p({}.abs())", "{}.trunc()")
            )
        else:
            op = self.random.choice(
                ("-{}", "{}.abs()", "{}.clamp(1, 3)", "{}.sign()", "~{}.long()", "{}.square()",
                 "{} // 3", "{} % 5", "{} << 1", "{} >> 1")
            )
        return op.format(a)

    def number(self) -> str:
        op = self.random.choice(
            ("{} + 2", "{} * 0.5", "3 - {}", "{} * -1.25", "{} + 0.75", "{} / 3", "{} * 3")
        )
        return op.format(self.arithmetic())

    def test(self) -> str:
        a, b = self.arithmetic(), self.random.choice((self.arithmetic(), "0", "1.5"))
        return f"({a} {self.random.choice(('<', '<=', '>', '>=', '==', '!='))} {b})"

    def where(self) -> str:
        test = self.pick(lambda t: t.dtype is torch.bool)
        test = f"({self.arithmetic()} > 0)" if test[0] == "t" else test
        other = self.random.choice((self.arithmetic(), "2", "-0.5"))
        return f"torch.where({test}, {self.arithmetic()}, {other})"

    def cast(self) -> str:
        """Clamps first: a number beyond the type's range has no defined result."""
        to = self.random.choice(FLOATS + INTEGERS + (torch.bool,))
        a = self.pick()
        dtype = getattr(self.values.get(a), "dtype", None)
        low = 0 if torch.uint8 in (to, dtype) else -100
        if dtype is torch.bool:
            return f"{a}.to({to})"
        return f"{a}.clamp({low}, 100).to({to})"

    def fold(self) -> str:
        """A reduction. Sums are of quarters, so that they are exact in any order."""
        a = self.pick(lambda t: t.dim() > 0 and t.numel() > 0)
        t = self.values.get(a)
        if t is None or t.dim() == 0:
            return f"{a} + 1"
        dims = self.random.sample(range(t.dim()), self.random.randint(1, t.dim()))
        if t.dtype is torch.bool:
            return f"{a}.{self.random.choice(('any', 'all', 'sum'))}({dims[0]}, keepdim=True)"
        op = self.random.choice(("sum", "amax", "amin", "argmax", "argmin", "prod"))
        if op == "sum":
            exact = f"(({a} * 4).round().clamp(-9, 9) / 4)" if t.is_floating_point() else a
            return f"{exact}.sum({dims}, keepdim=True)"
        if op == "prod":
            return f"{a}.sign().prod({dims[0]}, keepdim=True)"
        if op[0] == "a" and op[1] == "r":
            return f"{a}.{op}({dims[0]}, keepdim=True)"
        return f"{a}.{op}({dims}, keepdim=True)"

    def move(self) -> str:
        a = self.pick(lambda t: t.dim() > 1 and t.numel() > 0)
        if a[0] == "t":
            return f"{a} + 1"
        d = self.random.randrange(self.values[a].dim())
        swapped = f"{a}.transpose(0, -1)"
        return self.random.choice(
            (f"{a}.flip({d})", f"({a}.transpose(0, 1).contiguous() + 1).transpose(0, 1)",
             f"{a}.flatten().reshape({a}.shape)", f"{a}.narrow({d}, 0, 1)",
             f"(({swapped} * 1).flatten().view({swapped}.shape)).transpose(0, -1)",
             f"torch.cat([{a}, {a}], {d}).narrow({d}, 1, {a}.shape[{d}])")
        )

    def mutate(self) -> None:
        """Sometimes the function writes to an argument of its own."""
        dense = [i for i, t in enumerate(self.args) if t.dtype in FLOATS and 0 not in t.stride()]
        if not dense or self.random.random() < 0.7:
            return
        name = f"x{self.random.choice(dense)}"
        self.lines.append(f"{name}.{self.random.choice(('add_(1)', 'mul_(0.5)', 'neg_()'))}")
        self.lines.append(f"v{len(self.lines)} = {name} + 1")
        self.values[f"v{len(self.lines) - 1}"] = self.values[name] + 1

    # results

    def text(self) -> str:
        names = ", ".join(f"x{i}" for i in range(len(self.args)))
        return f"def function({names}):\n" + "".join(f"    {line}\n" for line in self.lines)

    def function(self):
        scope = {"torch": torch}
        exec(self.text(), scope)
        return scope["function"]

    def on_card(self) -> list[torch.Tensor]:
        """Copies of the arguments, with their strides."""
        found = []
        for t in self.args:
            length = t.untyped_storage().nbytes() // t.element_size()
            moved = t.as_strided((length,), (1,), 0).to(DEV)
            found.append(moved.as_strided(t.shape, t.stride(), t.storage_offset()))
        return found


def differences(program: Program) -> list[str]:
    function = program.function()
    eager, compiled = program.on_card(), program.on_card()
    # Eager mode rounds halves after each operator.
    options = {"emulate_precision_casts": True}
    expected = [*function(*eager), *eager]
    found = [*torch.compile(function, options=options)(*compiled), *compiled]
    wrong = []
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        try:
            torch.testing.assert_close(a.cpu(), b.cpu(), rtol=0, atol=0, equal_nan=True)
        except AssertionError as error:
            wrong.append(f"value {i}: {error}")
    return wrong


@pytest.mark.native
@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_bits_of_eager(seed):
    program = Program(seed)
    assert not differences(program), program.text()
