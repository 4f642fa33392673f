# SPDX-License-Identifier: BSD-3-Clause
"""torch.compile: programs at the card's limits, and their text."""

import packets
import pytest
import torch
from torch._inductor.utils import run_and_get_code
from torch_openreg import _C

DEV = "openreg"


@pytest.fixture(autouse=True)
def fresh():
    torch.compiler.reset()
    torch.openreg.reset_compile_fallbacks()
    yield
    torch.compiler.reset()


def many_instructions(x):
    return sum(torch.sin(x * i) * torch.cos(x + i) for i in range(1, 40))


def many_registers(x):
    parts = [torch.sin(x * i) for i in range(1, 30)]
    return sum(a * b for a, b in zip(parts, reversed(parts)))


def many_operands(*args):
    return sum(t * i for i, t in enumerate(args))


LIMITS = {
    "instructions": (many_instructions, 1, 8),
    "registers": (many_registers, 1, 6),
    "operands": (many_operands, 40, 6),
}


@pytest.mark.native
@pytest.mark.parametrize("name", LIMITS)
def test_large_programs_are_cut(name):
    function, count, most = LIMITS[name]
    args = [torch.randn(50, generator=torch.Generator().manual_seed(i)) for i in range(count)]
    on_card = [a.to(DEV) for a in args]
    compiled = torch.compile(function)
    torch.testing.assert_close(
        compiled(*on_card).cpu(), function(*args), rtol=1e-4, atol=1e-4
    )
    launched = packets.launched(lambda: compiled(*on_card))
    assert 2 <= launched <= most
    assert torch.openreg.compile_fallbacks() == {}


@pytest.mark.native
def test_text_of_a_program():
    x = torch.randn(64, 128, device=DEV)
    _, code = run_and_get_code(torch.compile(lambda x: (x * 2.5).sum(1)), x)
    lines = [line.strip() for line in code[0].splitlines()]
    begin = lines.index("space 64 128 fold 1")
    assert lines[begin : begin + 7] == [
        "space 64 128 fold 1",
        "operand 0 in float32 offset 0 stride 128 1",
        "operand 1 out float32 offset 0 stride 1 0",
        "r0 = load.f32 [0]",
        "r1 = imm.f32 2.5",
        "r0 = mul.f32 r0, r1",
        "red_sum.f32 [1], r0",
    ]


def a_program(**changes):
    parts = {
        "name": "p",
        "size": [4],
        "folded": 0,
        "operands": [(0, True, _C.memory_dtype(torch.float32), 0, [1])],
        "imms": [],
        "code": b"",
        "patches": [],
        "counted": True,
    }
    return _C.program(**{**parts, **changes})


BAD = {
    "dimensions": ({"size": [1] * 9, "operands": []}, "limits"),
    "operands": ({"operands": [(0, False, 1, 0, [1])] * 17}, "limits"),
    "immediates": ({"imms": [0] * 17}, "limits"),
    "instructions": ({"code": bytes(8 * 65)}, "limits"),
    "half_an_instruction": ({"code": bytes(4)}, "8 bytes"),
    "strides": ({"operands": [(0, True, 1, 0, [1, 1])]}, "stride for each"),
    "place": ({"patches": [("imm", 0, 0, 0)]}, "no place"),
    "kind": ({"patches": [("colour", 0, 0, 0)]}, "no 'colour'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_programs_are_refused(name):
    changes, text = BAD[name]
    with pytest.raises(ValueError, match=text):
        a_program(**changes)


def test_bad_arguments_are_refused():
    run = a_program()
    with pytest.raises(ValueError, match="takes 1 tensors and 0 numbers"):
        run()
    for wrong in (torch.zeros(4), torch.zeros(4, dtype=torch.int64, device=DEV)):
        with pytest.raises(RuntimeError, match="compiled for another tensor"):
            run(wrong)
