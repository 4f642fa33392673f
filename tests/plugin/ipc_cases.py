# SPDX-License-Identifier: BSD-3-Clause
"""Scenes of two processes that share memory of a card. test_ipc.py runs each in a process
that has used no card, so that it can fork the other process."""

import os
import pickle
import threading
import time
from multiprocessing.reduction import ForkingPickler

import torch
from ipc_process import (
    DEV,
    PATIENCE,
    Other,
    context,
    drops_to,
    echo,
    raises,
    reserved_memory,
    used_memory,
)
from packets import Gate
from torch.multiprocessing import reductions


def writes_on_both_sides():
    other = Other(echo)
    for make in (
        lambda: torch.arange(12.0, device=DEV).view(3, 4),
        lambda: torch.arange(12, device=DEV, dtype=torch.int64)[3:],
        lambda: torch.arange(24.0, device=DEV).view(4, 6)[1:, ::2].t(),
        lambda: torch.arange(5, device=DEV).to(torch.bfloat16),
        lambda: torch.tensor(3.0, device=DEV),
        lambda: torch.arange(4.0, device=DEV).to(torch.complex64).conj(),
        lambda: torch.ones(700_000, device=DEV),
        lambda: torch.ones(3_000_001, device=DEV),
        lambda: torch.ones(2, 3, device=DEV)._lazy_clone(),
        lambda: torch.openreg.format_cast(torch.rand(65, 33, device=DEV), "packed"),
    ):
        x = make()
        neighbours = [torch.full((64,), float(i), device=DEV) for i in range(8)]
        before = x.clone().cpu()
        other.put(x)
        assert torch.equal(other.get(), before)
        assert other.get() == "added"
        assert torch.equal(x.cpu(), before + 1), (x, before)
        x.mul_(2)  # and the other way
        other.put(x)
        assert torch.equal(other.get(), 2 * (before + 1))
        other.get()
        assert all(n.eq(i).all() for i, n in enumerate(neighbours))
    other.put(None)
    other.end()


def describe(inbox, outbox):
    while (x := inbox.get()) is not None:
        outbox.put(
            (type(x).__name__, x.requires_grad, x.is_leaf, x.stride(), x.storage_offset())
        )
        outbox.put((str(x.dtype), str(x.device), x.is_shared(), x.cpu().detach()))


def metadata():
    other = Other(describe)
    for x in (
        torch.arange(6.0, device=DEV).view(2, 3).t(),
        torch.ones(3, device=DEV, requires_grad=True),
        torch.nn.Parameter(torch.ones(3, device=DEV)),
        torch.nn.Parameter(torch.arange(3, device=DEV), requires_grad=False),
        torch.empty(0, 4, device=DEV),
        torch.empty(0, device=DEV, dtype=torch.float16),
        torch.ones(4, device=DEV)[4:],
    ):
        other.put(x)
        assert other.get() == (
            type(x).__name__,
            x.requires_grad,
            x.is_leaf,
            x.stride(),
            x.storage_offset(),
        )
        dtype, device, shared, values = other.get()
        assert (dtype, device, shared) == (str(x.dtype), "openreg:0", True)
        assert torch.equal(values, x.detach().cpu())
    other.put(None)
    other.end()


def sum_up(inbox, outbox):
    while (x := inbox.get()) is not None:
        if isinstance(x, (torch.UntypedStorage, torch.TypedStorage)):
            x = torch.tensor([], dtype=torch.float32, device=DEV).set_(x)
        elif isinstance(x, torch.nn.Module):
            x = sum(p.sum() for p in x.parameters())
        elif isinstance(x, dict):
            x = x["list"][1][0]
        outbox.put(float(x.to_dense().sum() if x.layout != torch.strided else x.sum()))


def holders():
    other = Other(sum_up)
    x = torch.arange(4.0, device=DEV)
    linear = torch.nn.Linear(3, 2, device=DEV)
    for holder, total in (
        (x.untyped_storage(), 6),
        (x._typed_storage(), 6),
        (linear, float(sum(p.sum() for p in linear.parameters()))),
        ({"list": [1, (x, "text")]}, 6),
        (torch.eye(3, device=DEV).to_sparse(), 3),
        (torch.eye(3, device=DEV).to_sparse_csr(), 3),
        (torch.empty(0, device=DEV).untyped_storage(), 0),
    ):
        other.put(holder)
        assert abs(other.get() - total) < 1e-5
    other.put(None)
    other.end()


def same_storage():
    """Views of one storage are views of one storage in the receiver too."""

    def work(inbox, outbox):
        a, b = inbox.get()
        c = inbox.get()
        outbox.put(
            a.untyped_storage().data_ptr()
            == b.untyped_storage().data_ptr()
            == c.untyped_storage().data_ptr()
        )
        c.zero_()
        outbox.put(a.cpu())
        with raises(RuntimeError, "not resizable"):
            a.untyped_storage().resize_(1 << 20)
        outbox.put("end")

    other = Other(work)
    x = torch.arange(8.0, device=DEV)
    other.put((x[:4], x[4:]))
    other.put(x[:2])
    assert other.get()
    assert other.get().tolist() == [0, 0, 2, 3]
    assert x.tolist() == [0, 0, 2, 3, 4, 5, 6, 7]
    assert other.get() == "end"
    other.end()
    # In the sender it is the sender's own storage.
    messages = context.SimpleQueue()
    messages.put(x)
    assert messages.get().data_ptr() == x.data_ptr()


def reductions_by_hand():
    """Programs call core's functions, and pickle the arguments as they like."""

    def work(inbox, outbox):
        function, arguments = pickle.loads(inbox.get())
        arguments[6] = 0  # vLLM sets its own index
        outbox.put(function(*arguments).sum().item())
        again = function(*arguments)  # the sender still has the tensor
        again.add_(1)
        torch.openreg.synchronize()
        outbox.put("added")

    other = Other(work)
    x = torch.ones(5, device=DEV)
    function, arguments = reductions.reduce_tensor(x)
    other.put(pickle.dumps((function, list(arguments))))
    assert other.get() == 5
    assert other.get() == "added" and x.tolist() == [2] * 5
    other.end()
    for reduce, holder in (
        (reductions.reduce_storage, x.untyped_storage()),
        (reductions.reduce_event, torch.Event(DEV)),
    ):
        function, arguments = reduce(holder)
        assert type(function(*pickle.loads(pickle.dumps(arguments)))) is type(holder)
    assert ForkingPickler.loads(ForkingPickler.dumps(torch.ones(2))).tolist() == [1, 1]


def keep(inbox, outbox):
    kept = [inbox.get()]
    outbox.put("has it")
    inbox.get()
    outbox.put(kept[0].cpu())
    kept.clear()
    outbox.put(reserved_memory())
    inbox.get()


def sender_frees_first():
    other = Other(keep)
    torch.ones(1, device=DEV)
    before = used_memory()
    x = torch.full((1000,), 3.0, device=DEV)
    other.put(x)
    assert other.get() == "has it"
    del x
    # No allocation of the sender gets the memory.
    noise = [torch.full((1000,), 9.0, device=DEV) for _ in range(3000)]
    torch.openreg.synchronize()
    other.put("look")
    assert other.get().eq(3).all()
    assert other.get() == 0
    del noise
    other.put("end")
    other.end()
    drops_to(*before)


def killed_receiver():
    other = Other(keep)
    x = torch.full((1 << 20,), 3.0, device=DEV)
    other.put(x)
    assert other.get() == "has it"
    with_it = used_memory()
    other.kill()
    x.add_(1)
    assert x.eq(4).all()
    del x
    drops_to(with_it[0] - 1, with_it[1] - 1)


def killed_sender():
    def work(inbox, outbox):
        outbox.put(torch.full((1000,), 5.0, device=DEV))
        outbox.put(torch.full((1000,), 6.0, device=DEV))
        time.sleep(PATIENCE)

    other = Other(work)
    x = other.get()
    assert x.eq(5).all()
    time.sleep(0.5)  # the second message is in the pipe
    other.kill()
    assert x.add_(1).eq(6).all()  # the memory stays
    with raises(RuntimeError, f"process {other.process.pid}", "must live until then"):
        other.get()


def work_that_never_ends():
    """The sender dies before its work on the tensor is done."""

    def work(inbox, outbox):
        x = torch.ones(4, device=DEV)
        with Gate():
            x.fill_(2)
            outbox.put(x)
            inbox.get()

    other = Other(work)
    x = other.get()
    y = x + 1
    assert not torch.openreg.current_stream().query()
    other.kill()
    for wait in (torch.openreg.synchronize, y.cpu, torch.openreg.current_stream().query):
        with raises(RuntimeError, f"process {other.process.pid}", "torch.openreg.reset()"):
            wait()
    torch.openreg.reset()
    torch.openreg.synchronize()
    assert torch.ones(3, device=DEV).sum().item() == 3


def order_on_the_card():
    """The receiver's stream waits for the sender's. Neither process waits."""

    def work(inbox, outbox):
        side = torch.openreg.Stream()
        with torch.openreg.stream(side):
            with Gate():
                x = torch.zeros(4, device=DEV)
                x.fill_(7)
                outbox.put(x)
                assert inbox.get() == "launched"
        torch.openreg.synchronize()
        outbox.put("done")
        inbox.get()

    other = Other(work)
    x = other.get()
    y = x + 1
    assert not torch.openreg.current_stream().query()
    other.put("launched")
    assert y.tolist() == [8] * 4
    assert other.get() == "done"
    other.put("end")
    other.end()


def moving_keeps_the_order():
    """The first sending moves the tensor, while streams still work on it."""
    other = Other(echo)
    side = torch.openreg.Stream()
    x = torch.zeros(100_000, device=DEV)
    side.wait_stream(torch.openreg.current_stream())
    with torch.openreg.stream(side):
        torch.openreg._sleep(20_000_000)
        x.add_(1)
        x.record_stream(side)
    other.put(x)
    assert other.get().eq(1).all()
    other.get()
    with torch.openreg.stream(side):
        assert x.eq(2).all()
    other.put(None)
    other.end()


def no_leaks():
    def work(inbox, outbox):
        while (x := inbox.get()) is not None:
            total = x.sum().item()
            del x
            outbox.put((total, len(os.listdir("/proc/self/fd")), reserved_memory()))

    other = Other(work)
    seen = []
    used = None
    for i in range(30):
        x = torch.full((1000 + 300 * i,), 2.0, device=DEV)
        other.put(x)
        total, fds, memory = other.get()
        assert total == 2 * x.numel()
        del x
        seen.append((fds, len(os.listdir("/proc/self/fd")), (memory, reserved_memory())))
        used = used_memory() if i == 10 else used
    receiver, sender, memory = zip(*seen[10:])
    assert len(set(memory)) == 1, memory
    drops_to(*used)
    # The card closes the files of freed memory a moment later.
    for fds in (receiver, sender):
        assert max(fds) <= min(fds) + 2, fds
    other.put(None)
    other.end()


def second_card():
    def work(inbox, outbox):
        x = inbox.get()
        outbox.put((str(x.device), (x @ x).cpu()))

    other = Other(work)
    x = torch.eye(3, device="openreg:1") * 2
    other.put(x)
    device, product = other.get()
    assert device == "openreg:1" and torch.equal(product, torch.eye(3) * 4)
    other.end()


def threads_send():
    """Threads of both processes send and receive the same tensors."""

    def work(inbox, outbox):
        found = []

        def receive():
            for _ in range(20):
                found.append(inbox.get(timeout=PATIENCE).sum().item())

        threads = [threading.Thread(target=receive) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        outbox.put(sorted(found))

    other = Other(work)
    tensors = [torch.full((10,), float(i), device=DEV) for i in range(4)]

    def send():
        for _ in range(5):
            other.put(*tensors)

    threads = [threading.Thread(target=send) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert other.get() == sorted([10.0 * i for i in range(4)] * 20)
    other.end()
