# SPDX-License-Identifier: BSD-3-Clause
"""Generators of the device, and the numbers that they draw."""

import math

import numpy as np
import pytest
import torch
import torch_openreg
from torch._subclasses.fake_tensor import FakeTensorMode

from ops import no_fallback

DEV = "openreg"
LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)


def words(seed, stream, count):
    """The manual's numbers of OPENREG_V_RANDOM: Philox 4x32-10."""
    number = np.arange((count + 3) // 4, dtype=np.uint64)
    c0, c1 = number & LOW, number >> HALF
    c2 = np.full_like(number, stream & 0xFFFFFFFF)
    c3 = np.full_like(number, stream >> 32)
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1 = (p1 >> HALF) ^ c1 ^ np.uint64(k0), p1 & LOW
        c2, c3 = (p0 >> HALF) ^ c3 ^ np.uint64(k1), p0 & LOW
        k0, k1 = k0 + 0x9E3779B9 & 0xFFFFFFFF, k1 + 0xBB67AE85 & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], 1).reshape(-1)[:count]


def pairs(seed, stream, count):
    w = words(seed, stream, 2 * count)
    return w[0::2] | w[1::2] << HALF


def test_reference():
    assert words(0, 0, 4).tolist() == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def test_uniform_has_the_bits_of_philox():
    seed = 0x123456789ABCDEF
    g = torch.Generator(device=DEV).manual_seed(seed)
    n = 5003
    single = torch.rand(n, device=DEV, generator=g).cpu().numpy()
    double = torch.rand(n, device=DEV, generator=g, dtype=torch.float64).cpu().numpy()
    want = (words(seed, 0, n) & np.uint64(0xFFFFFF)).astype(np.float32) * np.float32(2**-24)
    assert np.array_equal(single, want)
    want = (pairs(seed, 4, n) & np.uint64(2**53 - 1)).astype(np.float64) * 2.0**-53
    assert np.array_equal(double, want)


def test_integers_have_the_bits_of_philox():
    seed, n = 77, 3001
    g = torch.Generator(device=DEV).manual_seed(seed)
    full = torch.empty(n, dtype=torch.int64, device=DEV)
    full.random_(-(2**63), None, generator=g)
    assert np.array_equal(full.cpu().numpy().view(np.uint64), pairs(seed, 0, n))
    ranges = [(0, 2), (-5, 9), (0, 2**31), (0, 2**32), (-7, 2**40 + 3), (-(2**62), 2**62 + 11)]
    for i, (low, high) in enumerate(ranges):
        got = torch.randint(low, high, (n,), device=DEV, generator=g).cpu().tolist()
        bits = pairs(seed, 4 * (i + 1), n).tolist()
        assert got == [low + (b * (high - low) >> 64) for b in bits]


def test_bernoulli_has_the_bits_of_philox():
    seed, n, p = 5, 4099, 0.3
    g = torch.Generator(device=DEV).manual_seed(seed)
    got = torch.empty(n, device=DEV).bernoulli_(p, generator=g).cpu().numpy()
    signed = words(seed, 0, n).astype(np.uint32).view(np.int32)
    assert np.array_equal(got != 0, signed < round(p * 2**32) - 2**31)


def test_seed_repeats():
    torch.manual_seed(5)
    a = torch.randn(100, device=DEV)
    torch.manual_seed(5)
    b = torch.randn(100, device=DEV)
    c = torch.randn(100, device=DEV)
    assert torch.equal(a.cpu(), b.cpu()) and not torch.equal(b.cpu(), c.cpu())


LAYOUTS = {
    "transposed": lambda s: torch.empty(s[::-1], device=DEV).permute(3, 2, 1, 0),
    "channels_last": lambda s: torch.empty(s, device=DEV, memory_format=torch.channels_last),
    "steps": lambda s: torch.zeros(*s[:-1], 2 * s[-1], device=DEV)[..., ::2],
    "rows": lambda s: torch.zeros(2 * s[0], *s[1:], device=DEV)[1::2],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("fill", ["uniform_", "normal_", "random_", "bernoulli_"])
def test_strides_make_no_difference(layout, fill):
    shape = (5, 7, 19, 37)
    torch.manual_seed(11)
    want = getattr(torch.empty(shape, device=DEV), fill)()
    torch.manual_seed(11)
    with no_fallback():
        got = getattr(LAYOUTS[layout](shape), fill)()
    assert not got.is_contiguous() and torch.equal(got.cpu(), want.cpu())


def test_more_dimensions_than_a_packet_has():
    shape = (2, 3, 2, 2, 3, 2, 2, 3, 2, 2)
    torch.manual_seed(1)
    want = torch.rand(shape, device=DEV)
    out = torch.zeros([2 * n for n in shape], device=DEV)[(slice(None, None, 2),) * 10]
    torch.manual_seed(1)
    with no_fallback():
        out.uniform_()
    assert torch.equal(out.cpu(), want.cpu())
    torch.manual_seed(2)
    kept = torch.native_dropout(out, 0.5, True)
    torch.manual_seed(2)
    want = torch.native_dropout(out.contiguous(), 0.5, True)
    assert all(torch.equal(a.cpu(), b.cpu()) for a, b in zip(kept, want))


def test_strides_make_no_difference_to_dropout():
    x = torch.ones(31, 57, 3, device=DEV)
    torch.manual_seed(3)
    want = torch.nn.functional.dropout(x, 0.4)
    torch.manual_seed(3)
    got = torch.nn.functional.dropout(x.permute(2, 0, 1).contiguous().permute(1, 2, 0), 0.4)
    assert torch.equal(got.cpu(), want.cpu()) and not got.is_contiguous()


def test_seeding_opens_no_card(monkeypatch):
    """Seeding works if the card cannot be opened, since the program may use only the CPU."""

    def refuse():
        raise RuntimeError("permission denied")

    monkeypatch.setattr(torch_openreg._C, "check_available", refuse)
    torch.manual_seed(11)
    torch.openreg.manual_seed(11)
    torch.openreg.manual_seed_all(11)
    monkeypatch.undo()
    assert torch.openreg.initial_seed() == 11


def test_state():
    state = torch.openreg.get_rng_state()
    a = torch.rand(10, device=DEV)
    torch.openreg.set_rng_state(state)
    assert torch.equal(torch.rand(10, device=DEV).cpu(), a.cpu())
    with pytest.raises(RuntimeError, match="16 bytes"):
        torch.openreg.set_rng_state(torch.zeros(5, dtype=torch.uint8))
    with FakeTensorMode():
        assert torch.openreg.get_rng_state().numel() == 16
    states = torch.openreg.get_rng_state_all()
    assert len(states) == 2
    torch.openreg.set_rng_state_all(states)


def test_offset():
    g = torch.Generator(device=DEV).manual_seed(1)
    assert g.get_offset() == 0
    first = torch.rand(1000, device=DEV, generator=g)
    assert g.get_offset() == 4
    torch.randn(3, 1000, device=DEV, generator=g)
    torch.rand(0, device=DEV, generator=g)
    assert g.get_offset() == 8
    g.set_offset(0)
    assert torch.equal(torch.rand(1000, device=DEV, generator=g).cpu(), first.cpu())
    with pytest.raises(RuntimeError, match="multiple of 4"):
        g.set_offset(2)
    copy = torch.Generator(device=DEV)
    copy.set_state(g.get_state())
    assert (copy.initial_seed(), copy.get_offset()) == (1, 4)
    assert g.clone_state().get_offset() == 4


def test_calls_are_independent():
    torch.manual_seed(4)
    draws = torch.stack([torch.rand(20000, device=DEV) for _ in range(6)]).cpu()
    off = torch.corrcoef(draws) - torch.eye(6)
    assert off.abs().max() < 4.5 / 20000**0.5
    near = torch.corrcoef(torch.stack([draws[0, :-1], draws[0, 1:]]))[0, 1]
    assert near.abs() < 4.5 / 20000**0.5
    torch.manual_seed(5)
    assert abs(np.corrcoef(draws[0], torch.rand(20000, device=DEV).cpu())[0, 1]) < 0.04


def test_the_generator_of_the_cpu_is_left_alone():
    torch.manual_seed(1)
    state = torch.get_rng_state()
    torch.rand(10, device=DEV)
    torch.nn.functional.dropout(torch.ones(10, device=DEV))
    torch.randperm(10, device=DEV)
    assert torch.equal(torch.get_rng_state(), state)


def test_own_generator():
    g = torch.Generator(device=DEV).manual_seed(3)
    assert g.device == torch.device("openreg:0") and g.initial_seed() == 3
    a = torch.randn(10, device=DEV, generator=g)
    h = torch.Generator(device=DEV).manual_seed(3)
    assert torch.equal(a.cpu(), torch.randn(10, device=DEV, generator=h).cpu())
    assert g.clone_state().initial_seed() == 3
    state = torch.openreg.get_rng_state()
    torch.rand(5, device=DEV, generator=g)
    assert torch.equal(torch.openreg.get_rng_state(), state)


def test_generator_of_another_kind():
    x = torch.empty(3, device=DEV)
    wrong = "Expected a 'openreg' device type for generator but found 'cpu'"
    for fill in ("uniform_", "normal_", "random_", "bernoulli_", "exponential_"):
        with pytest.raises(RuntimeError, match=wrong):
            getattr(x, fill)(generator=torch.Generator())
    with pytest.raises(RuntimeError, match="but found 'openreg'"):
        torch.empty(3).uniform_(generator=torch.Generator(device=DEV))


def test_devices_have_their_own():
    torch.openreg.manual_seed_all(7)
    a = torch.rand(10, device="openreg:0")
    b = torch.rand(10, device="openreg:1")
    assert torch.equal(a.cpu(), b.cpu())
    assert torch.openreg.initial_seed() == 7
    assert len(torch.openreg.default_generators) == 2
    offset = torch.openreg.default_generators[1].get_offset()
    torch.rand(10, device="openreg:0")
    assert torch.openreg.default_generators[1].get_offset() == offset


def test_fork_rng():
    torch.manual_seed(2)
    with torch.random.fork_rng(devices=[0], device_type=DEV):
        torch.rand(5, device=DEV)
    a = torch.rand(5, device=DEV)
    torch.manual_seed(2)
    assert torch.equal(torch.rand(5, device=DEV).cpu(), a.cpu())


def test_permutation_repeats():
    torch.manual_seed(8)
    a = torch.randperm(50, device=DEV)
    torch.manual_seed(8)
    assert torch.equal(torch.randperm(50, device=DEV).cpu(), a.cpu())
    assert a.cpu().sort().values.tolist() == list(range(50))
    assert a.cpu().tolist() != list(range(50))


def test_generators_that_share_a_state():
    """Core's functions for a graph that draws the same numbers twice."""
    g = torch.Generator(DEV).manual_seed(5)
    clone, shared = g.clone_state(), g.graphsafe_get_state()
    draw = lambda generator: torch.rand(4, device=DEV, generator=generator)  # noqa: E731
    first = draw(g)
    assert torch.equal(draw(clone), first)
    second = draw(shared)  # continues after the first
    assert not torch.equal(second, first)
    assert g.get_offset() == shared.get_offset() == 2 * clone.get_offset()
    shared.manual_seed(6)
    assert g.initial_seed() == 6 and clone.initial_seed() == 5

    state = torch.Generator(DEV).manual_seed(5)
    before = g.graphsafe_get_state()
    g.graphsafe_set_state(state)
    assert torch.equal(draw(g), first) and torch.equal(draw(state), second)
    g.graphsafe_set_state(before)
    assert g.initial_seed() == 6 and g.get_offset() == 0
    with pytest.raises(RuntimeError, match="graphsafe_get_state"):
        g.graphsafe_set_state(torch.Generator())


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_draw_the_same_numbers(reentrant):
    from torch.utils.checkpoint import checkpoint

    def run(through):
        torch.manual_seed(4)
        x = torch.ones(4096, device=DEV, requires_grad=True)
        out = through(lambda x: torch.nn.functional.dropout(x * 2, 0.5).sin(), x)
        out = torch.nn.functional.dropout(out, 0.25)
        out.sum().backward()
        return out.detach(), x.grad, torch.rand(3, device=DEV)

    want = run(lambda function, x: function(x))
    got = run(lambda function, x: checkpoint(function, x, use_reentrant=reentrant))
    for g, w in zip(got, want, strict=True):
        assert torch.equal(g, w)


@pytest.mark.native
def test_checkpoints_under_compile_draw_the_same_numbers():
    """The partitioner recomputes a part of the graph with its own generator."""
    from torch.utils.checkpoint import checkpoint

    def block(x, w):
        return torch.nn.functional.dropout(torch.relu(x @ w), 0.5).sin()

    def function(x, w):
        return checkpoint(block, x, w, use_reentrant=False).sum()

    compiled = torch.compile(function, backend="aot_eager_decomp_partition")
    torch.manual_seed(1)
    counts = []
    for _ in range(3):
        x = torch.ones(8, 16, device=DEV, requires_grad=True)
        w = torch.full((16, 512), 0.125, device=DEV, requires_grad=True)
        out = compiled(x, w)
        out.backward()
        # A kept element is 4: it adds sin(4) to the result, and 2 cos(4) to the gradient.
        counts.append(round(out.item() / math.sin(4)))
        assert counts[-1] == round(w.grad[0].sum().item() / (2 * math.cos(4)))
    assert len(set(counts)) == 3 and all(1800 < n < 2300 for n in counts)
