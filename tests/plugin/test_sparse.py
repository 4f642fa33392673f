# SPDX-License-Identifier: BSD-3-Clause
"""Sparse tensors: their parts are on the card. Most operators run on the CPU and count as
fallbacks."""

import contextlib
import copy
import io

import pytest
import torch

from ops import ALL, FLOATS, no_fallback, values

DEV = "openreg"
COMPRESSED = [torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc]
LAYOUTS = [torch.sparse_coo, *COMPRESSED]

# Core warns once per process, on the first device that uses such a layout.
pytestmark = pytest.mark.filterwarnings("ignore:Sparse (CSR|CSC|BSR|BSC|invariant)")


@pytest.fixture(autouse=True)
def counted():
    torch.openreg.reset_fallbacks()
    before = torch.openreg.set_fallback("count")
    yield
    torch.openreg.set_fallback(before)


def dense(*size, dtype=torch.float32, seed=0):
    """Random values, of which about half are zero."""
    return values(*size, dtype=dtype, seed=seed) * (values(*size, seed=seed + 1) > 0).to(dtype)


def sparse(layout=torch.sparse_coo, dtype=torch.float32, size=(4, 6), seed=0):
    blocks = (2, 3) if layout in (torch.sparse_bsr, torch.sparse_bsc) else None
    return dense(*size, dtype=dtype, seed=seed).to_sparse(layout=layout, blocksize=blocks)


def uncoalesced(dtype=torch.float32, dense_size=()):
    """A tensor with one index three times, and unsorted indices."""
    at = torch.tensor([[2, 0, 2, 1, 2], [1, 3, 1, 0, 1]])
    numbers = values(5, *dense_size, dtype=dtype)
    return torch.sparse_coo_tensor(at, numbers, (3, 4, *dense_size))


def parts(t):
    if t.layout == torch.sparse_coo:
        return [t._indices(), t._values()]
    if t.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [t.crow_indices(), t.col_indices(), t.values()]
    if t.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [t.ccol_indices(), t.row_indices(), t.values()]
    return [t]


def same(got, want, device="openreg:0", **tolerance):
    """Compares the tensors part by part; every part must be on this device."""
    assert got.device == torch.device(device) and got.layout == want.layout
    assert got.dtype == want.dtype and got.shape == want.shape
    if want.layout == torch.sparse_coo:
        assert got.is_coalesced() == want.is_coalesced()
        assert got.sparse_dim() == want.sparse_dim() and got.dense_dim() == want.dense_dim()
    for one, other in zip(parts(got), parts(want), strict=True):
        assert one.device == torch.device(device)
        torch.testing.assert_close(one.cpu(), other, equal_nan=True, **tolerance)


def used():
    return set(torch.openreg.fallbacks())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ALL)
def test_moves_part_by_part(layout, dtype):
    x = sparse(layout, dtype)
    with no_fallback():
        y = x.to("openreg:1")
        same(y, x, "openreg:1")
        same(y.to("openreg:0"), x)
        same(y.clone(), x, "openreg:1")
        same(torch.empty_like(y).zero_().to(DEV), torch.zeros_like(x))
        back = y.cpu()
    same(back, x, "cpu")


@pytest.mark.parametrize("size", [(), (2,)])
def test_uncoalesced_stays_so(size):
    x = uncoalesced(dense_size=size)
    y = x.to(DEV)
    same(y, x)
    assert not y.is_coalesced()
    same(y.coalesce(), x.coalesce())
    assert used() == {"aten::_coalesce"}
    with pytest.raises(RuntimeError, match="Cannot get values on an uncoalesced tensor"):
        y.values()


def test_made_on_the_card():
    at, numbers = torch.tensor([[0, 1], [2, 0]]), torch.tensor([3.0, 4.0])
    with no_fallback():
        y = torch.sparse_coo_tensor(at, numbers, (2, 3), device="openreg:1")
        same(y, torch.sparse_coo_tensor(at, numbers, (2, 3)), "openreg:1")
        same(torch.sparse_coo_tensor((2, 3), device="openreg:1"), torch.sparse_coo_tensor((2, 3)), "openreg:1")
        assert torch.sparse_coo_tensor(at.to(DEV), numbers.to(DEV)).shape == (2, 3)
        empty = torch.empty(2, 3, layout=torch.sparse_coo, device="openreg:1")
        assert empty.device.index == 1 and empty._values().device.index == 1
        rows = torch.sparse_csr_tensor([0, 1, 2], [2, 0], numbers, (2, 3), device="openreg:1")
    same(rows, torch.sparse_csr_tensor([0, 1, 2], [2, 0], numbers, (2, 3)), "openreg:1")


def test_invariants_are_checked():
    at = torch.tensor([[0, 5], [0, 0]], device=DEV)
    with pytest.raises(RuntimeError, match="size is inconsistent with indices"):
        torch.sparse_coo_tensor(at, torch.ones(2, device=DEV), (2, 2), check_invariants=True)
    at = torch.tensor([[1, 0], [0, 0]], device=DEV)
    with pytest.raises(RuntimeError, match="cannot set is_coalesced to true"):
        torch.sparse_coo_tensor(
            at, torch.ones(2, device=DEV), (2, 2), is_coalesced=True, check_invariants=True
        )
    with pytest.raises(RuntimeError, match="crow_indices"):
        torch.sparse_csr_tensor(
            [0, 9, 2], [0, 1], [1.0, 2.0], (2, 2), device=DEV, check_invariants=True
        )


@pytest.mark.parametrize("dtype", ALL)
def test_to_sparse_and_back(dtype):
    x = dense(4, 5, 3, dtype=dtype)
    y = x.to("openreg:1")
    for dims in [1, 2, 3]:
        same(y.to_sparse(dims), x.to_sparse(dims), "openreg:1")
        back = y.to_sparse(dims).to_dense()
        assert back.device.index == 1 and torch.equal(back.cpu(), x)
    # A sum of bool falls back to the CPU.
    assert used() == (set() if dtype != torch.bool else {"aten::add_.Tensor"})


@pytest.mark.parametrize("layout", COMPRESSED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool])
def test_to_compressed_and_back(layout, dtype):
    x = dense(4, 6, dtype=dtype)
    blocks = (2, 3) if layout in (torch.sparse_bsr, torch.sparse_bsc) else None
    y = x.to("openreg:1").to_sparse(layout=layout, blocksize=blocks)
    same(y, x.to_sparse(layout=layout, blocksize=blocks), "openreg:1")
    assert torch.equal(y.to_dense().cpu(), x)
    assert y.to_dense().device.index == 1
    if not blocks:
        same(y.to_sparse(), y.cpu().to_sparse(), "openreg:1")
    assert used()


def test_complex_to_sparse_and_back():
    x = torch.complex(dense(4, 5), dense(4, 5, seed=7))
    y = x.to(DEV)
    same(y.to_sparse(), x.to_sparse())
    assert torch.equal(y.to_sparse().to_dense().cpu(), x)
    same(torch.view_as_real(y.to_sparse()), torch.view_as_real(x.to_sparse()))


@pytest.mark.parametrize("dtype", FLOATS + [torch.int64, torch.uint8])
@pytest.mark.parametrize("size", [(), (2,)])
@pytest.mark.parametrize("alpha", [1, 3])
def test_sum_into_a_dense_tensor_is_native(dtype, size, alpha):
    x, s = values(3, 4, *size, dtype=dtype), uncoalesced(dtype, size)
    # A sum in a half type may be rounded after each addend, or at the end.
    tolerance = {"rtol": 2e-2, "atol": 2e-2} if dtype in FLOATS[2:] else {}
    for strided in [x, x.transpose(0, 1).contiguous().transpose(0, 1)]:
        want = strided.clone().add_(s, alpha=alpha)
        with no_fallback():
            got = strided.to("openreg:1")
            got.add_(s.to("openreg:1"), alpha=alpha)
        same(got, want, "openreg:1", **tolerance)


def test_sum_of_two_types():
    x, s = values(3, 4), uncoalesced(torch.float64)
    got = x.to(DEV).add_(s.to(DEV))
    same(got, x.clone().add_(s))
    assert used() == {"aten::add_.Tensor"}
    torch.openreg.reset_fallbacks()
    x, s = values(3, 4, dtype=torch.int64), uncoalesced(torch.int64)
    same(x.to(DEV).add_(s.to(DEV), alpha=1.5), x.clone().add_(s, alpha=1.5))
    assert used() == {"aten::add_.Tensor"}
    with pytest.raises(RuntimeError, match="same size"):
        values(2, 2).to(DEV).add_(s.to(DEV))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_mask_of_a_dense_tensor_is_native(dtype):
    for size in [(), (2,)]:
        x = values(3, 4, *size, dtype=dtype)
        for mask in [uncoalesced(dense_size=size), uncoalesced(dense_size=size).coalesce()]:
            with no_fallback():
                got = x.to("openreg:1").sparse_mask(mask.to("openreg:1"))
            same(got, x.sparse_mask(mask), "openreg:1")
    none = torch.sparse_coo_tensor((3, 4, 2))
    same(x.to(DEV).sparse_mask(none.to(DEV)), x.sparse_mask(none))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["abs", "neg", "sin", "sqrt", "sign", "floor", "isnan", "erfinv"])
def test_unary_operators(layout, name):
    x = sparse(layout) * 0.25
    with no_fallback() if name != "erfinv" else contextlib.nullcontext():
        y = x.to("openreg:1")
        same(getattr(y, name)(), getattr(x, name)(), "openreg:1")
        if name == "isnan":
            return
        if layout in (torch.sparse_coo, torch.sparse_csr):  # other layouts are not in core
            out = torch.empty_like(y)
            assert getattr(torch, name)(y, out=out) is out
            same(out, getattr(x, name)(), "openreg:1")
        place = parts(y)[-1].data_ptr()
        same(getattr(y, name + "_")(), getattr(x.clone(), name + "_")(), "openreg:1")
        assert parts(y)[-1].data_ptr() == place


def other(x):
    return sparse(x.layout, x.dtype, x.shape, seed=3).to(x.device)


def column(x):
    return values(x.shape[1], 3, seed=5).to(x.device)


def result(x):
    return values(x.shape[0], 3, seed=6).to(x.device)


CALLS = {
    "add": lambda x: x + other(x),
    "sub": lambda x: x - other(x),
    "mul": lambda x: x * other(x),
    "mul by a number": lambda x: x * 2.5,
    "mul by a CPU number": lambda x: x * torch.tensor(2.5),
    "div": lambda x: x / 2,
    "mm": lambda x: torch.sparse.mm(x, column(x)),
    "mm of two": lambda x: torch.sparse.mm(x, other(x).t()),
    "matmul": lambda x: x @ column(x),
    "mv": lambda x: x @ column(x)[:, 0],
    "addmm": lambda x: torch.addmm(result(x), x, column(x), beta=0.5, alpha=2),
    "sparse.addmm": lambda x: torch.sparse.addmm(result(x), x, column(x)),
    "dense + sparse": lambda x: x.to_dense().mul(2) + x,
    "sum": lambda x: x.sum(),
    "sum of a dimension": lambda x: torch.sparse.sum(x, 0),
    "softmax": lambda x: torch.sparse.softmax(x, 1),
    "cat": lambda x: torch.cat([x, other(x)], 1),
    "stack": lambda x: torch.stack([x, other(x)]),
    "transpose": lambda x: x.t(),
    "permute": lambda x: x.permute(1, 0),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "narrow_copy": lambda x: x.narrow_copy(0, 1, 2),
    "index_select": lambda x: x.index_select(0, torch.tensor([2, 0], device=x.device)),
    "select": lambda x: x[1],
    "sparse_mask": lambda x: torch.ones(x.shape, device=x.device).sparse_mask(x),
    "sparse_mask of sparse": lambda x: other(x).sparse_mask(x),
    "to": lambda x: x.to(torch.float64),
    "pow": lambda x: x**2,
    "norm": lambda x: x.norm(),
    "to_sparse_csr": lambda x: x.to_sparse_csr(),
    "zeros_like": torch.zeros_like,
    "broadcast": lambda x: torch._sparse_broadcast_to(x, (2, *x.shape)),
}


ROWS = ["mul", "mul by a number", "mm", "matmul", "mv", "addmm", "sum", "select", "to", "zeros_like"]


@pytest.mark.parametrize(
    ("layout", "name"),
    [(torch.sparse_coo, name) for name in CALLS] + [(torch.sparse_csr, name) for name in ROWS],
)
def test_calls(layout, name):
    x = sparse(layout)
    same(CALLS[name](x.to("openreg:1")), CALLS[name](x), "openreg:1")


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_mm_reduce(reduce):
    x = sparse(torch.sparse_csr)

    def run(x):
        x, y = x.detach().requires_grad_(), column(x).requires_grad_()
        out = torch.sparse.mm(x, y, reduce)
        out.backward(result(x))
        return out.detach(), x.grad, y.grad

    for got, want in zip(run(x.to("openreg:1")), run(x), strict=True):
        same(got, want, "openreg:1")
    assert used() >= {"aten::_sparse_mm_reduce_impl", "aten::_sparse_mm_reduce_impl_backward"}


def test_sampled_addmm():
    x = sparse(torch.sparse_csr)

    def run(x):
        inputs = [x.detach(), values(4, 5, seed=5).to(x.device), values(5, 6, seed=6).to(x.device)]
        inputs = [i.requires_grad_() for i in inputs]
        out = torch.sparse.sampled_addmm(*inputs, beta=0.5, alpha=2)
        out.to_dense().sum().backward()
        return out.detach(), *(i.grad for i in inputs)

    for got, want in zip(run(x.to("openreg:1")), run(x), strict=True):
        same(got, want, "openreg:1")
    out = torch.empty_like(x.to(DEV))
    a, b = values(4, 5).to(DEV), values(5, 6).to(DEV)
    assert torch.sparse.sampled_addmm(x.to(DEV), a, b, out=out) is out
    same(out, torch.sparse.sampled_addmm(x, a.cpu(), b.cpu()))


def test_gradients():
    def run(device):
        w = dense(4, 6).to(device).requires_grad_()
        y = column(w).requires_grad_()
        s = w.to_sparse()
        (torch.sparse.mm(s * 2, y).sum() + (s + s).coalesce().to_dense().pow(2).sum()).backward()
        leaf = uncoalesced().to(device).requires_grad_()
        leaf.to_dense().sin().sum().backward()
        return w.grad, y.grad, leaf.grad

    for got, want in zip(run("openreg:1"), run("cpu"), strict=True):
        same(got, want, "openreg:1")


def test_in_place():
    x = sparse()
    y = x.to("openreg:1")
    numbers = y._values()
    assert y.div_(2) is y
    x.div_(2)
    assert torch.equal(numbers.cpu(), x._values())  # the memory is the same
    assert used() == {"aten::div_.Tensor"}
    assert y.mul_(2) is y
    same(y, x.mul_(2), "openreg:1")
    more = sparse(seed=9)
    y.add_(more.to("openreg:1"))
    same(y, x.add_(more), "openreg:1")
    same(y.zero_(), x.zero_(), "openreg:1")
    rows, want = sparse(torch.sparse_csr).to("openreg:1"), sparse(torch.sparse_csr)
    numbers = rows.values()
    same(rows.mul_(2), want.mul_(2), "openreg:1")
    assert torch.equal(numbers.cpu(), want.values())
    same(rows.copy_(want.to("openreg:1") * 2), want * 2, "openreg:1")


def test_out():
    x, y = sparse(), sparse(seed=3)
    card_x, card_y = x.to("openreg:1"), y.to("openreg:1")
    for function, args in [(torch.add, (x, y)), (torch.mul, (x, y)), (torch.abs, (x,))]:
        want, got = torch.empty(0, layout=torch.sparse_coo), torch.empty(0, layout=torch.sparse_coo, device="openreg:1")
        function(*args, out=want)
        assert function(*(card_x, card_y)[: len(args)], out=got) is got
        same(got, want, "openreg:1")
    out = torch.empty(1, 0, device="openreg:1")
    torch.mm(card_x, column(card_x), out=out)
    same(out, torch.mm(x, column(x)), "openreg:1")
    # out= may be an operand.
    torch.mul(card_x, card_y, out=card_x)
    torch.mul(x, y, out=x)
    same(card_x, x, "openreg:1")


def test_views_share_memory():
    y = sparse().to(DEV)
    for view in [y.permute(1, 0), y.unsqueeze(0), y.detach()]:
        assert view._values().data_ptr() == y._values().data_ptr()
    assert y.values().data_ptr() == y._values().data_ptr()


def test_two_devices_are_an_error():
    y = sparse().to(DEV)
    for stranger in [column(sparse()), column(sparse().to("openreg:1"))]:
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            torch.sparse.mm(y, stranger)
    for stranger in [sparse(), sparse().to("openreg:1")]:
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            y.add_(stranger)
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            y.to_dense().add_(stranger)


def test_a_result_on_the_cpu_is_an_error():
    y = sparse().to(DEV)
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.mm(y, column(y), out=torch.empty(()))


def test_refused_as_on_the_cpu():
    y = sparse().to(DEV)
    with pytest.raises(NotImplementedError, match="Could not run 'aten::cumsum'.*Sparseopenreg"):
        y.cumsum(0)
    with pytest.raises(RuntimeError, match="copy_.. between dense and sparse"):
        y.copy_(torch.ones(4, 6, device=DEV))
    with pytest.raises(RuntimeError, match="sizes"):
        y + sparse(size=(6, 4)).to(DEV)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_error_mode(layout):
    y = sparse(layout).to(DEV)
    torch.openreg.set_fallback("error")
    for call in [y.sum, lambda: y * y, lambda: y.mul_(2), lambda: torch.mul(y, y, out=y)]:
        with pytest.raises(NotImplementedError, match="aten::.* has no kernel for openreg"):
            call()
    assert used() == set()
    torch.openreg.set_fallback("count")
    y.sum()
    assert torch.openreg.fallbacks() == {"aten::sum": 1}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_printing_is_no_fallback(layout):
    x = sparse(layout)
    with no_fallback():
        text = repr(x.to("openreg:1"))
    assert "device='openreg:1'" in text and f"layout={layout}" in text
    assert [w for w in text.split() if not w.startswith("device=")] == repr(x).split()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_saved_loaded_and_copied(layout):
    x = sparse(layout)
    y = x.to("openreg:1")
    same(copy.deepcopy(y), x, "openreg:1")
    file = io.BytesIO()
    torch.save({"y": y}, file)
    assert used() == set()
    for where in ["openreg:1", "openreg:0", "cpu", None]:
        file.seek(0)
        same(torch.load(file, map_location=where)["y"], x, where or "openreg:1")
    # torch.load() checks the indices.
    assert used() <= {"aten::_validate_compressed_sparse_indices"}


def embedding_trained(device, optimizer, **options):
    torch.manual_seed(0)
    net = torch.nn.Embedding(20, 4, sparse=True)
    with torch.no_grad():
        net.weight.copy_(values(20, 4))
    net = net.to(device)
    step = optimizer(net.parameters(), **options)
    for i in range(4):
        step.zero_grad()
        at = torch.tensor([[1, 5, 5], [i, 19, 5]], device=device)
        net(at).pow(2).sum().backward()
        assert net.weight.grad.layout == torch.sparse_coo
        step.step()
    return net.weight.detach()


@pytest.mark.parametrize(
    "optimizer, options, allowed",
    [
        (torch.optim.SGD, {"lr": 0.1}, set()),
        (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}, {"aten::mul.out", "aten::add_.Tensor"}),
        (torch.optim.SparseAdam, {"lr": 0.1}, {"aten::_coalesce"}),
        (torch.optim.Adagrad, {"lr": 0.1}, None),
    ],
)
def test_training(optimizer, options, allowed):
    got = embedding_trained("openreg:1", optimizer, **options)
    if allowed is not None:
        assert used() <= allowed
    same(got, embedding_trained("cpu", optimizer, **options), "openreg:1")


def test_gradients_accumulate():
    def run(device):
        net = torch.nn.EmbeddingBag(9, 3, mode="sum", sparse=True)
        with torch.no_grad():
            net.weight.copy_(values(9, 3))
        net = net.to(device)
        for i in range(3):
            net(torch.tensor([[1, i], [i, 8]], device=device)).pow(2).sum().backward()
        first = net.weight.grad.coalesce()
        net.zero_grad(set_to_none=False)
        return first, net.weight.grad

    for got, want in zip(run("openreg:1"), run("cpu"), strict=True):
        same(got, want, "openreg:1")


def test_random_numbers_come_from_the_card():
    rows = sparse(torch.sparse_csr).to(DEV)
    torch.openreg.manual_seed(3)
    before = torch.get_rng_state()
    first = rows.clone().normal_().values().cpu()
    assert torch.equal(torch.get_rng_state(), before)
    torch.openreg.manual_seed(3)
    assert torch.equal(rows.clone().normal_().values().cpu(), first)
