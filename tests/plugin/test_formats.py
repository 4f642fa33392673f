# SPDX-License-Identifier: BSD-3-Clause
"""Packed tensors have the values of plain ones, whatever a program does with them."""

import copy
import io

import packets
import pytest
import torch
import torch.nn.functional as F
from torch_openreg import _C

DEV = "openreg"
TYPES = [torch.float32, torch.float16, torch.bfloat16]
SHAPES = [(1, 1), (3, 5), (64, 32), (65, 33), (200, 130), (1, 70), (70, 1)]


@pytest.fixture(autouse=True)
def no_counts():
    torch.openreg.reset_format_conversions()


def counts():
    return torch.openreg.format_conversions()


def is_packed(t):
    return torch.openreg.get_format(t) == "packed"


def make(shape=(6, 4), dtype=torch.float32, seed=0):
    """Returns a matrix on the CPU, and its packed copy."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator).to(dtype)
    packed = torch.openreg.format_cast(x.to(DEV), "packed")
    assert is_packed(packed)
    return x, packed


def check(packed, x):
    """Compares all bits. The comparison itself converts the tensor."""
    assert packed.shape == x.shape and packed.dtype == x.dtype
    assert torch.equal(packed.cpu(), x)


def saved(thing, **how):
    buffer = io.BytesIO()
    torch.save(thing, buffer, **how)
    buffer.seek(0)
    return buffer


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_there_and_back(shape, dtype):
    x, packed = make(shape, dtype)
    assert packed.stride() == x.stride() and packed.device.type == DEV
    plain = torch.openreg.format_cast(packed, "plain")
    assert not is_packed(plain) and counts() == {}
    check(plain, x)
    check(packed, x)
    assert is_packed(packed) and counts() == {"aten::_copy_from": 1}


def test_bits_of_nans():
    bits = torch.randint(-(2**31), 2**31 - 1, (65, 66), dtype=torch.int32)
    packed = torch.openreg.format_cast(bits.view(torch.float32).to(DEV), "packed")
    assert torch.equal(packed.cpu().view(torch.int32), bits)


def test_other_strides():
    x = torch.randn(7, 2, 9).to(DEV)[:, 1]
    for t in (x, x.t(), x.flip(0)):
        check(torch.openreg.format_cast(t, "packed"), t.cpu())


def test_same_format():
    x, packed = make()
    assert torch.openreg.format_cast(packed, "packed") is packed
    plain = x.to(DEV)
    assert torch.openreg.format_cast(plain, "plain") is plain


@pytest.mark.parametrize(
    "tensor, format, words",
    [
        (lambda: torch.ones(2, 2, device=DEV), "blocked", "no format 'blocked'"),
        (lambda: torch.ones(2, device=DEV), "packed", "1-dimensional"),
        (lambda: torch.ones(2, 2, 2, device=DEV), "packed", "3-dimensional"),
        (lambda: torch.ones(0, 2, device=DEV), "packed", "0 elements"),
        (lambda: torch.ones(2, 2, device=DEV, dtype=torch.float64), "packed", "Double"),
        (lambda: torch.ones(2, 2, device=DEV, dtype=torch.int8), "packed", "Char"),
        (lambda: torch.ones(2, 2), "packed", "only tensors on openreg"),
    ],
)
def test_refused(tensor, format, words):
    with pytest.raises(ValueError, match=words):
        torch.openreg.format_cast(tensor(), format)


def tolerance(dtype):
    return {torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}[dtype]


PRODUCTS = {
    "linear": (lambda x, w, b: F.linear(x, w, b), (5,)),
    "linear without bias": (lambda x, w, b: F.linear(x, w), (5,)),
    "linear of a batch": (lambda x, w, b: F.linear(x, w, b), (2, 3)),
    "linear of a vector": (lambda x, w, b: F.linear(x, w, b), ()),
    "vector without bias": (lambda x, w, b: F.linear(x, w), ()),
    "mm": (lambda x, w, b: torch.mm(x, w.t()), (5,)),
    "matmul": (lambda x, w, b: x @ w.t(), (5,)),
    "matmul of a batch": (lambda x, w, b: x @ w.T, (2, 3)),
    "addmm": (lambda x, w, b: torch.addmm(b, x, w.t(), beta=2, alpha=3), (5,)),
    "mm, out": (lambda x, w, b: torch.mm(x, w.t(), out=x.new_empty(0)), (5,)),
    "addmm_": (lambda x, w, b: x.new_ones(5, 70).addmm_(x, w.t()), (5,)),
    "mv": (lambda x, w, b: torch.mv(w, x), ()),
    "addmv": (lambda x, w, b: torch.addmv(b, w, x, beta=2, alpha=3), ()),
    "transposed": (lambda x, w, b: w @ x.t(), (5,)),
}
CONVERTED = {"transposed"}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad, torch.inference_mode])
def test_products(name, dtype, mode):
    product, batch = PRODUCTS[name]
    w, packed = make((70, 40), dtype)
    x = torch.randn(*batch, 40).to(dtype)
    b = torch.randn(70).to(dtype)
    want = product(x.double(), w.double(), b.double())
    with mode():
        y = product(x.to(DEV), packed, b.to(DEV))
    assert y.dtype == dtype and not is_packed(y) and is_packed(packed)
    error = (y.cpu().double() - want).abs().max()
    assert error <= tolerance(dtype) * want.abs().max()
    assert bool(counts()) == (name in CONVERTED)


@pytest.mark.parametrize("rows", [1, 2, 17, 100])
def test_many_rows(rows):
    w, packed = make((300, 513))
    x = torch.randn(rows, 513)
    y = F.linear(x.to(DEV)[:, ::1], packed)
    torch.testing.assert_close(y.cpu(), F.linear(x, w), rtol=1e-4, atol=1e-3)
    # An operand with gaps between its elements.
    z = F.linear(x.to(DEV).t().contiguous().t(), packed)
    torch.testing.assert_close(z.cpu(), F.linear(x, w), rtol=1e-4, atol=1e-3)
    assert not counts()


def test_types_that_differ():
    _, packed = make((6, 4), torch.bfloat16)
    with pytest.raises(RuntimeError, match="dtype"):
        F.linear(torch.ones(2, 4, device=DEV), packed)
    check(packed + 0, packed.cpu())


VIEWS = {
    "slice": lambda t: t[1:4],
    "column": lambda t: t[:, 2],
    "steps": lambda t: t[::2, 1::2],
    "transpose": lambda t: t.t(),
    "view": lambda t: t.view(-1),
    "other view": lambda t: t.view(3, 8),
    "as_strided": lambda t: t.as_strided((3, 2), (5, 3), 1),
    "expand": lambda t: t[0].expand(3, 4),
    "detach": lambda t: t.detach(),
    "unsqueeze": lambda t: t.unsqueeze(0),
    "diagonal": lambda t: t.diagonal(),
    "unfold": lambda t: t.unfold(0, 2, 1),
    "split": lambda t: t.split(2)[1],
    "unbind": lambda t: t.unbind()[3],
    "view of bits": lambda t: t.view(torch.int32),
    "narrow": lambda t: t.narrow(1, 1, 2),
    "select": lambda t: t.select(0, -1),
    "movedim": lambda t: t.movedim(0, 1),
    "chunk": lambda t: t.chunk(3, 1)[0],
    "data": lambda t: t.data,
    "alias": torch.ops.aten.alias,
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad, torch.inference_mode])
def test_views(name, mode):
    x, packed = make()
    with mode():
        view, want = VIEWS[name](packed), VIEWS[name](x)
        assert is_packed(view) and not counts()
        assert view.stride() == want.stride()
        assert view.storage_offset() == want.storage_offset()
        assert torch.equal((view + 0).cpu(), want)
        assert is_packed(view) and sum(counts().values()) == 1


def test_set():
    x, packed = make()
    other = torch.empty(0, device=DEV)
    other.set_(packed.untyped_storage(), 4, (2, 4), (4, 1))
    assert is_packed(other)
    check(other, x[1:3])
    other.set_(packed)
    check(other, x)
    other.set_(torch.ones(3, device=DEV))
    assert not is_packed(other) and other.tolist() == [1] * 3
    plain = torch.ones(2, 2, device=DEV)
    plain.data = packed
    assert is_packed(plain)
    check(plain, x)
    plain.data = torch.ones(2, device=DEV)
    assert not is_packed(plain) and plain.tolist() == [1, 1]


READERS = {
    "add": lambda t: t + 1,
    "of two": lambda t: torch.cat([t, t * 2, t]),
    "sum": lambda t: t.sum(),
    "compare": lambda t: t == t,
    "where": lambda t: torch.where(t > 0, t, -t),
    "index": lambda t: t[torch.tensor([2, 0], device=t.device)],
    "sort": lambda t: t.sort().values,
    "softmax": lambda t: t.softmax(-1),
    "cast": lambda t: t.double(),
    "like": lambda t: torch.zeros_like(t) + torch.full_like(t, 2),
    "new": lambda t: t.new_ones(3),
    "contiguous": lambda t: t.t().contiguous(),
    "repeat": lambda t: t.repeat(2, 2),
    "neg view": lambda t: torch._neg_view(t).clone(),
    "complex": lambda t: torch.complex(t, t).real.clone(),
    "einsum": lambda t: torch.einsum("ij,kj->ik", t, t),
    "foreach": lambda t: torch._foreach_add([t, t], 1)[1],
    "on the CPU": lambda t: torch.linalg.svdvals(t),
    "norm": lambda t: t.norm(),
    "copy": lambda t: torch.empty(2, 6, 4, device=t.device).copy_(t),
    "into columns": lambda t: torch.empty(4, 6, device=t.device).t().copy_(t),
    "item": lambda t: torch.tensor(t[2, 1].item()),
    "tolist": lambda t: torch.tensor(t.tolist()),
    "lazy clone": lambda t: torch._lazy_clone(t) + 1,
    "any": lambda t: (t > 9).any(),
    "vmap": lambda t: torch.vmap(lambda row: row.sum())(t),
}


@pytest.mark.parametrize("name", READERS)
def test_readers(name):
    x, packed = make()
    torch.testing.assert_close(READERS[name](packed).cpu(), READERS[name](x))
    assert is_packed(packed)


def test_arguments_of_one_storage():
    _, packed = make()
    torch.cat([packed, packed[1:], packed.t()[:4].t()])
    assert counts() == {"aten::cat": 1}


WRITERS = {
    "add_": lambda t: t.add_(1),
    "zero_": lambda t: t.zero_(),
    "fill_": lambda t: t.fill_(3),
    "mul_ of a view": lambda t: t[1:3].mul_(2),
    "copy_ to a view": lambda t: t[:, 1].copy_(t[:, 2].clone()),
    "item assignment": lambda t: t.__setitem__((0, 0), 7),
    "index_put_": lambda t: t.index_put_((t.t()[0] > 0,), t.new_ones(())),
    "out": lambda t: torch.add(t.detach().clone(), 1, out=t),
    "foreach": lambda t: torch._foreach_mul_([t], 2),
    "on the CPU": lambda t: t.erfinv_(),
    "itself": lambda t: t.add_(t),
    "mm, out": lambda t: torch.mm(t.clone(), torch.eye(4).to(t.device), out=t),
    "bits": lambda t: t.view(torch.int32).bitwise_xor_(1 << 31),
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_writers(name, mode):
    x, packed = make()
    with mode():
        other, view = packed.detach(), packed[2]
        WRITERS[name](x)
        WRITERS[name](packed)
        assert not is_packed(packed) and not is_packed(view) and not is_packed(other)
        for y in (packed, other):
            torch.testing.assert_close(y.cpu(), x, equal_nan=True)
        torch.testing.assert_close(view.cpu(), x[2], equal_nan=True)


def test_copying_keeps_the_format():
    x, packed = make()
    address = packed.data_ptr()
    y = torch.randn(6, 4)
    packed.copy_(y)
    assert is_packed(packed) and packed.data_ptr() == address
    check(packed, y)
    packed.copy_(y[0].double().to(DEV))
    assert is_packed(packed)
    check(packed, y[:1].expand(6, 4))
    assert "aten::copy_" not in counts()


def test_clone():
    x, packed = make()
    y = packed.clone()
    assert is_packed(y) and not counts() and y.data_ptr() != packed.data_ptr()
    packed.zero_()
    check(y, x)
    assert not is_packed(y.t().clone())
    assert torch.equal(y.t().clone().cpu(), x.t())


def test_deepcopy():
    x, packed = make()
    y = copy.deepcopy(packed)
    assert y.data_ptr() != packed.data_ptr()
    check(y, x)
    layer = torch.nn.Linear(4, 6, device=DEV)
    layer.weight = torch.nn.Parameter(packed)
    twin = copy.deepcopy(layer)
    assert is_packed(twin.weight) and is_packed(layer.weight)
    check(twin.weight.detach(), x)


@pytest.mark.parametrize("zip", [True, False])
@pytest.mark.parametrize("weights_only", [True, False])
def test_save_and_load(zip, weights_only):
    x, packed = make((65, 33), torch.bfloat16)
    file = saved({"w": packed, "t": packed.t()}, _use_new_zipfile_serialization=zip)
    assert is_packed(packed)
    loaded = torch.load(file, weights_only=weights_only)
    check(loaded["w"], x)
    check(loaded["t"], x.t())
    assert is_packed(loaded["w"]) == is_packed(loaded["t"]) == zip
    assert loaded["w"].data_ptr() == loaded["t"].data_ptr()
    file.seek(0)
    there = torch.load(file, weights_only=weights_only, map_location="cpu")
    assert there["w"].device.type == "cpu"
    check(there["w"], x)
    back = torch.load(saved(there), map_location=DEV)
    assert not is_packed(back["w"])
    check(back["w"], x)
    check(there["w"].to(DEV), x)


def test_save_of_a_part():
    x, packed = make()
    part = torch.load(saved(packed[2:, 1]))
    assert torch.equal(part.cpu(), x[2:, 1])


def test_state_dict():
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Linear(6, 2)).to(DEV)
    want = {k: v.cpu() for k, v in model.state_dict().items()}
    for layer in model:
        layer.weight = torch.nn.Parameter(torch.openreg.format_cast(layer.weight.data, "packed"))
    state = model.state_dict()
    assert is_packed(state["0.weight"])
    for name, value in torch.load(saved(state)).items():
        assert torch.equal(value.cpu(), want[name])
    # Loading keeps the format of a parameter.
    model.load_state_dict({k: v + 1 for k, v in want.items()})
    assert is_packed(model[0].weight)
    check(model[0].weight.detach(), want["0.weight"] + 1)
    plain = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Linear(6, 2)).to(DEV)
    plain.load_state_dict(model.state_dict())
    check(plain[1].weight.detach(), want["1.weight"] + 1)
    model.cpu()
    assert torch.equal(model[0].weight, want["0.weight"] + 1)


def fields(packed):
    found = torch._C._get_tensor_metadata(packed)
    assert any(key.startswith("openreg.format") for key in found)
    return found


@pytest.mark.parametrize(
    "old, new, words",
    [
        ("openreg.format=packed", "openreg.format=blocked", "format 'blocked'"),
        ("openreg.format_version=1", "openreg.format_version=2", "version '2'"),
        ("openreg.format_matrix=6 4 Float", "openreg.format_matrix=6 5 Float", "damaged"),
        ("openreg.format_matrix=6 4 Float", "openreg.format_matrix=-6 4 Float", "damaged"),
        ("openreg.format_matrix=6 4 Float", "openreg.format_matrix=6 4 Short", "damaged"),
        (
            "openreg.format_matrix=6 4 Float",
            "openreg.format_matrix=4611686018427387904 6 Float",
            "damaged",
        ),
    ],
)
def test_files_of_others(old, new, words):
    _, packed = make()
    found = fields(packed)
    assert found.pop(old) is True
    found[new] = True
    plain = torch.ones(6, 4, device=DEV)
    with pytest.raises(RuntimeError, match=words):
        torch._C._set_tensor_metadata(plain, found)
    assert plain.tolist() == [[1] * 4] * 6


def test_dlpack():
    x, packed = make()
    y = torch.from_dlpack(packed)
    assert not is_packed(packed) and counts() == {"dlpack": 1}
    packed.add_(1)
    assert torch.equal(y.cpu(), x + 1)
    x, packed = make()
    y = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(packed))
    assert torch.equal(y.cpu(), x)


def test_print():
    x, packed = make()
    assert repr(packed) == repr(x.to(DEV)) and is_packed(packed)


def test_storage():
    x, packed = make()
    storage = packed.untyped_storage()
    assert storage.nbytes() == x.untyped_storage().nbytes()
    assert bytes(storage.cpu()) == bytes(x.untyped_storage())
    storage.resize_(200)
    assert not is_packed(packed)
    check(packed, x)


def test_record_stream():
    _, packed = make()
    packed.record_stream(torch.openreg.Stream())
    assert is_packed(packed) and not counts()


def test_autograd():
    x, packed = make((6, 4))
    a = torch.randn(3, 4)
    w = x.clone().requires_grad_()
    p = packed.detach().requires_grad_()
    F.linear(a, w).square().sum().backward()
    F.linear(a.to(DEV), p).square().sum().backward()
    torch.testing.assert_close(p.grad.cpu(), w.grad)
    assert is_packed(p) and not is_packed(p.grad)
    b = a.to(DEV).requires_grad_()
    F.linear(b, p).sum().backward()
    torch.testing.assert_close(b.grad.cpu(), x.sum(0).expand(3, 4))


def test_gradient_of_the_cast():
    w = torch.randn(6, 4).to(DEV).requires_grad_()
    packed = torch.openreg.format_cast(w, "packed")
    assert is_packed(packed) and packed.requires_grad
    (torch.openreg.format_cast(packed, "plain") * 3).sum().backward()
    assert w.grad.cpu().eq(3).all()


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_training(optimizer):
    losses = []
    for pack in (False, True):
        torch.manual_seed(0)
        layer = torch.nn.Linear(4, 6).to(DEV)
        if pack:
            layer.weight.data = torch.openreg.format_cast(layer.weight.data, "packed")
            assert is_packed(layer.weight)
        how = optimizer(layer.parameters(), lr=0.1)
        for _ in range(3):
            loss = layer(torch.ones(2, 4, device=DEV)).square().sum()
            how.zero_grad()
            loss.backward()
            how.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_autocast():
    w, packed = make((6, 4))
    with torch.autocast(DEV, torch.bfloat16):
        y = F.linear(torch.ones(2, 4, device=DEV), packed)
    torch.testing.assert_close(y.float().cpu(), w.sum(1).expand(2, 6), rtol=0.05, atol=0.05)


def test_later_operator():
    """An operator that is registered later knows no formats, and gets plain memory."""
    library = torch.library.Library("openreg_test_formats", "DEF")
    seen = []

    def twice(x):
        seen.append(torch.openreg.get_format(x))
        return x * 2

    def increment(x, step):
        seen.append(torch.openreg.get_format(x))
        return x.copy_(x.cpu() + step)

    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", twice, "PrivateUse1")
    library.define("increment_(Tensor(a!) x, int step) -> Tensor(a!)")
    library.impl("increment_", increment, "PrivateUse1")
    x, packed = make()
    y = torch.ops.openreg_test_formats.twice(packed)
    assert torch.equal(y.cpu(), x * 2) and is_packed(packed)
    assert counts() == {"openreg_test_formats::twice": 1}
    torch.ops.openreg_test_formats.increment_(packed, 3)
    assert seen == ["plain", "plain"] and not is_packed(packed)
    check(packed, x + 3)


def test_address():
    """Code that uses the address itself gets a fault, not the packed bytes."""
    x, packed = make()
    _C._launch_raw(packets.fill(packed.data_ptr(), 4), 0)
    with pytest.raises(torch.AcceleratorError, match="no memory at this address"):
        torch.openreg.synchronize()
    torch.openreg.reset()
    check(packed, x)


def test_compile():
    torch._dynamo.reset()
    w, packed = make((70, 40))

    @torch.compile
    def f(x, w):
        return F.linear(x, w).relu() + w.sum(), w * 2, w.t() + 1

    x = torch.randn(5, 40)
    for p in (packed, w.to(DEV), packed):
        for y, want in zip(f(x.to(DEV), p), f(x, w)):
            torch.testing.assert_close(y.cpu(), want, rtol=1e-4, atol=1e-3)
    assert is_packed(packed)

    @torch.compile
    def g(w):
        w.mul_(2)
        return w + 1

    torch.testing.assert_close(g(packed).cpu(), w * 2 + 1)
    check(packed, w * 2)


def test_compiled_plan():
    torch._dynamo.reset()
    one, two = make((6, 4), seed=1), make((6, 4), seed=2)

    @torch.compile(mode="reduce-overhead")
    def f(x, w):
        return F.linear(x, w).relu() * 2 + 1

    x = torch.randn(5, 4)
    for _ in range(4):
        for w, packed in (one, two, (one[0], one[0].to(DEV))):
            torch.testing.assert_close(f(x.to(DEV), packed).cpu(), F.linear(x, w).relu() * 2 + 1)


def test_compiled_cast():
    torch._dynamo.reset()

    @torch.compile(fullgraph=True)
    def f(x, w):
        return F.linear(x, torch.ops.openreg.format_cast(w, "packed"))

    x, w = torch.randn(5, 40), torch.randn(70, 40)
    torch.testing.assert_close(f(x.to(DEV), w.to(DEV)).cpu(), F.linear(x, w), rtol=1e-4, atol=1e-3)


def test_fake():
    from torch._subclasses import FakeTensorMode

    _, packed = make()
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(packed)
        assert fake.shape == (6, 4) and fake.device == packed.device
        y = F.linear(torch.ones(2, 4, device=DEV), fake)
    assert y.shape == (2, 6) and is_packed(packed)


def test_graph():
    w, packed = make((70, 40))
    x = torch.randn(5, 40).to(DEV)
    graph = torch.openreg.Graph()
    with torch.openreg.graph(graph):
        y = F.linear(x, packed)
        z = packed + 1
    x.fill_(1)
    graph.replay()
    torch.testing.assert_close(y.cpu(), w.sum(1).expand(5, 70), rtol=1e-4, atol=1e-3)
    assert torch.equal(z.cpu(), w + 1)


def test_modules():
    """Layers with weights that a program may pack."""
    torch.manual_seed(0)
    x = torch.randn(2, 5, 8)
    for module in (
        torch.nn.LSTM(8, 16, batch_first=True),
        torch.nn.GRU(8, 16),
        torch.nn.MultiheadAttention(8, 2, batch_first=True),
        torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(),
        torch.nn.Embedding(8, 8),
    ):
        packed = copy.deepcopy(module).to(DEV)
        for p in packed.parameters():
            if p.dim() == 2:
                p.data = torch.openreg.format_cast(p.data, "packed")

        def run(m, device):
            if isinstance(m, torch.nn.Embedding):
                return m(torch.arange(8).to(device))
            args = (x,) * 3 if isinstance(m, torch.nn.MultiheadAttention) else (x,)
            y = m(*(a.to(device) for a in args))
            return y if isinstance(y, torch.Tensor) else y[0]

        for mode in (torch.no_grad, torch.enable_grad):
            with mode():
                want, y = run(module, "cpu"), run(packed, DEV)
            torch.testing.assert_close(y.cpu(), want, rtol=1e-4, atol=1e-4)
        y.sum().backward()


def test_threads():
    """Other cards have formats too."""
    x = torch.randn(6, 4)
    packed = torch.openreg.format_cast(x.to("openreg:1"), "packed")
    assert packed.device.index == 1
    check(packed, x)
    check(packed.to("openreg:0"), x)
    assert not is_packed(packed.to("openreg:0"))
