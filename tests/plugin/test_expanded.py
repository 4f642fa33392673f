# SPDX-License-Identifier: BSD-3-Clause
"""In-place operators on an expanded tensor: its elements share memory. The card has the
CPU's result, or refuses the call as the CPU does."""

import itertools

import pytest
import torch

from ops import to_card
from test_opinfo import OPS, moved, tensors

DEV = "openreg"
# Operators that draw random numbers.
RANDOM = "bernoulli normal uniform cauchy exponential geometric log_normal dropout".split()
# On the CPU, the result depends on which of the rows that share memory is written last.
PRODUCTS = ["addmv", "baddbmm"]
IN_PLACE = [
    n for n, op in OPS.items()
    if op.inplace_variant is not None and torch.float32 in op.dtypes
    and not any(word in n for word in RANDOM) and n not in PRODUCTS
]


def outcome(function, x, args, kwargs):
    """The memory after the call, or its error."""
    memory = x[:1].clone()
    try:
        function(memory.expand_as(x), *args, **kwargs)
    except RuntimeError as error:
        return error
    return memory


@pytest.mark.filterwarnings("ignore:Use of")
@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name):
    op = OPS[name]
    torch.manual_seed(0)
    for sample in itertools.islice(op.sample_inputs("cpu", torch.float32), 12):
        x = sample.input
        if not isinstance(x, torch.Tensor) or x.dim() == 0 or x.size(0) < 2 or x.numel() == 0:
            continue
        want = outcome(op.inplace_variant, x, sample.args, sample.kwargs)
        got = outcome(op.inplace_variant, moved(x), moved(sample.args), moved(sample.kwargs))
        if isinstance(want, Exception):
            assert isinstance(got, Exception), f"the CPU raises {want}"
            continue
        assert not isinstance(got, Exception), got
        torch.testing.assert_close(got.cpu(), want, equal_nan=True)


def parts(x):
    """Tensors that broadcast to x's shape."""
    yield x.flatten()[0].clone()
    yield x.flatten()[:1].clone()
    for d in range(x.dim()):
        yield x.narrow(d, 0, 1).clone()
    yield x[0].clone()


def into(function, x, args, kwargs):
    try:
        function(x, *args, **kwargs)
    except (RuntimeError, IndexError) as error:
        return error
    return x


@pytest.mark.filterwarnings("ignore:Use of")
@pytest.mark.parametrize("name", [n for n in [*IN_PLACE, *PRODUCTS] if n != "resize_as_"])
def test_in_place_of_a_smaller_tensor(name):
    """The other operands do not fit self: the CPU refuses the call, or resizes self."""
    op = OPS[name]
    torch.manual_seed(0)
    for sample in itertools.islice(op.sample_inputs("cpu", torch.float32), 6):
        x = sample.input
        others = tensors((sample.args, sample.kwargs))
        indexes = any(not t.is_floating_point() for t in others)
        if not isinstance(x, torch.Tensor) or x.numel() == 0 or x.dim() == 0 or not others or indexes:
            continue
        for part in parts(x.detach()):
            card, given = to_card(part), part.clone()
            want = into(op.inplace_variant, part, sample.args, sample.kwargs)
            got = into(op.inplace_variant, card, moved(sample.args), moved(sample.kwargs))
            if isinstance(want, Exception):
                assert isinstance(got, Exception), f"the CPU raises {want}"
                continue
            assert not isinstance(got, Exception), got
            if want.shape != given.shape:  # the CPU may overwrite what it still has to read
                want = op.op(given, *sample.args, **sample.kwargs)
            torch.testing.assert_close(got.cpu(), want, equal_nan=True)


EVERY_TYPE = [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64, torch.uint16,
              torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2]


@pytest.mark.parametrize("dtype", EVERY_TYPE)
def test_fill(dtype):
    for value in (0, 1, torch.tensor(1), torch.tensor(1.0)):
        memory = torch.zeros(3, 1).to(dtype)
        card = to_card(memory)
        memory.fill_(value)  # the CPU refuses a tensor's value for an expanded one
        card.expand(3, 5).fill_(value)
        if isinstance(value, torch.Tensor):
            card.expand(3, 5).fill_(value.to(DEV))
        assert torch.equal(card.cpu().view(torch.uint8), memory.view(torch.uint8))
        overlapping = card.view(-1).as_strided((2, 2), (1, 1))
        overlapping.zero_()
        assert not card.cpu().view(torch.uint8).any()
        overlapping.fill_(value)
        assert torch.equal(card.cpu().view(torch.uint8), memory.view(torch.uint8))


@pytest.mark.filterwarnings("ignore:Use of")
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.complex64])
def test_masks(dtype):
    """An element is filled if the mask selects any of the positions that share it."""
    mask = torch.tensor([[False, True, False], [False, False, False], [False, False, True], [True] * 3])
    for value in (3, torch.tensor(3, dtype=dtype)):
        for fill in (
            lambda t, m: t.masked_fill_(m, value),
            lambda t, m: t.__setitem__(m, value),
            lambda t, m: t.masked_fill_(m[:, :1], value),
            lambda t, m: t.masked_fill_(m.any(), value),
        ):
            for shape in ((4, 1), (1, 3), (1, 1), (4, 3)):
                memory = torch.ones(shape, dtype=dtype)
                card = to_card(memory)
                fill(memory.expand(4, 3), mask)
                fill(card.expand(4, 3), mask.to(DEV))
                assert torch.equal(card.cpu(), memory)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
@pytest.mark.parametrize("name", ["tril_", "triu_"])
def test_triangles(name, dtype):
    """An element becomes 0 if the operator clears any of the positions that share it."""
    for shape in ((4, 1), (1, 3), (1, 1), (2, 4, 1), (1, 4, 3), (2, 1, 3)):
        for diagonal in range(-4, 5):
            memory = torch.ones(shape, dtype=dtype)
            card = to_card(memory)
            for t in (memory, card):
                getattr(t.expand(*shape[:-2] and (2,), 4, 3), name)(diagonal)
            assert torch.equal(card.cpu(), memory), (shape, diagonal)


def test_masks_warn():
    with pytest.warns(UserWarning, match="masked_fill_ on expanded tensors is deprecated"):
        torch.zeros(1, device=DEV).expand(3).masked_fill_(torch.ones(3, device=DEV).bool(), 1)


def test_indices_warn():
    """Also where a mask makes index_put_ fill, as on the CPU."""
    mask, number = torch.ones(3, 4).bool(), torch.tensor(2.0)
    cases = [
        lambda t: t.__setitem__(mask.to(t.device), 1.0),
        lambda t: t.index_put_((mask.to(t.device),), number),
        lambda t: t.index_put_((mask.to(t.device),), number.to(t.device)),
        lambda t: t.__setitem__(torch.tensor([0], device=t.device), 1.0),
    ]
    for case in cases:
        for device in ("cpu", DEV):
            with pytest.warns(UserWarning, match="index_put_ on expanded tensors is deprecated"):
                case(torch.zeros(3, 1, device=device).expand(3, 4))
