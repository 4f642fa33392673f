# SPDX-License-Identifier: BSD-3-Clause
"""Scenes of two processes that share memory of a card. test_ipc.py runs each in a process
that has used no card, so that it can fork the other process."""

import contextlib
import gc
import mmap
import multiprocessing
import os
import pickle
import queue
import signal
import threading
import time
import traceback
from multiprocessing.reduction import ForkingPickler

import torch
from packets import Gate
from torch.multiprocessing import reductions
from torch_openreg import _C

DEV = "openreg"
PATIENCE = 300  # s
context = multiprocessing.get_context("fork")


class Other:
    """A forked process that runs work(inbox, outbox)."""

    def __init__(self, work):
        self.inbox, self.outbox = context.Queue(), context.Queue()
        self.may_end = context.Event()
        self.process = context.Process(target=self._run, args=(work,), daemon=True)
        self.process.start()

    def _run(self, work):
        try:
            work(self.inbox, self.outbox)
        except BaseException:
            self.outbox.put(("failed", traceback.format_exc()))
        self.may_end.wait(PATIENCE)  # its messages live as long as it does

    def put(self, *objects):
        for obj in objects:
            self.inbox.put(obj)

    def get(self):
        got = self.outbox.get(timeout=PATIENCE)
        assert not (isinstance(got, tuple) and got and got[0] == "failed"), got[1]
        return got

    def end(self):
        self.may_end.set()
        self.process.join(PATIENCE)
        assert self.process.exitcode == 0, self.process.exitcode

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.join(PATIENCE)


@contextlib.contextmanager
def raises(kind, *words):
    try:
        yield
    except kind as error:
        for word in words:
            assert word in str(error), str(error)
    else:
        raise AssertionError(f"no {kind.__name__}")


def echo(inbox, outbox):
    """Adds 1 to each tensor that comes, in place, and says what it was."""
    while (x := inbox.get()) is not None:
        outbox.put(x.detach().clone().cpu())
        with torch.no_grad():
            x.add_(1)
        torch.openreg.synchronize()
        outbox.put("added")


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


def received_is_not_sent_again():
    def work(inbox, outbox):
        x = inbox.get()
        with raises(RuntimeError, "came from another process", "clone()"):
            outbox.put(x[1:])
        with raises(RuntimeError, "came from another process"):
            reductions.reduce_storage(x.untyped_storage())
        outbox.put(x.clone())
        inbox.get()

    other = Other(work)
    other.put(torch.arange(3.0, device=DEV))
    assert other.get().tolist() == [0, 1, 2]
    other.put(None)
    other.end()


def used_memory():
    torch.openreg.synchronize()
    torch.openreg.ipc_collect()
    torch.openreg.empty_cache()
    return torch.openreg.memory_reserved(), torch.openreg.device_memory_used()


def keep(inbox, outbox):
    kept = [inbox.get()]
    outbox.put("has it")
    inbox.get()
    outbox.put(kept[0].cpu())
    kept.clear()
    outbox.put(used_memory()[0])
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
    assert used_memory() == before


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
    after = used_memory()
    assert after[0] < with_it[0] and after[1] < with_it[1], (with_it, after)


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


def refused_at_put():
    messages = context.Queue()
    leaf = torch.ones(3, device=DEV, requires_grad=True)
    graph = torch.openreg.Graph()
    static = torch.ones(3, device=DEV)
    with raises(RuntimeError, "sending a tensor to another process"):
        with torch.openreg.graph(graph):
            messages.put(static)
    graph = torch.openreg.Graph()
    with torch.openreg.graph(graph):
        inside = static + 1
    foreign = torch.from_dlpack(torch.ones(3, device=DEV).__dlpack__())
    for bad, *words in (
        (leaf * 2, "detach()"),
        (inside, "in the memory of a graph", "clone()"),
        (static, "a graph uses this tensor", "clone()"),
        (foreign, "another storage or library", "clone()"),
        (torch.openreg.Stream(), "Record an event"),
        ({"deep": (leaf, [leaf * 2])}, "detach()"),
    ):
        with raises(RuntimeError, *words):
            messages.put([torch.ones(2), bad])
    messages.put(1)
    assert messages.get(timeout=PATIENCE) == 1
    graph.replay()
    assert inside.tolist() == [2] * 3


def forked_child():
    """A child that was forked after the first use of a card: errors on both sides."""
    x = torch.ones(3, device=DEV)
    answers = context.Queue()

    def work():
        with raises(RuntimeError, "spawn"):
            context.Queue().put(x)
        with raises(RuntimeError, "spawn"):
            reductions.reduce_tensor(x)
        with raises(RuntimeError, "spawn"):
            messages.get(timeout=PATIENCE)
        context.Queue().put(torch.ones(2))
        answers.put("refused")

    messages = context.Queue()
    messages.put(x)
    child = context.Process(target=work)
    child.start()
    child.join(PATIENCE)
    assert child.exitcode == 0
    assert answers.get(timeout=PATIENCE) == "refused"


def unsent_messages_leave_nothing():
    messages = context.Queue(1)
    messages.put(1)
    x = torch.ones(3, device=DEV)
    messages.get(timeout=PATIENCE)
    messages.put(x)
    held = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        with raises(queue.Full):
            messages.put(x, block=False)
        with raises(Exception):
            messages.put([x, threading.Lock()])
    assert len(os.listdir("/proc/self/fd")) == held
    assert messages.get(timeout=PATIENCE).tolist() == [1] * 3


def no_leaks():
    def work(inbox, outbox):
        while (x := inbox.get()) is not None:
            total = x.sum().item()
            del x
            outbox.put((total, len(os.listdir("/proc/self/fd")), used_memory()[0]))

    other = Other(work)
    seen = []
    for i in range(30):
        x = torch.full((1000 + 300 * i,), 2.0, device=DEV)
        other.put(x)
        total, fds, memory = other.get()
        assert total == 2 * x.numel()
        del x
        seen.append((fds, len(os.listdir("/proc/self/fd")), (memory, used_memory())))
    receiver, sender, memory = zip(*seen[10:])
    assert len(set(memory)) == 1, memory
    # The card closes the files of freed memory a moment later.
    for fds in (receiver, sender):
        assert max(fds) <= min(fds) + 2, fds
    other.put(None)
    other.end()


def nothing_else_is_shown():
    secret = 0x5EC2E7.to_bytes(4, "little") * 16
    words = torch.frombuffer(bytearray(secret), dtype=torch.int32)
    before, x, after = (words.to(DEV) for _ in range(3))
    x.fill_(7)
    fd = _C.share_storage(x.untyped_storage())
    torch.openreg.synchronize()
    with mmap.mmap(fd, os.lseek(fd, 0, os.SEEK_END), prot=mmap.PROT_READ) as shown:
        data = shown[:]
    os.close(fd)
    assert (7).to_bytes(4, "little") * 16 in data
    assert secret[:16] not in data
    clocks = _C.share_clocks(0)
    with raises(OSError):
        mmap.mmap(clocks, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    os.close(clocks)
    assert before.tolist() == after.tolist() == words.tolist()


def strangers_get_nothing():
    """Without the ticket, the server gives nothing."""
    import socket

    x = torch.ones(3, device=DEV)
    _, arguments = reductions.reduce_tensor(x)
    handle = arguments[7]
    for message in (b"g" + bytes(16), b"c", b"", b"x" + handle.ticket, os.urandom(4000)):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
            stranger.settimeout(PATIENCE)
            stranger.connect(handle.server)
            stranger.send(message)
            data, fds, _, _ = socket.recv_fds(stranger, 10, 4)
            assert not data and not fds, (message, data, fds)
    messages = context.SimpleQueue()
    messages.put(x)
    assert messages.get().tolist() == [1] * 3


def forged_handles():
    def work(inbox, outbox):
        function, arguments = inbox.get()
        handle = arguments[7]

        def rebuild(nbytes=12, **changes):
            forged = list(arguments)
            forged[7], forged[8] = handle._replace(key=(0, 0), **changes), nbytes
            return function(*forged)

        with raises(RuntimeError, "does not have", "x.cpu()"):
            rebuild(card="none")
        with raises(RuntimeError, "smaller than the tensor"):
            rebuild(nbytes=1 << 20)
        with raises(RuntimeError, "no clock"):
            rebuild(offset=1 << 40)
        with raises(RuntimeError, "must live until then"):
            rebuild(ticket=bytes(16))
        outbox.put("refused")

    other = Other(work)
    x = torch.ones(3, device=DEV)
    other.put(reductions.reduce_tensor(x))
    assert other.get() == "refused"
    other.end()


def event_of_the_sender():
    """The sender records again after the receiver has the event."""

    def work(inbox, outbox):
        event, x = inbox.get()
        outbox.put("has it")
        assert inbox.get() == "recorded"
        assert not event.query()
        torch.openreg.current_stream().wait_event(event)
        y = x * 2
        assert not torch.openreg.current_stream().query()
        outbox.put("waits")
        event.synchronize()
        assert event.query()
        outbox.put(y.tolist())

    others = Other(work), Other(work)
    for other, make in zip(others, (torch.openreg.Event, lambda: torch.Event(DEV))):
        event, x = make(), torch.zeros(3, device=DEV)
        other.put((event, x))
        assert other.get() == "has it"
        with Gate():
            x.fill_(4)
            event.record()
            other.put("recorded")
            assert other.get() == "waits"
        assert other.get() == [8] * 3
        other.end()


def event_of_the_receiver():
    def work(inbox, outbox):
        event = torch.openreg.Event.from_ipc_handle(0, inbox.get())
        x = inbox.get()
        with Gate():
            x.fill_(9)
            event.record()
            outbox.put("recorded")
            assert inbox.get() == "waits"
        outbox.put("open")
        inbox.get()

    other = Other(work)
    event, x = torch.openreg.Event(interprocess=True), torch.zeros(3, device=DEV)
    other.put(event.ipc_handle(), x)
    assert other.get() == "recorded"
    assert not event.query()
    event.wait()
    y = x + 1
    assert not torch.openreg.current_stream().query()
    other.put("waits")
    event.synchronize()
    assert event.query() and y.tolist() == [10] * 3
    for _ in range(1200):  # the words of records are used again
        event.record()
    event.synchronize()
    other.put("end")
    other.end()


def event_recorded_before():
    """The event was recorded before it was sent, and its work is not done."""

    def work(inbox, outbox):
        event = inbox.get()
        outbox.put(event.query())
        event.synchronize()
        outbox.put(event.query())

    other = Other(work)
    event = torch.openreg.Event()
    with Gate():
        event.record()
        other.put(event)
        assert other.get() is False
    assert other.get() is True
    other.end()


def event_of_a_dead_process():
    def work(inbox, outbox):
        event = inbox.get()
        with Gate():
            event.record()
            outbox.put("recorded")
            inbox.get()

    other = Other(work)
    event = torch.openreg.Event()
    other.put(event)
    assert other.get() == "recorded"
    torch.openreg.current_stream().wait_event(event)
    other.kill()
    with raises(RuntimeError, f"process {other.process.pid}", "ended before"):
        event.synchronize()
    with raises(RuntimeError, f"process {other.process.pid}", "torch.openreg.reset()"):
        torch.openreg.synchronize()
    torch.openreg.reset()
    event.record()
    event.synchronize()


def event_freed_early():
    """The event goes away before the card has recorded it."""

    def work(inbox, outbox):
        event = inbox.get()
        with Gate():
            event.record()
            event.wait(torch.openreg.Stream())
            outbox.put("recorded")
            del event
            gc.collect()
            inbox.get()
        torch.openreg.synchronize()
        outbox.put("done")

    other = Other(work)
    event = torch.openreg.Event()
    with Gate():
        event.record()
        other.put(event)
        assert other.get() == "recorded"
        del event
        gc.collect()
    torch.openreg.synchronize()
    other.put("end")
    assert other.get() == "done"
    other.end()


def event_arguments():
    with raises(ValueError, "enable_timing"):
        torch.openreg.Event(enable_timing=True, interprocess=True)
    with raises(RuntimeError, "interprocess=True"):
        torch.openreg.Event().ipc_handle()
    event = torch.openreg.Event(interprocess=True)
    handle = event.ipc_handle()
    assert isinstance(handle, bytes) and event.query()
    if torch.openreg.device_count() > 1:
        with raises(ValueError, "openreg:0"):
            torch.openreg.Event.from_ipc_handle("openreg:1", handle)


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
