# SPDX-License-Identifier: BSD-3-Clause
"""Special functions, searches and folds that are composed of other operators."""

import pytest
import torch
import torch.nn.functional as F

from ops import check, no_fallback, to_card, values, with_gradients

INF, NAN = float("inf"), float("nan")
ODD = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.5, 7.25, INF, NAN])


def check_against_double(function, x, **tolerance):
    """Compares with the CPU's result in float64, since its float32 result may be less exact
    than the card's."""
    want = function(x.double()).to(x.dtype)
    with no_fallback():
        got = function(to_card(x)).cpu()
    torch.testing.assert_close(got, want, equal_nan=True, **(tolerance or {"rtol": 1e-6, "atol": 0}))


SPECIAL = {
    "digamma": torch.digamma,
    "erfcx": torch.special.erfcx,
    "log_ndtr": torch.special.log_ndtr,
    "spherical_bessel_j0": torch.special.spherical_bessel_j0,
}


@pytest.mark.parametrize("name", SPECIAL)
def test_on_a_line(name):
    function = SPECIAL[name]
    x = torch.linspace(-9.03, 30.0, 4001)
    tolerance = {"rtol": 2e-6, "atol": 1e-7} if name != "erfcx" else {}
    check_against_double(function, x, **tolerance)
    check_against_double(function, x.view(-1)[1:].view(40, 100).t(), **tolerance)
    check_against_double(function, ODD[:9] if name != "log_ndtr" else ODD, **tolerance)
    check(function, x[::7].double(), rtol=1e-7, atol=1e-12)


def test_long_sums():
    """polygamma and zeta: the card does not sum where the result is a pole or undefined. A
    sum of very many terms falls back to the CPU."""
    poles = torch.tensor([-1e10, -3e38, -INF, INF, NAN, -7.0, 2.0])
    want = torch.tensor([INF, INF, INF, 0, NAN, INF, torch.pi**2 / 6 - 1])
    with no_fallback():
        got = torch.polygamma(1, to_card(poles))
        power = torch.special.zeta(to_card(torch.tensor([2.5, 0.5, 1.0])), to_card(torch.full((3,), -1e9 - 0.5, dtype=torch.double)))
    torch.testing.assert_close(got.cpu(), want, equal_nan=True)
    torch.testing.assert_close(power.cpu(), torch.tensor([NAN, NAN, INF]).double(), equal_nan=True)
    x = torch.tensor([-1e5 - 0.5, 1.5], dtype=torch.double)
    torch.openreg.reset_fallbacks()
    got = [torch.polygamma(1, to_card(x)), torch.special.zeta(2.0, to_card(x))]
    assert torch.openreg.fallbacks() == {"aten::polygamma.out": 1, "aten::special_zeta.out": 1}
    want = [torch.polygamma(1, x), torch.special.zeta(2.0, x)]
    torch.testing.assert_close([t.cpu() for t in got], want)


def test_integers_with_doubles_as_default():
    """Functions that the card has only in float32 accuracy fall back for doubles."""
    torch.set_default_dtype(torch.double)
    try:
        for f in (torch.i0, torch.special.i1e, torch.special.modified_bessel_i0):
            i = torch.arange(1, 9)
            torch.testing.assert_close(f(to_card(i)).cpu(), f(i), rtol=1e-14, atol=0)
        b = torch.tensor([True, False])
        torch.testing.assert_close(torch.special.ndtri(to_card(b)).cpu(), torch.special.ndtri(b))
    finally:
        torch.set_default_dtype(torch.float)


def test_frexp_without_the_dtype():
    x = torch.tensor([1.0, 2.0]).to(torch.float8_e5m2)
    with pytest.raises(NotImplementedError, match="frexp.*not implemented for 'Float8_e5m2'"):
        torch.frexp(to_card(x))


def test_erfcx_of_doubles():
    x = torch.cat([torch.linspace(20.0001, 30, 500), torch.tensor([100.0, 1e9, 1e200])]).double()
    check(torch.special.erfcx, x, rtol=1e-15, atol=0)


def test_inverse_error_functions():
    tails = 10.0 ** torch.arange(-37, 0.0)
    x = torch.cat([torch.linspace(-1, 1, 999), 1 - 2.0 ** -torch.arange(1.0, 25), tails])
    check_against_double(torch.erfinv, x, rtol=2e-6, atol=0)
    check_against_double(torch.erfinv, ODD)
    p = torch.cat([torch.linspace(0, 1, 999), tails, 1 - tails])
    check_against_double(torch.special.ndtri, p, rtol=2e-6, atol=1e-7)
    check_against_double(torch.special.ndtri, ODD)
    x = to_card(values(20, low=-1, high=1))
    with no_fallback():
        assert torch.allclose(x.clone().erfinv_(), x.erfinv())


def test_modified_bessel_functions():
    x = torch.cat([torch.linspace(-60, 60, 2001), torch.tensor([0.0, -0.0, 3.75, 88.0, NAN])])
    for f in (torch.i0, torch.special.i0e, torch.special.i1, torch.special.i1e):
        check_against_double(f, x, rtol=2e-6, atol=1e-30)
    check_against_double(torch.special.i0e, torch.tensor([INF, -INF]))
    check(torch.i0, values(9, dtype=torch.float16), rtol=2e-3, atol=1e-3)
    torch.openreg.reset_fallbacks()
    x = values(5).double()
    assert torch.allclose(torch.i0(to_card(x)).cpu(), torch.i0(x))
    assert to_card(x).i0_().shape == x.shape
    assert set(torch.openreg.fallbacks()) == {"aten::i0", "aten::i0_"}


def test_polygamma_and_zeta():
    x = torch.cat([torch.linspace(0.03, 20, 400), torch.linspace(-8.97, -0.03, 200)])
    far = torch.tensor([1e-4, -1e-4, 300.0, 3e5, INF, NAN, -0.5])
    for n in range(1, 8):
        check_against_double(lambda x, n=n: torch.polygamma(n, x), x, rtol=5e-6, atol=0)
        got = torch.polygamma(n, to_card(far)).cpu()
        want = torch.polygamma(n, far.double()).float()
        want[4] = 0  # core's result is NaN if both exponents are infinite
        torch.testing.assert_close(got, want, rtol=5e-6, atol=0, equal_nan=True)
    check(lambda x: torch.polygamma(0, x), x[:400], rtol=2e-6, atol=1e-6)
    s = torch.linspace(1.05, 30, 300)
    check_against_double(lambda s: torch.special.zeta(s, s.new_tensor(1.5)), s)
    check(lambda s: torch.special.zeta(s, 2.0), s)
    odd = torch.tensor([1.0, 0.5, NAN, 2.0, 3.0, 2.5])
    q = torch.tensor([2.0, 2.0, 2.0, -3.0, 0.0, -1.5])
    check(torch.special.zeta, odd, q)
    check(with_gradients(torch.lgamma), values(40, low=0.1, high=9))
    check(lambda x: torch.mvlgamma(x, 3), values(9, low=2, high=9))


POLYNOMIALS = [
    f"{kind}_polynomial_{letter}"
    for kind, letters in {
        "chebyshev": "tuvw",
        "shifted_chebyshev": "tuvw",
        "hermite": ["h", "he"],
        "laguerre": "l",
        "legendre": "p",
    }.items()
    for letter in letters
]


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name):
    function = getattr(torch.special, name)
    x = values(12, 40, dtype=torch.float64, low=-1.5, high=1.5)
    n = torch.arange(-1, 11).view(12, 1)
    check(function, x, n, rtol=1e-7, atol=1e-7)
    check(function, x.float(), n.float() + 0.7, rtol=1e-4, atol=1e-4)
    check(lambda x: [function(x, 4), function(x[:0], 3)], x)
    check(lambda n: function(0.25, n), n)
    high = torch.tensor([0, 5, 7, 8, 9, 15, 16, 29, NAN], dtype=torch.float64).view(9, 1)
    check(function, x[:1] / 1.5, high[:4], rtol=1e-7, atol=1e-7)  # as many as two packets take
    check(function, x[:1] / 1.5, high, rtol=1e-6, atol=1e-6)
    torch.openreg.reset_fallbacks()
    function(to_card(x[0].clamp(0.1, 0.9)), 1000)
    assert torch.openreg.fallbacks()


def test_bits_of_floats():
    x = torch.cat([ODD, -ODD, torch.tensor([1e-45, 1e-40, 3.4e38, 1 - 2**-24, 2.0**-126])])
    check(torch.frexp, x)
    check(torch.frexp, x.double())
    check(torch.frexp, values(50, dtype=torch.float64, low=-1e300, high=1e300))
    check(torch.frexp, torch.tensor([5e-324, 1.7e308, 1 - 2.0**-53, 1024 * (1 - 2.0**-53)], dtype=torch.float64))
    check(torch.frexp, values(9, dtype=torch.float16))
    pairs = torch.cartesian_prod(x, x)
    check(torch.nextafter, pairs[:, 0], pairs[:, 1])
    check(torch.nextafter, pairs[:, 0].double(), pairs[:, 1].double())
    check(lambda x: torch.nextafter(x, x.new_tensor(0.0)), x)


def test_frexp_of_every_exponent():
    powers = torch.arange(1, 256, dtype=torch.int32) * 2**23
    small = 2 ** torch.arange(23, dtype=torch.int32)
    bits = torch.cat([powers - 1, powers, powers + 1, small - 1, small, small + 1])
    bits = torch.cat([bits, bits + torch.iinfo(torch.int32).min])
    check(torch.frexp, bits.view(torch.float32))
    for dtype in (torch.float16, torch.bfloat16):
        check(torch.frexp, torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype))


@pytest.mark.parametrize("right", [False, True])
def test_searches(right):
    edges = torch.sort(values(37)).values
    edges[5] = edges[6] = edges[7]
    v = torch.cat([values(50, seed=3), edges, torch.tensor([INF, -INF, NAN])])
    check(lambda e, v: [torch.bucketize(v, e, right=right), torch.bucketize(v.view(2, 45), e)], edges, v)
    check(lambda e: torch.bucketize(0.5, e, right=right, out_int32=True), edges)
    check(lambda e, v: torch.searchsorted(e.expand(3, 37), v.expand(3, 90), right=right), edges, v)
    check(lambda e, v: torch.searchsorted(e[:0], v, right=right), edges, v)
    rows = torch.sort(values(4, 1, 8)).values
    check(lambda r, v: torch.searchsorted(r, v, right=right), rows, values(4, 1, 5, seed=2))
    check(lambda r, v: torch.searchsorted(r, v, side="right"), rows, values(4, 1, 5, seed=2))
    order = torch.argsort(values(16))
    check(lambda x, o: torch.searchsorted(x, x, sorter=o), values(16), order)
    check(lambda i: torch.bucketize(i, torch.arange(0, 20, 3, device=i.device)), torch.arange(-2, 22))
    with pytest.raises(RuntimeError, match="boundaries tensor must be 1 dim"):
        torch.bucketize(to_card(v), to_card(rows))


def test_isin():
    x, some = torch.arange(12).view(3, 4), torch.tensor([2, 5, 40])
    check(lambda x, s: [torch.isin(x, s), torch.isin(x, s, invert=True)], x, some)
    check(lambda x, s: [torch.isin(x, s[:0]), torch.isin(x, s[:0], invert=True), torch.isin(x[:0], s)], x, some)
    check(lambda x: [torch.isin(x, 3), torch.isin(x, 3, invert=True)], x)
    check(torch.isin, x.float(), some)


def test_repeats_and_places():
    r = torch.tensor([2, 0, 3, 0, 0, 1, 4, 0])
    check(lambda r: [torch.repeat_interleave(r), torch.repeat_interleave(r.int())], r)
    check(lambda r, x: x.repeat_interleave(r, 0), r, values(8, 2))
    check(lambda r: torch.repeat_interleave(r * 0), r)
    check(lambda r: torch.repeat_interleave(r, output_size=10), r)
    with pytest.raises(RuntimeError, match="can not be negative"):
        torch.repeat_interleave(to_card(-r))
    with pytest.raises(RuntimeError, match="allocated size does not match"):
        torch.repeat_interleave(to_card(r), output_size=3)
    check(lambda r: [torch.nonzero_static(r, size=n) for n in (0, 3, 9)], r)
    check(lambda r: torch.combinations(r, 2), r)


def test_histc():
    x = values(1000)
    x[3] = NAN
    check(lambda x: [torch.histc(x, 10, -3, 2), torch.histc(x[5:], 7), torch.histc(x[:0], 4)], x)
    check(lambda x: torch.histc(x, 4), torch.ones(5))
    edges = torch.arange(-300, 201) / 100
    for x in (edges, edges.double()):
        check(lambda x: [torch.histc(x, n, -3, 2) for n in (5, 7, 10, 100, 500)], x)
        check(lambda x: [torch.histc(x, n, -0.3, 0.7) for n in (7, 10, 100)], x)
    with pytest.raises(RuntimeError, match="bins must be > 0"):
        torch.histc(to_card(x), 0)


def test_folds():
    x = values(2, 3, 9, 11)
    for options in [{}, {"stride": 2, "padding": 1}, {"dilation": (2, 1), "padding": (0, 2)}]:
        check(with_gradients(lambda x, o=options: F.unfold(x, (3, 2), **o)), x, rtol=1e-5, atol=1e-5)
        columns = F.unfold(x, (3, 2), **options)
        check(with_gradients(lambda c, o=options: F.fold(c, (9, 11), (3, 2), **o)), columns)
    check(lambda x: F.unfold(x[0], 3), x)
    check(lambda x: F.unfold(x.half(), 3), x)
    with pytest.raises(RuntimeError):
        F.unfold(to_card(x), (20, 20))


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_unpooling(dims):
    pool = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[dims - 1]
    unpool = (F.max_unpool1d, F.max_unpool2d, F.max_unpool3d)[dims - 1]
    x = values(2, 3, *[6] * dims)
    y, places = pool(x, 2, return_indices=True)
    check(with_gradients(lambda y, p: unpool(y, p, 2)), y, places)
    check(lambda y, p: unpool(y, p, 2, output_size=x.shape), y, places)
    check(lambda y, p: unpool(y[0], p[0], 2), y, places)


def test_vectors_and_norms():
    a, b = values(4, 3, 5), values(1, 3, 1, seed=2)
    check(lambda a, b: torch.linalg.cross(a, b, dim=1), a, b)
    check(with_gradients(lambda a: torch.linalg.cross(a, a.flip(1), dim=-2)), a)
    check(lambda i: torch.cross(i, i + torch.arange(3, device=i.device), dim=1), torch.arange(12).view(4, 3))
    out = to_card(torch.zeros(4, 3))
    with no_fallback():
        torch.cross(to_card(a[:, :, 0]), to_card(a[:, :, 1]), dim=1, out=out)
    torch.testing.assert_close(out.cpu(), torch.cross(a[:, :, 0], a[:, :, 1], dim=1))
    for p in (1, 2, 2.5, INF):
        check(lambda a, p=p: torch.renorm(a, p, 1, 3.0), a)
    check(lambda a: a.clone().renorm_(2, -1, 1.0), a)
    w = values(6, 4)
    check(lambda i, w: [F.embedding(i, w, max_norm=1.5), w], torch.tensor([[0, 3], [3, 5]]), w.clone())


def test_linspace_and_logspace():
    for dtype in (torch.int32, torch.uint8, torch.int64, torch.float32, torch.float16):
        for args in [(4.3, 0, 50), (0, 9.9, 7), (3, 11, 1), (2, 5, 4), (7, 7, 3), (0, 1, 0)]:
            got = torch.linspace(*args, dtype=dtype, device="openreg").cpu()
            torch.testing.assert_close(got, torch.linspace(*args, dtype=dtype))
    for args in [(0, 2, 7), (-3.5, 3, 50), (1, 4, 1), (1, 2, 0)]:
        for base in (10.0, 2.0, 0.5):
            with no_fallback():
                got = torch.logspace(*args, base=base, device="openreg").cpu()
            torch.testing.assert_close(got, torch.logspace(*args, base=base))


def test_small_ones():
    x = values(2, 6, 3, 4)
    check(lambda x: [F.channel_shuffle(x, 3), F.channel_shuffle(x, 1)], x)
    check(lambda x: torch.narrow_copy(x, 1, 2, 3), x)
    check(with_gradients(lambda x: F.interpolate(x, 9, mode="linear")), values(2, 3, 5))
    check(with_gradients(lambda x: F.interpolate(x, 4, mode="linear", align_corners=True)), values(2, 3, 7))
    check(lambda x: F.rrelu(x, 0.1, 0.3), x)
    with no_fallback():
        card = to_card(x).requires_grad_()
        y = F.rrelu(card, 0.1, 0.3, training=True)
        y.sum().backward()
    slope = card.grad.cpu()
    assert torch.allclose(y.detach().cpu(), x * slope)
    assert (slope[x > 0] == 1).all() and ((slope >= 0.1) & (slope <= 0.3))[x <= 0].all()
    assert slope[x <= 0].unique().numel() > 5
    check(torch.ops.aten.native_dropout_backward, torch.arange(4), torch.tensor([True] * 4), 0.5)


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_addmv_of_empty_operands():
    """The result has the size of the meta device, which compilers use."""
    for sizes in [((1,), (0, 3), (3,)), ((), (0, 3), (3,)), ((1,), (5, 0), (0,)), ((5,), (5, 0), (0,))]:
        for beta in (0, 2):
            want, got = (
                torch.addmv(*(torch.ones(s, device=d) for s in sizes), beta=beta)
                for d in ("meta", "openreg")
            )
            assert got.shape == want.shape
            assert (got.cpu() == beta).all()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_histc_of_integers(dtype):
    """The CPU has no histc of integers. The reference follows CUDA's integer division."""

    def counted(numbers, bins, low=0, high=0):
        if low == high:
            low, high = min(numbers), max(numbers)
        if low == high:
            low, high = low - 1, high + 1
        counts = [0] * bins
        for x in numbers:
            if low <= x <= high:
                counts[min((x - low) * bins // (high - low), bins - 1)] += 1
        return counts

    x = values(200, dtype=torch.float32, low=0, high=100).to(dtype)
    for options in [(10,), (7, 3, 90), (100, 0, 99), (1000, 1, 64), (3, 200, 300)]:
        want = torch.tensor(counted(x.tolist(), *options), dtype=dtype)
        with no_fallback():
            got = torch.histc(to_card(x), *options)
        assert got.dtype == dtype and torch.equal(got.cpu(), want)
    same = to_card(torch.full((5,), 3, dtype=dtype))
    assert torch.histc(same, 4).tolist() == counted([3] * 5, 4)
    assert torch.histc(same[:0], 4).tolist() == [0] * 4
    with pytest.raises(RuntimeError, match="max must be larger than min"):
        torch.histc(same, 4, 5, 2)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int64])
def test_bincount(dtype):
    x = values(300, low=0, high=40).to(dtype)
    check(lambda x: [x.bincount(), x.bincount(minlength=60), x[:0].bincount(minlength=3)], x)
    for weights in (torch.float32, torch.float64, torch.int32, torch.float16):
        check(lambda x, w: x.bincount(w, 50), x, values(300, dtype=weights))
    for bad, minlength in [(x.view(2, 150), 0), (x.to(torch.int64) - 20, 0), (x, -1)]:
        with pytest.raises(RuntimeError, match="non-negative integral|minlength"):
            to_card(bad).bincount(minlength=minlength)
    with pytest.raises(RuntimeError, match="same length"):
        to_card(x).bincount(to_card(values(299)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_kaiser_window(dtype):
    for length, periodic, beta in [(8, True, 12.0), (9, False, 0.5), (1, True, 3.0), (0, True, 3.0), (64, True, 20.0)]:
        want = torch.kaiser_window(length, periodic, beta, dtype=dtype)
        got = torch.kaiser_window(length, periodic, beta, dtype=dtype, device="openreg")
        torch.testing.assert_close(got.cpu(), want)
