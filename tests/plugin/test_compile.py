# SPDX-License-Identifier: BSD-3-Clause
"""torch.compile with Inductor: numbers as in eager mode, with fewer packets."""

import packets
import pytest
import torch
import torch.nn.functional as F

DEV = "openreg"


def randn(*shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(sum(shape) + 1)
    return torch.randn(shape, generator=generator).to(dtype)


def ints(low, high, *shape):
    generator = torch.Generator().manual_seed(high)
    return torch.randint(low, high, shape, generator=generator)


def chain(x, y):
    return ((x * 2 + y).relu() * torch.sigmoid(y) - x).tanh()


# function, arguments, number of packets. None: not the concern of this page.
POINTWISE = {
    "chain": (chain, (randn(64, 128), randn(128)), 1),
    "where": (lambda x, y: torch.where(x > y, x, y * 2), (randn(33, 7), randn(33, 1)), 1),
    "views": (lambda x: (x.t() + 1).reshape(-1) * 2, (randn(5, 9),), 1),
    "strides": (lambda x: x[::2, 1:].exp() + x[1::2, :-1], (randn(8, 9),), 1),
    "expanded": (lambda x: x.expand(4, 3, 5) * x, (randn(3, 1).expand(3, 5),), 1),
    "nine_dimensions": (
        lambda x: x.permute(8, 0, 2, 1, 4, 3, 6, 5, 7) + 1,
        (randn(2, 3, 2, 3, 2, 3, 2, 3, 2),),
        None,
    ),
    "gelu": (lambda x: F.gelu(x) + F.gelu(x, approximate="tanh"), (randn(1000),), 1),
    "clamp": (lambda x: x.clamp(-0.5, 0.5), (randn(9, 9),), 1),
    "powers": (lambda x: x.abs() ** 1.5 + x**2 + 2**x, (randn(9, 9),), 1),
    "double": (lambda x: x.sin() + 1, (randn(64, dtype=torch.float64),), 1),
    "integers": (lambda x: x // 3 + x % 5 - (x << 1), (torch.arange(-50, 50),), 1),
    "bytes": (lambda x: (x + x) > 100, (torch.arange(250, dtype=torch.uint8),), 1),
    "truth": (lambda x, y: (x & ~y) | (x ^ y), (randn(64) > 0, randn(63, 1) > 0), 1),
    "casts": (
        lambda x: (x * 10).long().float() + x.to(torch.int8).float(),
        (randn(64),),
        1,
    ),
    "bfloat16": (
        lambda x, y: (x * y).exp().relu(),
        (randn(64, dtype=torch.bfloat16), randn(64, dtype=torch.bfloat16)),
        1,
    ),
    "positions": (lambda x: x + torch.arange(5, device=x.device), (randn(4, 5),), 1),
    "triangle": (lambda x: (x * 2).tril(), (randn(9, 9),), 1),
    "number_of_no_dimension": (lambda x: x * 2 + 1, (torch.tensor(3.0),), 1),
    "signs": (
        lambda x: torch.sign(x) * 2 + torch.sgn(x),
        (torch.tensor([float("nan"), float("inf"), -2.0, 0.0, -0.0]),),
        1,
    ),
    "signs_of_integers": (lambda x: x.sign() * 2, (torch.arange(-3, 3),), 1),
    "nothing": (lambda x: (x + 1) * 2, (randn(0, 5),), 0),
    "infinities": (
        lambda x: torch.where(x > 0, float("inf"), x).nan_to_num(nan=3.0, posinf=7.0),
        (randn(64),),
        1,
    ),
}

REDUCTIONS = {
    "sum": (lambda x: (x * x).sum(), (randn(300, 7),), 1),
    "sum_of_rows": (lambda x: (x * x + 1).sum(1), (randn(30, 70),), 1),
    "sum_of_columns": (lambda x: x.exp().sum(0), (randn(30, 70),), 1),
    "sum_of_the_middle": (lambda x: x.exp().sum(1), (randn(30, 17, 5),), 1),
    "sum_of_a_view": (lambda x: (x.t() * 2).sum(0), (randn(30, 70),), 1),
    "sum_of_integers": (lambda x: (x * x).sum(), (torch.arange(99, dtype=torch.int32),), 1),
    "sum_of_nothing": (lambda x: (x + 1).sum(0), (randn(0, 5),), None),
    "mean": (lambda x: x.exp().mean(-1), (randn(4, 70),), None),
    "maximum": (lambda x: x.abs().amax(1), (randn(30, 70),), 1),
    "maximum_and_position": (lambda x: x.max(1), (randn(30, 70),), 1),
    "position": (lambda x: (x * 2).argmin(), (randn(30, 70),), 1),
    "any": (lambda x: (x > 2).any(0), (randn(30, 70),), 1),
    "product": (lambda x: x.prod(1), (randn(5, 60),), 1),
    "variance": (lambda x: x.var(1), (randn(10, 64),), None),
    "softmax": (lambda x: (x * 2).softmax(-1), (randn(30, 70),), None),
    "layer_norm": (
        lambda x, w, b: F.layer_norm(x, (64,), w, b),
        (randn(10, 64), randn(64), randn(64)),
        None,
    ),
    "norm": (lambda x: x / x.norm(dim=1, keepdim=True), (randn(8, 100),), None),
    "log_sum_exp": (lambda x: x.logsumexp(1), (randn(8, 100),), None),
    "cross_entropy": (F.cross_entropy, (randn(8, 10), ints(0, 10, 8)), None),
}

# Eager kernels inside of compiled code.
WHOLE = {
    "matmul": (lambda x, y: (x @ y + 1).relu(), (randn(8, 9), randn(9, 10)), 2),
    "linear": (
        lambda x, w, b: F.linear(x, w, b).tanh(),
        (randn(8, 9), randn(10, 9), randn(10)),
        2,
    ),
    "convolution": (
        lambda x, w: F.conv2d(x, w, padding=1).relu(),
        (randn(2, 3, 8, 8), randn(4, 3, 3, 3)),
        2,
    ),
    "cat": (lambda x, y: torch.cat([x + 1, y * 2], 1).relu(), (randn(4, 5), randn(4, 3)), None),
    "cat_of_types": (
        lambda x, y: torch.cat([x + 1, y * 2, x], -1),
        (randn(4, 5), ints(0, 9, 4, 3)),
        2,
    ),
    "slices": (
        lambda x, y: x.slice_scatter(y * 2, 1, 1, 3) + 1,
        (randn(4, 5), randn(4, 2)),
        None,
    ),
    "pad": (lambda x: F.pad(x + 1, (1, 2)) * 2, (randn(4, 5),), None),
    "embedding": (lambda w, i: F.embedding(i, w) * 2, (randn(10, 4), ints(0, 10, 3, 5)), 2),
    "index": (lambda x, i: x[i] + 1, (randn(10, 4), ints(0, 10, 3)), 2),
    "gather": (lambda x, i: x.gather(1, i) + 1, (randn(10, 4), ints(0, 4, 10, 2)), 2),
    "running_sum": (lambda x: (x + 1).cumsum(0) * 2, (randn(9, 9),), 3),
    "sort": (lambda x: (x + 1).sort(0), (randn(9, 9),), 2),
    "pool": (lambda x: F.max_pool2d(x.relu(), 2), (randn(2, 3, 8, 8),), 2),
    "interpolate": (lambda x: F.interpolate(x, scale_factor=2) + 1, (randn(2, 3, 8, 8),), None),
    "complex": (lambda x: (x * (1 + 2j)).abs(), (randn(5),), None),
}

ALL = POINTWISE | REDUCTIONS | WHOLE

# Operators that compiled code runs whole, as they are listed.
LISTED_WHOLE = {
    "embedding": "aten.embedding.default",
    "index": "aten.index.Tensor",
    "gather": "aten.gather.default",
    "running_sum": "aten.cumsum.default",
    "sort": "aten.sort.stable",
    "pool": "aten.max_pool2d_with_indices.default",
}


@pytest.fixture(autouse=True)
def fresh():
    torch.compiler.reset()
    torch.openreg.reset_compile_fallbacks()
    yield
    torch.compiler.reset()


def assert_same(found, expected):
    if isinstance(expected, tuple):
        for a, b in zip(found, expected, strict=True):
            assert_same(a, b)
        return
    torch.testing.assert_close(found.cpu(), expected, rtol=2e-5, atol=1e-5) if (
        expected.dtype is torch.float32
    ) else torch.testing.assert_close(found.cpu(), expected)


@pytest.mark.native
@pytest.mark.filterwarnings("ignore:Torchinductor does not support:UserWarning")
@pytest.mark.parametrize("name", ALL)
def test_compiled_like_eager(name):
    function, args, count = ALL[name]
    on_card = [a.to(DEV) for a in args]
    compiled = torch.compile(function)
    assert_same(compiled(*on_card), function(*args))
    found = []
    launched = packets.launched(lambda: found.append(compiled(*on_card)))
    assert_same(found[0], function(*args))
    if count is not None:
        assert launched == count
        whole = LISTED_WHOLE.get(name)
        assert torch.openreg.compile_fallbacks() == ({whole: 2} if whole else {})


# Loops that run as operators: function, the operator and the reason that are listed.
LISTED = {
    "bits": (lambda x: x.view(torch.int32) + 1, "aten.view.dtype", "to_dtype_bitcast"),
    "mantissa": (lambda x: torch.frexp(x * 2)[0], "aten.frexp.Tensor", "frexp"),
    "clamped_index": (
        lambda x: F.pad(x[None], (-1, 3), mode="replicate") * 2,
        "aten.replication_pad1d.default",
        "Min(",
    ),
}


@pytest.mark.native
@pytest.mark.parametrize("name", LISTED)
def test_loops_without_a_program_are_listed(name):
    function, operator, reason = LISTED[name]
    x = randn(9, 9)
    compiled = torch.compile(function)
    assert_same(compiled(x.to(DEV)), function(x))
    loops = {k: n for k, n in torch.openreg.compile_fallbacks().items() if ": " in k}
    ((key, runs),) = loops.items()
    names, _, why = key.partition(": ")
    assert operator in names.split(", ") and reason in why and runs == 1
    torch.openreg.reset_compile_fallbacks()
    assert torch.openreg.compile_fallbacks() == {}


@pytest.mark.native
def test_mutation_of_an_input():
    x, y = randn(9, 9), randn(9, 9).to(DEV)
    compiled = torch.compile(lambda x, y: x.add_(1).mul_(y) + y)
    given = x.to(DEV)
    result = compiled(given, y)
    assert_same(given, (x + 1) * y.cpu())
    assert_same(result, (x + 1) * y.cpu() + y.cpu())


@pytest.mark.native
def test_number_on_the_cpu():
    x = randn(9)
    compiled = torch.compile(lambda x, s: x * s)
    for value in (2.5, -1.0):
        s = torch.tensor(value)
        assert_same(compiled(x.to(DEV), s), x * s)


@pytest.mark.native
def test_sizes_that_change():
    compiled = torch.compile(lambda x, y: (x * 2 + y).relu().sum(1), dynamic=True)
    for rows, columns in ((4, 5), (6, 7), (1, 300), (33, 2)):
        x, y = randn(rows, columns), randn(columns)
        assert_same(compiled(x.to(DEV), y.to(DEV)), (x * 2 + y).relu().sum(1))


@pytest.mark.native
def test_second_card():
    x = randn(5, 6)
    compiled = torch.compile(lambda x: (x + 1).relu().sum(0))
    result = compiled(x.to("openreg:1"))
    assert result.device == torch.device("openreg:1")
    assert torch.openreg.current_device() == 0
    assert_same(result, (x + 1).relu().sum(0))


@pytest.mark.native
def test_random_numbers_are_those_of_eager():
    def function(x):
        return F.dropout(x, 0.5) + torch.rand_like(x) + torch.randn(64, device=x.device)

    x = randn(64).to(DEV)
    torch.manual_seed(7)
    expected = function(x)
    torch.manual_seed(7)
    assert_same(torch.compile(function)(x), expected.cpu())


@pytest.mark.native
def test_random_numbers_of_the_cpu_beside_the_card():
    def function(x):
        cpu = torch.rand(3), torch.randn(2, 2), torch.bernoulli(torch.full((8,), 0.5))
        return x + 1, *cpu, F.dropout(x, 0.5), F.dropout(torch.ones(16), 0.5)

    x = randn(64).to(DEV)
    torch.manual_seed(7)
    expected = function(x)
    torch.manual_seed(7)
    *result, dropped = torch.compile(function)(x)
    for one, right in zip(result, expected[:-1], strict=True):
        assert one.device == right.device
        assert_same(one, right.cpu())
    assert dropped.device.type == "cpu" and set(dropped.tolist()) <= {0.0, 2.0}


@pytest.mark.native
def test_without_a_compiler_and_without_triton(run_python):
    code = (
        "import sys, torch\n"
        "x = torch.arange(6.0, device='openreg', requires_grad=True)\n"
        "torch.compile(lambda x: (x * 2 + 1).relu().sum())(x).backward()\n"
        "print(x.grad.tolist(), 'triton' in sys.modules)\n"
    )
    assert run_python(code, PATH="/nonexistent") == f"{[2.0] * 6} False\n"


@pytest.mark.native
def test_import_loads_no_compiler(run_python):
    code = (
        "import sys, torch\n"
        "torch.ones(2, device='openreg').sum().item()\n"
        "print([n for n in ('torch._dynamo', 'torch._inductor') if n in sys.modules])\n"
    )
    assert run_python(code) == "[]\n"


@pytest.mark.native
@pytest.mark.long
def test_same_code_for_the_cpu():
    x = randn(8, 8)
    function = REDUCTIONS["softmax"][0]
    assert_same(torch.compile(function)(x.to(DEV)), function(x))
    torch.compiler.reset()
    torch.testing.assert_close(torch.compile(function)(x), function(x))


@pytest.mark.native
def test_error_names_the_operator_and_an_alternative():
    x = ints(0, 99, 8, 9).to(DEV)
    text = r"cannot compile prims\.xor_sum.*xor_sum.*backend='aot_eager'"
    with pytest.raises(Exception, match=text):
        torch.compile(lambda x: torch.ops.prims.xor_sum(x, [0]))(x)


@pytest.mark.native
@pytest.mark.long
def test_first_compilation_of_a_process_keeps_whole_kernels(run_python):
    code = (
        "import torch, torch.nn.functional as F\n"
        "x = torch.ones(1, 4, 8, device='openreg')\n"
        "torch.compile(lambda x: F.max_pool2d(x * 2, 2).softmax(1))(x)\n"
        "counts = torch.openreg.op_counts()\n"
        "print(counts['aten::max_pool2d_with_indices'], counts['aten::_softmax'])\n"
    )
    assert run_python(code) == "1 1\n"


@pytest.mark.native
@pytest.mark.long
def test_second_process_takes_the_cached_code(run_python, tmp_path):
    code = (
        "import torch\n"
        "from torch._dynamo.utils import counters\n"
        "x = torch.arange(6.0, device='openreg')\n"
        "result = torch.compile(lambda x: (x * 2 + 1).relu().sum())(x).item()\n"
        "print(result, counters['inductor']['fxgraph_cache_hit'])\n"
    )
    for hits in (0, 1):
        output = run_python(code, TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
        assert output == f"36.0 {hits}\n"


@pytest.mark.native
def test_two_cards_in_one_graph():
    x, y = randn(5, 6), randn(7)
    compiled = torch.compile(lambda x, y: ((x * 2 + 1).relu(), (y + 1).exp().sum()))
    a, b = compiled(x.to("openreg:0"), y.to("openreg:1"))
    assert (a.device.index, b.device.index) == (0, 1)
    assert_same((a, b), ((x * 2 + 1).relu(), (y + 1).exp().sum()))


@pytest.mark.native
@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
def test_modes(mode):
    x = randn(8, 8)
    compiled = torch.compile(chain, mode=mode, fullgraph=True)
    for _ in range(3):
        assert_same(compiled(x.to(DEV), x.to(DEV)), chain(x, x))


@pytest.mark.native
def test_autocast():
    def function(x, y):
        with torch.autocast("openreg", dtype=torch.bfloat16):
            return (x @ y).relu() * 2

    x, y = randn(8, 8).to(DEV), randn(8, 8).to(DEV)
    found = torch.compile(function)(x, y)
    assert found.dtype is torch.bfloat16
    torch.testing.assert_close(found, function(x, y))


@pytest.mark.native
def test_new_sizes_need_one_more_compilation_only():
    from torch._dynamo.utils import counters

    counters.clear()
    compiled = torch.compile(lambda x: (x * 2 + 1).relu().sum(1))
    for rows, columns in ((4, 5), (6, 7), (2, 9), (33, 3)):
        x = randn(rows, columns)
        assert_same(compiled(x.to(DEV)), (x * 2 + 1).relu().sum(1))
    assert counters["stats"]["unique_graphs"] == 2


@pytest.mark.native
def test_results_that_are_views():
    def function(x):
        y = x * 2
        return y, y.t(), y[1:], x.t()

    x = randn(3, 4)
    found = torch.compile(function)(x.to(DEV))
    assert_same(found, function(x))
    assert [t.stride() for t in found] == [t.stride() for t in function(x)]


@pytest.mark.native
def test_calls_of_the_module_break_the_graph():
    def function(x):
        y = x * 2
        torch.openreg.synchronize()
        return y + torch.openreg.current_device()

    x = randn(5)
    assert_same(torch.compile(function)(x.to(DEV)), x * 2)
