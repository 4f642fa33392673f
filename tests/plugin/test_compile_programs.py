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


def separate(*args):
    return [(x * i).exp() for i, x in enumerate(args)]


def overwritten(x, y):
    before = (x.flip(0) + 1).exp()
    x.mul_(2)
    return before, y * 3


def used_at_another_place(x, y):
    doubled = x * 2
    return doubled, (doubled.t() + 1) * doubled[0], y + 1


SMALL = {
    "separate": (separate, [(5, 5)] * 4, 1),
    "of_different_sizes": (separate, [(5,), (2, 3), (5,), (6,)], 2),
    "more_operands_than_a_packet": (separate, [(5,)] * 9, 2),
    "overwritten": (overwritten, [(5, 5)] * 2, 2),
    "used_at_another_place": (used_at_another_place, [(5, 5)] * 2, 2),
}


@pytest.mark.parametrize("name", SMALL)
def test_small_loops_that_share_nothing_are_one_packet(name):
    function, shapes, count = SMALL[name]
    args = [torch.randn(s, generator=torch.Generator().manual_seed(i)) for i, s in enumerate(shapes)]
    theirs, ours = [[a.to(DEV) for a in args] for _ in range(2)]
    compiled = torch.compile(function)
    torch.testing.assert_close(compiled(*ours), function(*theirs))
    torch.testing.assert_close(ours, theirs)
    assert packets.launched(lambda: compiled(*ours)) == count


def test_numbers_that_a_call_computes_once():
    """The card computes on elements; a call computes on numbers from the CPU."""
    x = torch.randn(64, device=DEV)
    step, rate = torch.tensor(3.0), torch.tensor(0.1)

    def function(x, step, rate):
        return x * torch.sqrt(1 - 0.9**step) / -rate + step * x

    compiled = torch.compile(function)
    found, code = run_and_get_code(compiled, x, step, rate)
    torch.testing.assert_close(found, function(x, step, rate))
    step += 2
    torch.testing.assert_close(compiled(x, step, rate), function(x, step, rate))
    text = code[0]
    assert "= pow.f32 0.9, $0" in text and "= neg.f32 $1" in text
    assert "pow.f32 r" not in text and "sqrt.f32 r" not in text


@pytest.mark.native
def test_an_event_is_after_the_loops_before_it():
    """torch's scheduler tells nobody of a call without a tensor."""

    def function(x, event):
        y = x + 1
        event.record()
        return y, x.flip(0) * 2

    x, event = torch.rand(4 << 10, device=DEV), torch.Event(device=DEV)
    found, code = run_and_get_code(torch.compile(function), x, event)
    torch.testing.assert_close(found, (x + 1, x.flip(0) * 2))
    lines = [line.strip() for line in code[0].splitlines()]
    record = next(i for i, line in enumerate(lines) if "record_event" in line and "(" in line)
    first = next(i for i, line in enumerate(lines) if line.startswith("openreg_") and "(arg" in line)
    assert first < record


@pytest.mark.native
@pytest.mark.long
def test_a_chain_of_small_loops_frees_its_memory():
    def function(x):
        for _ in range(120):  # some 15 loops
            x = x.flip(0) * 0.5 - x
        return x

    x = torch.rand(512, 512, device=DEV)
    compiled = torch.compile(function)
    torch.testing.assert_close(compiled(x), function(x))
    torch.openreg.reset_peak_memory_stats()
    before = torch.openreg.memory_allocated()
    compiled(x)
    assert torch.openreg.max_memory_allocated() - before < 12 * x.nbytes


def a_program(**changes):
    parts = {
        "name": "p",
        "size": [4],
        "folded": 0,
        "operands": [(0, True, _C.memory_dtype(torch.float32), 0, [1])],
        "imms": [],
        "code": b"",
        "patches": [],
        "scalars": [],
        "counted": True,
    }
    return _C.program(**{**parts, **changes})


ONE = ("constant", 0, 1.0)
BAD = {
    "dimensions": ({"size": [1] * 9, "operands": []}, "limits"),
    "operands": ({"operands": [(0, False, 1, 0, [1])] * 17}, "limits"),
    "immediates": ({"imms": [0] * 17}, "limits"),
    "instructions": ({"code": bytes(8 * 65)}, "limits"),
    "half_an_instruction": ({"code": bytes(4)}, "8 bytes"),
    "strides": ({"operands": [(0, True, 1, 0, [1, 1])]}, "stride for each"),
    "place": ({"patches": [("imm", 0, 0, 0)]}, "no place"),
    "kind": ({"patches": [("colour", 0, 0, 0)]}, "no 'colour'"),
    "scalar": ({"imms": [0], "patches": [("scalar", 0, 0, 0)]}, "no place"),
    "operation": ({"scalars": [(_C.vector_ops["lgamma"], 0, [ONE, ONE])]}, "cannot compute"),
    "type": ({"scalars": [(_C.vector_ops["add"], 3, [ONE, ONE])]}, "floating-point"),
    "arguments": ({"scalars": [(_C.vector_ops["add"], 0, [ONE])]}, "too few"),
    "order": ({"scalars": [(_C.vector_ops["neg"], 0, [("scalar", 0, 0.0)])]}, "before it is"),
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
