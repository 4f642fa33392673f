# SPDX-License-Identifier: MIT
"""Shapes that programs use and that op_db lacks. Each case creates its inputs on a device,
and returns the call to time."""

import torch
import torch.nn.functional as F

CASES: dict = {}


def case(name):
    def add(make):
        CASES[name] = make
        return make

    return add


def rand(device, *shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return torch.rand(*shape, generator=generator).to(dtype).to(device)


def simple(name, op, *shapes, dtype=torch.float32):
    """Adds a case: op on tensors of these shapes, without gradients."""

    def make(device):
        tensors = [rand(device, *shape, dtype=dtype) for shape in shapes]
        return lambda: op(*tensors)

    CASES[name] = make


def trained(name, op, *shapes, dtype=torch.float32):
    """Adds a case: op on tensors of these shapes, with gradients."""

    def make(device):
        tensors = [rand(device, *s, dtype=dtype).requires_grad_() for s in shapes]
        grad = torch.ones_like(op(*tensors))
        return lambda: torch.autograd.grad(op(*tensors), tensors, grad)

    CASES[f"{name}, with backward"] = make


def both(name, op, *shapes, dtype=torch.float32):
    simple(name, op, *shapes, dtype=dtype)
    trained(name, op, *shapes, dtype=dtype)


def positive(n):
    def make(device):
        a = torch.rand(n, n, generator=torch.Generator().manual_seed(0))
        return (a @ a.T + n * torch.eye(n)).to(device)

    return make


def of_matrix(name, op, n):
    def make(device):
        a = positive(n)(device)
        return lambda: op(a)

    CASES[f"{name} {n}"] = make


M = 1 << 20
SQUARE = (1024, 1024)
for n in (128, 256, 512):
    of_matrix("linalg.solve", lambda a: torch.linalg.solve(a, a), n)
    of_matrix("linalg.inv", torch.linalg.inv, n)
    of_matrix("linalg.det", torch.linalg.det, n)
    of_matrix("linalg.cholesky", torch.linalg.cholesky, n)
    of_matrix("linalg.qr", torch.linalg.qr, n)
of_matrix("linalg.eigh", torch.linalg.eigh, 128)
of_matrix("linalg.svd", torch.linalg.svd, 128)

both("depthwise conv2d 96 channels k7 28x28",
     lambda x, w: F.conv2d(x, w, padding=3, groups=96), (1, 96, 28, 28), (96, 1, 7, 7))
both("depthwise conv2d 128 channels k3 56x56",
     lambda x, w: F.conv2d(x, w, padding=1, groups=128), (1, 128, 56, 56), (128, 1, 3, 3))
both("depthwise conv1d 256 channels k4",
     lambda x, w: F.conv1d(x, w, padding=3, groups=256), (2, 256, 512), (256, 1, 4))
both("conv2d 3 to 16 channels k3, batch 1", lambda x, w: F.conv2d(x, w, padding=1),
     (1, 3, 64, 64), (16, 3, 3, 3))
for dtype in (torch.float32, torch.bfloat16):
    kind = str(dtype).removeprefix("torch.")
    both(f"conv2d 64 channels k3 56x56 {kind}", lambda x, w: F.conv2d(x, w, padding=1),
         (4, 64, 56, 56), (64, 64, 3, 3), dtype=dtype)
    both(f"conv2d 128 channels k1 28x28 {kind}", F.conv2d,
         (4, 128, 28, 28), (128, 128, 1, 1), dtype=dtype)
    for n in (1024, 2048):
        simple(f"matmul {n} {kind}", torch.mm, (n, n), (n, n), dtype=dtype)
both("conv_transpose2d 64 channels k4 s2",
     lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1), (2, 64, 28, 28),
     (64, 64, 4, 4))

for name in ("cumsum", "cumprod", "logcumsumexp"):
    op = getattr(torch, name)
    both(f"{name} 1024x1024 dim -1", lambda x, op=op: op(x, -1), SQUARE)
    both(f"{name} 1024x1024 dim 0", lambda x, op=op: op(x, 0), SQUARE)
    simple(f"{name} 8x50000 dim -1", lambda x, op=op: op(x, -1), (8, 50000))
simple("cummax 1024x1024 dim -1", lambda x: torch.cummax(x, -1), SQUARE)
simple("cumsum of a row of 1M", lambda x: x.cumsum(0), (M,))

IMAGE = (8, 16, 32, 32)
for mode in ("bilinear", "nearest", "bicubic"):
    both(f"interpolate 32 to 128 {mode}",
         lambda x, mode=mode: F.interpolate(x, size=(128, 128), mode=mode), IMAGE)
for mode in ("bilinear", "bicubic"):
    both(f"interpolate 128 to 48 {mode} antialias",
         lambda x, mode=mode: F.interpolate(x, size=(48, 48), mode=mode, antialias=True),
         (4, 16, 128, 128))

both("gelu 1M", F.gelu, SQUARE)
both("gelu tanh 1M", lambda x: F.gelu(x, approximate="tanh"), SQUARE)
both("silu 1M", F.silu, SQUARE)
simple("nonzero 1M", lambda x: (x > 0.5).nonzero(), SQUARE)
simple("mask of 1M", lambda x: x[x > 0.5], SQUARE)
simple("where of 1M", lambda x: torch.where(x > 0.5, x, -x), SQUARE)
simple("transpose copy 1024x1024", lambda x: x.t().contiguous(), SQUARE)
simple("transpose copy 4096x1024", lambda x: x.t().contiguous(), (4096, 1024))
simple("permute copy 0213", lambda x: x.permute(0, 2, 1, 3).contiguous(), (8, 128, 16, 64))
simple("NCHW to NHWC", lambda x: x.contiguous(memory_format=torch.channels_last),
       (8, 64, 56, 56))
for dim in (0, 1):
    both(f"softmax 1024x1024 dim {dim}", lambda x, dim=dim: x.softmax(dim), SQUARE)
    both(f"log_softmax 1024x1024 dim {dim}", lambda x, dim=dim: x.log_softmax(dim), SQUARE)
    both(f"sum 1024x1024 dim {dim}", lambda x, dim=dim: x.sum(dim), SQUARE)
    both(f"var 1024x1024 dim {dim}", lambda x, dim=dim: x.var(dim), SQUARE)
    simple(f"argmax 1024x1024 dim {dim}", lambda x, dim=dim: x.argmax(dim), SQUARE)
    simple(f"amax 1024x1024 dim {dim}", lambda x, dim=dim: x.amax(dim), SQUARE)
    simple(f"any 1024x1024 dim {dim}", lambda x, dim=dim: (x > 2).any(dim), SQUARE)
    simple(f"sort 1024x1024 dim {dim}", lambda x, dim=dim: x.sort(dim), SQUARE)
simple("sum of 1M", torch.sum, SQUARE)
simple("mean of 16M", torch.mean, (16 * M,))
both("group_norm 32 groups", lambda x, w, b: F.group_norm(x, 32, w, b),
     (4, 128, 32, 32), (128,), (128,))
both("layer_norm 1024x1024", lambda x, w, b: F.layer_norm(x, (1024,), w, b),
     SQUARE, (1024,), (1024,))
both("batch_norm training 64 channels",
     lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
     (8, 64, 56, 56), (64,), (64,))
both("max_pool2d k3 s2", lambda x: F.max_pool2d(x, 3, 2, 1), (8, 64, 56, 56))
both("avg_pool2d k2", lambda x: F.avg_pool2d(x, 2), (8, 64, 56, 56))
both("adaptive_avg_pool2d 1", lambda x: F.adaptive_avg_pool2d(x, 1), (8, 256, 14, 14))
both("sdpa 4x8x256x64", F.scaled_dot_product_attention, *[(4, 8, 256, 64)] * 3)
both("sdpa causal 4x8x256x64",
     lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
     *[(4, 8, 256, 64)] * 3)


@case("embedding 32x256 of 10000x128, with backward")
def _(device):
    table = rand(device, 10000, 128).requires_grad_()
    places = (rand("cpu", 32, 256) * 10000).long().to(device)
    grad = rand(device, 32, 256, 128)
    return lambda: torch.autograd.grad(F.embedding(places, table), table, grad)


@case("cross_entropy 1024x10000, with backward")
def _(device):
    x = rand(device, 1024, 10000).requires_grad_()
    target = (rand("cpu", 1024) * 10000).long().to(device)
    return lambda: torch.autograd.grad(F.cross_entropy(x, target), x)


def recurrent(kind, training, *args, **kwargs):
    def make(device):
        torch.manual_seed(0)
        net = kind(*args, **kwargs).to(device)
        x = rand(device, 100, 16, 64)

        def infer():
            with torch.no_grad():
                return net(x)[0]

        def train():
            net.zero_grad()
            net(x)[0].sum().backward()

        return train if training else infer

    return make


for kind in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
    name = f"{kind.__name__}(64) 2 layers 100 steps"
    CASES[name] = recurrent(kind, False, 64, 64, num_layers=2)
    CASES[f"{name}, with backward"] = recurrent(kind, True, 64, 64, num_layers=2)


def copies(size, text):
    def host_to_card(device):
        host, there = torch.ones(size), torch.empty(size, device=device)
        return lambda: there.copy_(host)

    def card_to_host(device):
        host, there = torch.ones(size), torch.empty(size, device=device)
        return lambda: host.copy_(there)

    def on_card(device):
        a, b = torch.ones(size, device=device), torch.empty(size, device=device)
        return lambda: b.copy_(a)

    CASES[f"copy of {text}, host to card"] = host_to_card
    CASES[f"copy of {text}, card to host"] = card_to_host
    CASES[f"copy of {text} on the card"] = on_card


copies(M // 4, "1 MiB")
copies(16 * M, "64 MiB")

both("weight_norm 512x512", lambda v, g: torch._weight_norm(v, g, 0), (512, 512), (512, 1))
simple("fft of 64x4096", torch.fft.fft, (64, 4096))
simple("rfft2 256x256", torch.fft.rfft2, (8, 256, 256))
simple("bincount of 1M", lambda x: torch.bincount((x.view(-1) * 100).long()), SQUARE)
simple("histc of 1M", lambda x: torch.histc(x, 100), SQUARE)
both("grid_sample 64x64",
     lambda x, g: F.grid_sample(x, g * 2 - 1, align_corners=False),
     (4, 16, 64, 64), (4, 64, 64, 2))


@case("ctc_loss 100 steps batch 16, with backward")
def _(device):
    x = rand(device, 100, 16, 30).requires_grad_()
    target = (rand("cpu", 16, 20) * 29 + 1).long().to(device)
    lengths = torch.full((16,), 100), torch.full((16,), 20)
    return lambda: torch.autograd.grad(
        F.ctc_loss(x.log_softmax(2), target, *lengths), x)


@case("embedding_bag 4096 of 10000x64")
def _(device):
    table = rand(device, 10000, 64)
    places = (rand("cpu", 4096) * 10000).long().to(device)
    offsets = torch.arange(0, 4096, 16).to(device)
    return lambda: F.embedding_bag(places, table, offsets)


@case("complex mm 256")
def _(device):
    a = torch.complex(rand("cpu", 256, 256), rand("cpu", 256, 256)).to(device)
    return lambda: a @ a


@case("sparse mm 1024, 1 % full")
def _(device):
    a = rand("cpu", 1024, 1024)
    a = (a * (a > 0.99)).to_sparse().to(device)
    b = rand(device, 1024, 64)
    return lambda: torch.sparse.mm(a, b)
