# SPDX-License-Identifier: BSD-3-Clause
"""Copies: both directions, casts, strides, sizes, pinned memory, between cards."""

import itertools

import packets
import pytest
import torch

DEV = "openreg"
TYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.bool,
]


def sample(dtype, n=60):
    """Values that every dtype can hold, so that the CPU's casts are defined too."""
    return (torch.arange(n) % 100).to(dtype)


@pytest.mark.parametrize(
    "src, dst", list(itertools.product(TYPES, TYPES)), ids=lambda t: str(t)[6:]
)
def test_casts(src, dst):
    x = sample(src)
    want = x.to(dst)
    on_card = x.to(DEV)
    assert torch.equal(on_card.to(dst).cpu(), want)  # card to card
    up = torch.empty(60, dtype=dst, device=DEV)
    up.copy_(x)  # up with a cast
    assert torch.equal(up.cpu(), want)
    down = torch.empty(60, dtype=dst)
    down.copy_(on_card)  # down with a cast
    assert torch.equal(down, want)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128, torch.uint16])
def test_types_the_card_lacks_move(dtype):
    x = torch.arange(24).to(dtype).view(4, 6)
    y = x.to(DEV)
    assert torch.equal(y.t().contiguous().cpu(), x.t().contiguous())
    assert torch.equal(y.cpu(), x)


def test_cast_the_card_lacks_is_counted():
    torch.openreg.reset_fallbacks()
    y = torch.arange(4.0).to(DEV).to(torch.uint16)
    assert y.cpu().tolist() == [0, 1, 2, 3]
    assert torch.openreg.fallbacks() == {"aten::_copy_from": 1}


VIEWS = {
    "plain": lambda t: t,
    "transposed": lambda t: t.transpose(0, 2),
    "sliced": lambda t: t[1:, ::2, 3:],
    "permuted": lambda t: t.permute(1, 2, 0),
    "row": lambda t: t[2],
    "column": lambda t: t[:, :, 1],
    "one": lambda t: t[1, 2, 3],
}


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("src", VIEWS)
@pytest.mark.parametrize("dst", VIEWS)
def test_strides(src, dst, down):
    base = torch.arange(4 * 6 * 8.0).view(4, 6, 8)
    shape = VIEWS[dst](base).shape
    x = VIEWS[src](base)
    if x.numel() < VIEWS[dst](base).numel():
        x = x.reshape(-1)[:1].expand(shape)
    else:
        x = x.reshape(-1)[: VIEWS[dst](base).numel()].reshape(shape)
    want = torch.zeros_like(base)
    VIEWS[dst](want).copy_(x)

    there, back = ("cpu", DEV) if down else (DEV, "cpu")
    into = torch.zeros_like(base).to(there)
    VIEWS[dst](into).copy_(x.to(back))
    assert torch.equal(into.cpu(), want)


@pytest.mark.parametrize("src", VIEWS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64])
def test_strides_on_card(src, dtype):
    base = torch.arange(4 * 6 * 8.0).view(4, 6, 8)
    x = VIEWS[src](base.to(DEV))
    got = torch.empty_like(x, dtype=dtype).copy_(x)
    assert torch.equal(got.cpu(), VIEWS[src](base).to(dtype))


def test_broadcast():
    x = torch.arange(6.0)
    into = torch.empty(4, 6, device=DEV)
    into.copy_(x)
    assert torch.equal(into.cpu(), x.expand(4, 6))
    into.copy_(x.to(DEV)[:1])
    assert torch.equal(into.cpu(), torch.zeros(4, 6))
    with pytest.raises(RuntimeError, match="expanded size|must match"):
        into.copy_(torch.arange(5.0))


def test_more_dimensions_than_a_packet_has():
    x = torch.arange(2**11.0).view([2] * 11)
    order = [10, 0, 9, 1, 8, 2, 7, 3, 6, 4, 5]
    assert torch.equal(x.to(DEV).permute(order).contiguous().cpu(), x.permute(order))


@pytest.mark.parametrize("count", [1, 7, 131072, 131073, 1 << 20, (3 << 20) + 5])
@pytest.mark.parametrize("pinned", [False, True])
def test_sizes(count, pinned):
    x = torch.arange(count, dtype=torch.int32)
    x = x.pin_memory() if pinned else x
    y = x.to(DEV)
    assert torch.equal(y.cpu(), x)
    into = torch.empty(count, dtype=torch.int32, pin_memory=pinned)
    into.copy_(y)
    assert torch.equal(into, x)


@pytest.mark.parametrize("pinned", [False, True])
def test_large_with_cast_and_strides(pinned):
    x = torch.arange(1 << 20, dtype=torch.int32).view(1024, 1024)
    x = x.pin_memory() if pinned else x
    y = torch.empty(1024, 1024, dtype=torch.int64, device=DEV)
    y.t().copy_(x)
    assert torch.equal(y.cpu(), x.t().long())
    z = torch.empty(1024, 1024, dtype=torch.float64)
    z.copy_(y.t())
    assert torch.equal(z, x.double())


def test_source_may_be_reused_at_once():
    """A pageable source has been read when the copy returns."""
    x = torch.arange(1 << 16)
    want = x.clone()
    y = x.to(DEV, non_blocking=True)
    x.zero_()
    assert torch.equal(y.cpu(), want)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int16, torch.complex128])
def test_pinned_memory_between_elements(dtype):
    """The card needs aligned elements, so an unaligned view goes through staging memory."""
    base = torch.zeros(4096, dtype=torch.uint8).pin_memory()
    x = torch.frombuffer(base.numpy(), dtype=dtype, offset=1, count=100)
    x.copy_(torch.arange(100))
    assert x.is_pinned() and x.data_ptr() % 2
    y = x.to(DEV)
    assert torch.equal(y.cpu(), x)
    x.zero_()
    x.copy_(y)
    assert torch.equal(x, torch.arange(100).to(dtype))


def test_is_pinned():
    x = torch.empty(100).pin_memory()
    assert x.is_pinned() and x[50:].is_pinned()
    assert not torch.empty(100).is_pinned()
    assert not x.clone().is_pinned()


def test_pinned_is_asynchronous_and_ordered(gate):
    x = torch.arange(1 << 18).pin_memory()
    y = torch.empty_like(x, device=DEV)
    back = torch.zeros_like(x).pin_memory()
    with gate:
        y.copy_(x, non_blocking=True)
        back.copy_(y, non_blocking=True)
        event = torch.openreg.current_stream().record_event()
        assert not event.query() and not back.any()
    event.synchronize()
    assert torch.equal(back, x)


def test_pinned_memory_in_flight_is_not_reused(gate):
    """Pinned memory is freed while the card may still read it: the cache must not reuse
    it."""
    x = torch.full((1 << 16,), 1.0).pin_memory()
    with gate:
        y = x.to(DEV, non_blocking=True)
        where = x.data_ptr()
        del x
        other = torch.full((1 << 16,), 2.0).pin_memory()
        assert other.data_ptr() != where
    assert torch.equal(y.cpu(), torch.full((1 << 16,), 1.0))


def test_copy_from_foreign_pinned_memory_is_synchronous():
    """The cache does not know this tensor, so it cannot keep its memory until the copy is
    done. The copy waits instead."""
    x = torch.arange(1 << 16).pin_memory()
    inside = torch.from_numpy(x.numpy()[1000:])
    assert inside.is_pinned()
    torch.zeros(16 << 20, device=DEV).sin_()
    y = inside.to(DEV, non_blocking=True)
    assert torch.openreg.current_stream().query()
    assert torch.equal(y.cpu(), inside)


@pytest.mark.parametrize("size", [1 << 12, 3 << 20])
def test_host_memory_stays_in_use_after_an_error(size):
    """The packet is still in flight when another stream's fault ends the wait."""
    bad, good = torch.openreg.Stream(), torch.openreg.Stream()
    source = torch.full((size,), 7, dtype=torch.uint8, device=DEV)
    x = torch.zeros(size, dtype=torch.uint8).pin_memory()
    where = x.data_ptr()
    torch.openreg.synchronize()
    with torch.openreg.stream(bad):
        stuck = packets.stuck(bad, good)
    with torch.openreg.stream(good), pytest.raises(RuntimeError, match="has faulted"):
        x.copy_(source)
    del x
    other = torch.zeros(size, dtype=torch.uint8).pin_memory()
    assert other.data_ptr() != where
    stuck()
    good.synchronize()
    assert not other.any()


def test_staging_stays_in_use_after_an_error():
    bad, good = torch.openreg.Stream(), torch.openreg.Stream()
    x, y = torch.full((1 << 18,), 1.0), torch.full((1 << 18,), 2.0)
    first, second = torch.zeros_like(x, device=DEV), torch.zeros_like(x, device=DEV)
    torch.openreg.synchronize()
    stuck = packets.stuck(bad, good)
    with torch.openreg.stream(good):
        for into, source in [(first, x), (second, y)]:
            # The first copy fills the staging memory, so the second must wait for it.
            with pytest.raises(RuntimeError, match="has faulted"):
                into.copy_(source)
                into.copy_(source)
        stuck()
        good.synchronize()
        assert torch.equal(first.cpu(), x)
        assert not second.cpu().any()


def test_cross_copy_stays_in_use_after_an_error():
    bad, good = torch.openreg.Stream(), torch.openreg.Stream()
    a = torch.full((1000,), 1.0, device=DEV)
    other = torch.full((1000,), 2.0, device=DEV)
    torch.openreg.synchronize()
    stuck = packets.stuck(bad, good)
    with torch.openreg.stream(good), pytest.raises(RuntimeError, match="has faulted"):
        a.to("openreg:1")
    b = other.to("openreg:1")
    stuck()
    good.synchronize()
    assert torch.equal(b.cpu(), torch.full((1000,), 2.0))
    assert torch.equal(a.to("openreg:1").cpu(), torch.full((1000,), 1.0))


def test_pinned_of_another_card():
    with torch.openreg.device(1):
        x = torch.arange(1000.0).pin_memory()
    assert x.is_pinned()
    assert torch.equal(x.to("openreg:0").cpu(), x)
    assert torch.equal(x.to("openreg:1").cpu(), x)


@pytest.mark.parametrize("count", [1, 1000, 1 << 18, (1 << 20) + 3])
def test_between_cards(count):
    x = torch.arange(count, dtype=torch.int32)
    a = x.to("openreg:0")
    b = a.to("openreg:1")
    assert b.device == torch.device("openreg:1")
    assert torch.equal(b.cpu(), x)
    assert torch.equal(b.to("openreg:0").cpu(), x)


def test_between_cards_with_cast_and_strides():
    x = torch.arange(24.0).view(4, 6)
    a = x.to("openreg:0")
    b = torch.zeros(6, 4, dtype=torch.int64).to("openreg:1")
    b.t().copy_(a)
    assert torch.equal(b.cpu(), x.t().long())


def test_overlap_of_the_destination_is_refused():
    """On every path of a copy: the card would stop the stream with a fault."""
    for device in [DEV, "cpu"]:
        for source in [DEV, "openreg:1", "cpu"]:
            into = torch.zeros(1, 3).to(device).expand(4, 3)
            with pytest.raises(RuntimeError, match="single memory location"):
                into.copy_(torch.ones(4, 3).to(source))
    into = torch.zeros(3, device=DEV).expand(4, 3)
    assert torch.equal(into.fill_(2).cpu(), torch.full((4, 3), 2.0))
    assert torch.equal(into.zero_().cpu(), torch.zeros(4, 3))
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.cat([torch.ones(2, 3, device=DEV)] * 2, out=into)
    torch.openreg.synchronize()


def test_overlap_is_refused():
    y = torch.arange(8.0).to(DEV)
    with pytest.raises(RuntimeError, match="overlap|single memory location"):
        y[1:].copy_(y[:-1])
    with pytest.raises(RuntimeError, match="overlap|single memory location"):
        y[:1].expand(4).copy_(y[:4])


def test_conjugate_and_negative_bits():
    z = torch.arange(4).to(torch.complex64) + 2j
    assert torch.equal(z.to(DEV).conj().cpu(), z.conj())
    into = torch.empty(4, dtype=torch.complex64, device=DEV)
    into.copy_(z.conj())
    assert torch.equal(into.cpu(), z.conj().resolve_conj())
    negative = torch._neg_view(torch.arange(4.0).to(DEV))
    assert negative.cpu().tolist() == [0, -1, -2, -3]
    assert negative.clone().cpu().tolist() == [0, -1, -2, -3]


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
def test_conjugate_into_a_real_tensor():
    z = torch.arange(4).to(torch.complex64) + 2j
    for source in [z.to(DEV).conj(), z.conj()]:
        into = torch.empty(4, device=DEV)
        into.copy_(source)
        assert into.tolist() == [0, 1, 2, 3]
    into = torch.empty(4, dtype=torch.complex64, device=DEV)
    into.conj().copy_(torch.arange(4.0).to(DEV))
    assert into.tolist() == [0, 1, 2, 3]


def test_nan_and_rounding_survive():
    x = torch.tensor([float("nan"), float("inf"), -0.0, 1e-45, 65519.0, 65520.0])
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        got, want = x.to(DEV).to(dtype).cpu(), x.to(dtype)
        assert torch.equal(got.isnan(), want.isnan())
        assert torch.equal(got.nan_to_num(), want.nan_to_num())


def check_rows(x, card, rows):
    """Copies of rows, from and to a tensor with gaps; card is a copy of x."""
    assert torch.equal(card[rows].contiguous().cpu(), x[rows])
    to, from_card = torch.zeros_like(x), torch.zeros_like(card)
    to[rows] = x[rows].clone()
    from_card[rows] = card[rows].clone()
    assert torch.equal(from_card.cpu(), to)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.bfloat16, torch.float32, torch.complex64])
def test_short_rows(dtype):
    x = sample(dtype, 4 * 6 * 40).view(4, 6, 40)
    card = x.to(DEV)
    for length, first, step in itertools.product((1, 2, 3, 4, 6, 8, 16, 24), (0, 1, 4, 8), (1, 2)):
        rows = (slice(None, None, step), slice(None), slice(first, first + length))
        check_rows(x, card, rows)


@pytest.mark.parametrize("dtype", [torch.bool, torch.bfloat16, torch.float32, torch.float64])
def test_many_short_rows(dtype):
    x = sample(dtype, 3000 * 7).view(30, 100, 7)
    card = x.to(DEV)
    for length, first in itertools.product((2, 3), (0, 1, 2, 3)):
        rows = (slice(None), slice(1, None), slice(first, first + length))
        check_rows(x, card, rows)
        assert torch.equal(card[rows].flip(0).cpu(), x[rows].flip(0))
