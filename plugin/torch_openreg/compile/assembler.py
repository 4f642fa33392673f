# SPDX-License-Identifier: BSD-3-Clause
"""Programs from the text that listing.py writes. Generated code calls program()."""

import math
import re
import struct
from typing import Any, Callable

import torch

from .. import _C

_TYPES = {"f32": 0, "f64": 1, "i32": 2, "i64": 3}
_NONE = 0xFF


def program(name: str, text: str) -> Callable:
    """Returns a function of tensors and numbers that runs the programs of the text."""
    pieces = re.split(r"^(?=\s*space)", text, flags=re.MULTILINE)
    sources = [_Source(piece.strip()) for piece in pieces if piece.strip()]
    temporaries = [t for s in sources for t in s.temporaries]
    if not temporaries:
        built = [s.build(name, first=i == 0) for i, s in enumerate(sources)]
        return built[0] if len(built) == 1 else _Sequence(built, 0, [])
    ntensors = 1 + max(s.last_tensor for s in sources)
    numbers = {t[0]: ntensors + i for i, t in enumerate(dict(temporaries).items())}
    for s in sources:
        s.place_temporaries(numbers)
    built = [s.build(name, first=i == 0) for i, s in enumerate(sources)]
    dtypes = [dict(temporaries)[t] for t in numbers]
    return _Sequence(built, ntensors, dtypes, sources[0].size)


class _Sequence:
    """Several programs, and the memory that they pass values in."""

    def __init__(self, programs: list, ntensors: int, dtypes: list, size: list = ()) -> None:
        self.programs = programs
        self.ntensors = ntensors
        self.dtypes = dtypes
        self.size = size

    def __call__(self, *args: Any) -> None:
        tensors, numbers = args[: self.ntensors], args[self.ntensors :]
        if self.dtypes:
            count = math.prod(
                numbers[int(s[1:])] if isinstance(s, str) else s for s in self.size
            )
            device = tensors[0].device
            tensors += tuple(
                torch.empty(count, dtype=dtype, device=device) for dtype in self.dtypes
            )
            args = (*tensors, *numbers)
        for run in self.programs:
            run(*args)


class _Source:
    """The text of one program."""

    def __init__(self, text: str) -> None:
        self.operands: list[tuple] = []  # tensor, written, dtype, offset, stride
        self.imms: list[int] = []
        self.code = b""
        self.patches: list[tuple] = []
        self.scalars: list[tuple] = []  # operation, type, arguments
        self.size: list = []
        self.folded = 0
        for line in text.splitlines():
            self._read(line.strip())
        self.temporaries = [
            (o[0], o[2]) for o in self.operands if isinstance(o[0], str)
        ]
        self.last_tensor = max(
            (o[0] for o in self.operands if isinstance(o[0], int)), default=-1
        )

    def place_temporaries(self, numbers: dict) -> None:
        self.operands = [
            (numbers.get(o[0], o[0]), *o[1:]) for o in self.operands
        ]

    def build(self, name: str, first: bool) -> Callable:
        ndim = len(self.size)
        mask = sum(1 << d for d in range(ndim - self.folded, ndim))
        size = [self._known("size", 0, d, s) for d, s in enumerate(self.size)]
        operands = []
        for i, (tensor, written, dtype, offset, stride) in enumerate(self.operands):
            offset = self._known("offset", i, 0, offset)
            stride = [self._known("stride", i, d, s) for d, s in enumerate(stride)]
            operands.append((tensor, written, _C.memory_dtype(dtype), offset, stride))
        return _C.program(
            name, size, mask, operands, self.imms, self.code, self.patches, self.scalars, first
        )

    def _known(self, kind: str, operand: int, index: int, number: Any) -> int:
        if isinstance(number, int):
            return number
        self.patches.append((kind, operand, index, int(number[1:])))
        return 0

    def _read(self, line: str) -> None:
        if not line:
            return
        words = line.replace(",", " ").split()
        if words[0] == "space":
            if "fold" in words:
                self.folded = int(words.pop())
                words.pop()
            self.size = [_integer(w) for w in words[1:]]
        elif words[0] == "operand":
            tensor = words[1] if words[1][0] == "%" else int(words[1])
            dtype = getattr(torch, words[3])
            stride = [_integer(w) for w in words[7:]]
            self.operands.append(
                (tensor, words[2] == "out", dtype, _integer(words[5]), stride)
            )
        elif words[0][0] == "s" and words[1:2] == ["="]:
            op, type = words[2].split(".")
            args = [_scalar_argument(w) for w in words[3:]]
            self.scalars.append((_C.vector_ops[op], _TYPES[type], args))
        else:
            self._instruction(words)

    def _instruction(self, words: list[str]) -> None:
        dst = 0
        if words[1:2] == ["="]:
            dst = int(words[0][1:])
            words = words[2:]
        op, type = words[0].split(".")
        args = words[1:]
        position = _NONE
        if "position" in args:
            position = int(args.pop()[1:-1])
            args.pop()
        registers = [int(w[1:]) for w in args if re.fullmatch(r"r\d+", w)]
        none = _NONE if op.startswith("red_") else 0
        operand = next((int(w[1:-1]) for w in args if w[0] == "["), none)
        a, b, c = (registers + [0, 0, 0])[:3]
        aux = operand
        if op == "imm":
            aux = self._imm(type, args[0])
        elif op == "index":
            aux = int(args[0])
        elif op == "cvt":
            aux = _TYPES[args[1]]
        elif op == "round":
            aux = _C.memory_dtype(getattr(torch, args[1]))
        elif op.startswith("red_"):
            b, c = position, _NONE
        self.code += struct.pack(
            "<6BH", _C.vector_ops[op], _TYPES[type], dst, a, b, c, aux
        )

    def _imm(self, type: str, word: str) -> int:
        if word[0] == "$":
            self.patches.append(("imm", 0, len(self.imms), int(word[1:])))
            bits = 0
        elif word[0] == "s":
            self.patches.append(("scalar", 0, len(self.imms), int(word[1:])))
            bits = 0
        elif type[0] == "f":
            bits = struct.unpack("<Q", struct.pack("<d", float(word)))[0]
        else:
            bits = int(word) & (1 << 64) - 1
        if word[0] not in "$s" and bits in self.imms:
            taken = {p[2] for p in self.patches if p[0] in ("imm", "scalar")}
            for i, other in enumerate(self.imms):
                if other == bits and i not in taken:
                    return i
        self.imms.append(bits)
        return len(self.imms) - 1


def _scalar_argument(word: str) -> tuple[str, int, float]:
    if word[0] in "$s":
        return ("number" if word[0] == "$" else "scalar", int(word[1:]), 0.0)
    return ("constant", 0, float(word))


def _integer(word: str) -> Any:
    return word if word[0] == "$" else int(word)
