# SPDX-License-Identifier: BSD-3-Clause
"""Distributions of the card's random numbers, and arguments that it refuses.

The seeds are fixed, so each test either always passes or always fails.
"""

import math

import packets
import pytest
import torch
from scipy import stats

from ops import ALL, FLOATS, INTS, no_fallback, to_card

DEV = "openreg"
N = 20000


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(1234)
    with no_fallback():
        yield


def drawn(fill, *args, dtype=torch.float32, n=N):
    x = torch.full((n,), 1, dtype=dtype, device=DEV)
    assert getattr(x, fill)(*args) is x
    return x.cpu().double()


def follows(x, distribution, limit=1e-3):
    """Checks the sample with the Kolmogorov-Smirnov test."""
    assert stats.kstest(x.numpy(), distribution.cdf).pvalue > limit


def counts_follow(counts, chances):
    total = counts.sum().item()
    expected = [c * total for c in chances]
    assert stats.chisquare(counts.numpy(), expected).pvalue > 1e-3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_uniform(dtype):
    follows(drawn("uniform_", dtype=dtype), stats.uniform())
    follows(drawn("uniform_", -3.0, 7.0, dtype=dtype), stats.uniform(-3, 10))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_uniform_halves(dtype):
    x = drawn("uniform_", dtype=dtype)
    bins = torch.histc(x + 0.0, 16, 0, 1)  # the half types hold the edges exactly
    assert abs(x.mean() - 0.5) < 4 / (12 * N) ** 0.5 + 2**-9
    assert abs(x.var() - 1 / 12) < 0.004
    assert (bins - N / 16).abs().max() < 6 * (N / 16) ** 0.5


RANGES = [(0, 1), (1, 2), (-1, 0), (-2, -1), (0.1, 0.3), (-1000, 1000), (5, 5), (0, 1e-6),
          (999, 1000), (-60000, 5000)]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("low, high", RANGES)
def test_uniform_never_reaches_the_end(dtype, low, high):
    x = drawn("uniform_", low, high, dtype=dtype, n=100000)
    first = torch.tensor(low, dtype=dtype).double()
    end = torch.tensor(high, dtype=dtype).double()
    assert x.min() >= first
    assert x.max() < end or first == end == x.max()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_continuous(dtype):
    follows(drawn("normal_", dtype=dtype), stats.norm())
    follows(drawn("normal_", 5, 0.25, dtype=dtype), stats.norm(5, 0.25))
    follows(drawn("log_normal_", 0.5, 0.3, dtype=dtype), stats.lognorm(0.3, scale=math.exp(0.5)))
    follows(drawn("cauchy_", 1.0, 3.0, dtype=dtype), stats.cauchy(1, 3))
    follows(drawn("exponential_", 2.5, dtype=dtype), stats.expon(scale=1 / 2.5))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_continuous_halves(dtype):
    x = drawn("normal_", dtype=dtype)
    assert abs(x.mean()) < 0.03 and abs(x.var() - 1) < 0.05
    x = drawn("exponential_", dtype=dtype)
    assert abs(x.mean() - 1) < 0.03 and x.min() > 0
    x = drawn("log_normal_", 0, 0.25, dtype=dtype)
    assert abs(x.log().mean()) < 0.01 and abs(x.log().std() - 0.25) < 0.01


def test_tails():
    x = drawn("normal_", n=1 << 21)
    for limit in (2.0, 3.0, 4.0):
        expected = stats.norm.sf(limit) * len(x)
        for count in ((x > limit).sum(), (x < -limit).sum()):
            assert abs(count - expected) < 4.5 * expected**0.5
    assert x.abs().max() < 6.6
    assert abs(x.mean()) < 3e-3 and abs(x.var() - 1) < 5e-3
    assert abs((x**3).mean()) < 0.02 and abs((x**4).mean() - 3) < 0.05
    x = drawn("exponential_", n=1 << 21)
    assert 11 < x.max() < 22 and x.min() > 0


@pytest.mark.parametrize("dtype", FLOATS + INTS)
def test_geometric(dtype):
    x = drawn("geometric_", 0.4, dtype=dtype)
    assert x.min() == 1 and torch.equal(x, x.round())
    counts = torch.bincount(x.long().clamp(max=12))[1:]
    chances = [0.4 * 0.6**k for k in range(11)]
    counts_follow(counts, [*chances, 1 - sum(chances)])


@pytest.mark.parametrize("dtype", ALL)
def test_bernoulli(dtype):
    for p in (0.0, 0.25, 0.9, 1.0):
        x = drawn("bernoulli_", p, dtype=dtype)
        assert set(x.tolist()) <= {0.0, 1.0}
        assert abs(x.mean() - p) <= 4.5 * (p * (1 - p) / N) ** 0.5
    chance = torch.tensor([0.0, 0.5, 0.125, 1.0])
    for p in (chance, chance.double(), chance.half(), chance.bfloat16()):
        x = torch.ones(N, 4, dtype=dtype, device=DEV).bernoulli_(p.to(DEV)).cpu().double()
        assert (x.mean(0) - chance).abs().max() < 0.02
        assert x[:, 0].max() == 0 and x[:, 3].min() == 1
    assert torch.ones(4, dtype=dtype, device=DEV).bernoulli_(chance).cpu()[3] == 1


def test_bernoulli_of_a_tensor():
    p = torch.rand(200, 150, device=DEV).t()
    x = torch.bernoulli(p)
    assert x.dtype == p.dtype and abs((x - p).mean().item()) < 0.01
    out = torch.empty(0, dtype=torch.int64, device=DEV)
    assert torch.bernoulli(p, out=out) is out and out.shape == p.shape
    assert torch.equal(torch.bernoulli(torch.empty(0, device=DEV)).cpu(), torch.empty(0))
    assert abs(torch.bernoulli(p, 0.75).mean().item() - 0.75) < 0.02


@pytest.mark.parametrize("dtype", ALL)
def test_whole_numbers(dtype):
    high = 2 if dtype == torch.bool else 7
    low = 0 if dtype in (torch.bool, torch.uint8) else -6
    x = drawn("random_", low, high, dtype=dtype)
    counts_follow(torch.bincount((x - low).long()), [1 / (high - low)] * (high - low))
    assert drawn("random_", high, dtype=dtype).max() == high - 1


LARGEST = {torch.float32: 2**24, torch.float64: 2**53, torch.float16: 2**11,
           torch.bfloat16: 2**8, torch.bool: 1}


@pytest.mark.parametrize("dtype", ALL)
def test_whole_numbers_of_a_type(dtype):
    x = torch.empty(N, dtype=dtype, device=DEV).random_().cpu()
    most = LARGEST[dtype] if dtype in LARGEST else torch.iinfo(dtype).max
    assert x.min() >= 0 and x.double().max() <= most
    assert torch.equal(x.double(), x.double().round())
    assert abs(x.double().mean() / most - 0.5) < 0.012
    if most > 2000:
        follows((x.double() + 0.5) / (most + 1), stats.uniform())
    else:
        counts = torch.bincount(x.long(), minlength=most + 1)
        counts_follow(counts, [1 / len(counts)] * len(counts))


def test_large_ranges():
    for low, high in ((0, 2**33), (-(2**40), 2**45), (-(2**62), 2**62), (2**62, 2**63 - 1)):
        x = torch.randint(low, high, (N,), device=DEV).cpu()
        assert x.min() >= low and x.max() < high
        follows((x.double() - low) / (high - low), stats.uniform())
    x = torch.empty(N, dtype=torch.int64, device=DEV).random_(5, None).cpu()
    assert x.min() >= 5
    x = torch.empty(N, dtype=torch.int64, device=DEV).random_(-(2**63), None).cpu()
    follows(x.double() / 2.0**64 + 0.5, stats.uniform())


@pytest.mark.filterwarnings("ignore:.*is out of bounds")
def test_whole_numbers_are_not_rounded_to_the_end():
    for dtype, to in ((torch.float16, 65504), (torch.bfloat16, 1000), (torch.float32, 2**26 + 1)):
        x = drawn("random_", to // 2, to, dtype=dtype, n=100000)
        assert x.max() < to


def test_factories():
    x = torch.empty(3, 5, dtype=torch.float64, device=DEV)
    for y in (torch.rand_like(x), torch.randn_like(x), torch.randint_like(x, 9)):
        assert y.shape == x.shape and y.dtype == x.dtype and y.is_openreg
    assert torch.randn(4, dtype=torch.complex64, device=DEV).is_complex()
    z = torch.randn(N, dtype=torch.complex64, device=DEV).cpu()
    follows(z.real.double(), stats.norm(scale=0.5**0.5))
    follows(z.imag.double(), stats.norm(scale=0.5**0.5))
    assert torch.normal(2.0, 3.0, (4, 5), device=DEV).shape == (4, 5)


def test_normal_of_tensors():
    mean = torch.linspace(-50, 50, 60).reshape(60, 1)
    std = torch.tensor([0.0, 0.5, 4.0, 9.0]).expand(N // 60, 4).reshape(1, -1)
    m, s = to_card(mean), std.to(DEV)
    x = torch.normal(m, s).cpu()
    assert x.shape == (60, std.numel())
    good = std.expand_as(x) > 0
    follows(((x - mean) / std)[good].double(), stats.norm())
    assert torch.equal(x[:, 0], mean[:, 0])
    x = torch.normal(m.expand(60, 500), 2.0).cpu()
    follows(((x - mean) / 2).flatten().double(), stats.norm())
    x = torch.normal(3.0, to_card(torch.full((N,), 0.1))).cpu()
    follows(x.double(), stats.norm(3, 0.1))
    out = torch.empty(0, device=DEV)
    assert torch.normal(m, s, out=out) is out and out.shape == (60, std.numel())
    out = torch.empty(60, 1, device=DEV)
    assert torch.normal(m, torch.tensor(0.0), out=out).cpu().equal(mean)
    assert torch.normal(torch.empty(0, device=DEV), 1.0).shape == (0,)
    assert torch.normal(m.double(), s).dtype == torch.float64


@pytest.mark.parametrize("fill", ["uniform_", "normal_", "random_", "bernoulli_", "cauchy_",
                                  "exponential_", "log_normal_"])
def test_one_packet_each(fill):
    x = torch.empty(64, 33, device=DEV)
    getattr(x, fill)()
    assert packets.launched(getattr(x, fill)) == 1


def test_one_packet_over_a_whole_ring():
    x = torch.empty(64, 33, device=DEV)
    pads = torch.openreg.queue_stats()["pads"]
    for _ in range(torch.openreg.get_device_properties(DEV).max_ring_slots):
        assert packets.launched(x.uniform_) == 1
        if torch.openreg.queue_stats()["pads"] > pads:
            return
    raise AssertionError("a ring's end never had to be filled")


WRONG = {
    "range": lambda d: torch.empty(3, device=d).uniform_(2, 1),
    "bound": lambda d: torch.empty(3, dtype=torch.half, device=d).uniform_(0, 1e6),
    "width": lambda d: torch.empty(3, device=d).uniform_(-3e38, 3e38),
    "uniform integer": lambda d: torch.empty(3, dtype=torch.long, device=d).uniform_(),
    "std": lambda d: torch.empty(3, device=d).normal_(0, -1),
    "std number": lambda d: torch.normal(torch.ones(3, device=d), -1.0),
    "std tensor": lambda d: torch.normal(0.0, torch.tensor([1.0, -1.0]).to(d)),
    "std tensors": lambda d: torch.normal(torch.ones(2).to(d), torch.tensor([1.0, -1.0]).to(d)),
    "shapes": lambda d: torch.normal(torch.ones(2).to(d), torch.ones(3).to(d)),
    "normal integer": lambda d: torch.empty(3, dtype=torch.long, device=d).normal_(),
    "log_normal": lambda d: torch.empty(3, device=d).log_normal_(0, 0),
    "cauchy": lambda d: torch.empty(3, device=d).cauchy_(0, 0),
    "cauchy integer": lambda d: torch.empty(3, dtype=torch.long, device=d).cauchy_(),
    "exponential": lambda d: torch.empty(3, device=d).exponential_(0),
    "exponential integer": lambda d: torch.empty(3, dtype=torch.int, device=d).exponential_(),
    "geometric 0": lambda d: torch.empty(3, device=d).geometric_(0),
    "geometric 1": lambda d: torch.empty(3, device=d).geometric_(1),
    "geometric bool": lambda d: torch.empty(3, dtype=torch.bool, device=d).geometric_(0.5),
    "random": lambda d: torch.empty(3, device=d).random_(5, 5),
    "random u8": lambda d: torch.empty(3, dtype=torch.uint8, device=d).random_(0, 300),
    "random i8": lambda d: torch.empty(3, dtype=torch.int8, device=d).random_(-200, 5),
    "random half": lambda d: torch.empty(3, dtype=torch.half, device=d).random_(0, 70000),
    "randint": lambda d: torch.randint(3, 3, (2,), device=d),
    "p above": lambda d: torch.empty(3, device=d).bernoulli_(1.5),
    "p below": lambda d: torch.empty(3, device=d).bernoulli_(-0.5),
    "p integer": lambda d: torch.bernoulli(torch.ones(3, dtype=torch.long, device=d)),
    "p shape": lambda d: torch.empty(3, device=d).bernoulli_(torch.ones(2, device=d)),
    "overlap": lambda d: torch.empty(1, device=d).expand(3).uniform_(),
    "overlap bernoulli": lambda d: torch.empty(1, device=d).expand(3).bernoulli_(),
    "dropout": lambda d: torch.dropout(torch.ones(3, device=d), 1.5, True),
    "dropout integer": lambda d: torch.native_dropout(
        torch.ones(3, dtype=torch.long, device=d), 0.5, True),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors_are_those_of_the_cpu(case):
    with pytest.raises(Exception) as want:
        WRONG[case]("cpu")
    with pytest.raises(type(want.value)) as got:
        WRONG[case](DEV)
    text = str(want.value).splitlines()[0].replace("_cpu", "_openreg")
    assert str(got.value).splitlines()[0] == text


@pytest.mark.parametrize("p", [1.5, -0.25, math.nan])
def test_probabilities_out_of_range(p):
    with pytest.raises(RuntimeError, match="Expected p_in >= 0 && p_in <= 1 to be true"):
        torch.bernoulli(to_card(torch.tensor([0.5, p, 0.5])))


def test_nothing_to_fill():
    offset = torch.openreg.default_generators[0].get_offset()
    for shape in ((0,), (3, 0, 5)):
        x = torch.empty(shape, device=DEV)
        for fill in ("uniform_", "normal_", "random_", "bernoulli_", "exponential_"):
            assert getattr(x, fill)().shape == shape
        assert torch.bernoulli(x).shape == shape
        assert torch.native_dropout(x, 0.5, True)[0].shape == shape
    assert torch.openreg.default_generators[0].get_offset() == offset
    assert torch.rand((), device=DEV).shape == ()
