# SPDX-License-Identifier: BSD-3-Clause
"""torch._lazy_clone(): two tensors share memory until a program writes to one of them."""

import itertools
import threading

import pytest
import torch

from ops import values
from test_opinfo import NATIVE, OPS, moved, tensors

DEV = "openreg"


def address(t):
    return torch._C._data_address(t)


def is_shared(t):
    return torch._C._is_cow_tensor(t)


def test_reading_shares_and_writing_copies():
    others = torch.openreg.memory_allocated()
    x = values(1000).to(DEV)
    before = torch.openreg.memory_allocated()
    y = torch._lazy_clone(x)
    assert is_shared(x) and is_shared(y) and address(x) == address(y)
    assert torch.openreg.memory_allocated() == before
    assert torch.equal(x, y) and (x + y).sum() == (x * 2).sum()
    assert is_shared(x) and is_shared(y)
    y.add_(1)
    assert not is_shared(y) and address(x) != address(y)
    assert torch.equal(y.cpu(), values(1000) + 1) and torch.equal(x.cpu(), values(1000))
    x.zero_()  # the last tensor owns the memory alone
    assert torch.openreg.memory_allocated() - before == before - others
    assert not is_shared(x) and torch.equal(y.cpu(), values(1000) + 1)
    del x, y
    assert torch.openreg.memory_allocated() < before


def test_clones_of_clones_and_views():
    x = values(4, 6).to(DEV)
    clones = [torch._lazy_clone(x)]
    clones += [torch._lazy_clone(clones[0]), torch._lazy_clone(x.t())]
    clones[0][1].fill_(7)
    clones[2].mul_(2)
    x.copy_(torch.zeros(4, 6))
    assert torch.equal(clones[1].cpu(), values(4, 6))
    assert torch.equal(clones[2].cpu(), values(4, 6).t() * 2)
    assert clones[0][1].eq(7).all() and clones[0][0].tolist() == values(4, 6)[0].tolist()


@pytest.mark.parametrize("write", [
    lambda t: t.copy_(torch.ones(64)),
    lambda t: t.copy_(torch.ones(64, device=DEV)),
    lambda t: t.copy_(torch.ones(64, device=DEV).half()),
    lambda t: t[::2].copy_(torch.ones(32)),
    lambda t: torch.ones(32, device=DEV, out=t[:32]),
    lambda t: torch.mm(t.view(8, 8), t.view(8, 8), out=t.view(8, 8)),
    lambda t: torch.sort(t.clone(), out=(t, torch.empty(64, dtype=torch.int64, device=DEV))),
    lambda t: torch.sum(t.view(8, 8), 0, out=t[:8]),
    lambda t: t.uniform_(),
    lambda t: t.index_put_((torch.tensor([3], device=DEV),), torch.ones(1, device=DEV)),
    lambda t: t.erfinv_(),
    lambda t: torch.linalg.eigvalsh(t.view(8, 8), out=t[:8]),
    lambda t: torch._foreach_add_([t[:32], t[32:]], 1),
    lambda t: torch._fused_sgd_(
        [t], [torch.ones(64, device=DEV)], [], weight_decay=0, momentum=0, lr=0.5, dampening=0,
        nesterov=False, maximize=False, is_first_step=True),
    lambda t: t.untyped_storage().fill_(0),
    lambda t: t.resize_(4096).fill_(1),
])
def test_every_way_to_write(write):
    want = values(64)
    x = want.to(DEV)
    y = torch._lazy_clone(x)
    write(y)
    assert torch.equal(x.cpu(), want)
    assert not torch.equal(y.cpu()[:64], want)


def test_another_stream_keeps_the_memory(gate):
    x = values(1 << 20).to(DEV)
    y = torch._lazy_clone(x)
    other = torch.Stream(DEV)
    with gate:
        with other:
            pass
        y.record_stream(other)
    del x, y
    torch.openreg.synchronize()


def test_threads():
    x = values(100).to(DEV)
    clones = [torch._lazy_clone(x) for _ in range(16)]
    threads = [threading.Thread(target=c.add_, args=(i,)) for i, c in enumerate(clones)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert torch.equal(x.cpu(), values(100))
    for i, c in enumerate(clones):
        assert torch.equal(c.cpu(), values(100) + i)


def shared(value):
    """(value with lazy clones in place of its tensors, the original tensors)"""
    originals = []

    def clone(v):
        if isinstance(v, torch.Tensor):
            if v.numel() == 0:
                return v
            originals.append(v)
            return torch._lazy_clone(v)
        if isinstance(v, dict):
            return {k: clone(x) for k, x in v.items()}
        if isinstance(v, (list, tuple)):
            return type(v)(clone(x) for x in v)
        return v

    return clone(value), originals


@pytest.mark.parametrize("name", NATIVE)
@pytest.mark.filterwarnings("ignore")
def test_operators(name):
    """No operator writes to memory that a clone shares, in place and out= included."""
    op = OPS[name]
    torch.manual_seed(0)
    for sample in itertools.islice(op.sample_inputs("cpu", torch.float32), 2):
        args, kwargs = moved((sample.input, *sample.args)), moved(sample.kwargs)
        before = [t.cpu() for t in tensors((args, kwargs))]
        (lazy_args, lazy_kwargs), _ = shared((args, kwargs))
        result = op.op(*lazy_args, **lazy_kwargs)
        calls = []
        if op.inplace_variant is not None:
            calls.append((op.inplace_variant, {}))
        if op.supports_out and tensors(result) and name != "empty":
            outs, originals = shared([torch.zeros_like(t) for t in tensors(result)])
            out = outs[0] if isinstance(result, torch.Tensor) else tuple(outs)
            calls.append((op.op, {"out": out}))
        for function, more in calls:
            (lazy_args, lazy_kwargs), _ = shared((args, kwargs))
            try:
                function(*lazy_args, **lazy_kwargs, **more)
            except RuntimeError:
                continue
            if more:
                assert not any(t.any() for t in originals)
        for t, b in zip(tensors((args, kwargs)), before):
            assert torch.equal(t.cpu().nan_to_num(), b.nan_to_num())
