# SPDX-License-Identifier: BSD-3-Clause
"""Scenes of two processes: what one may not send, see or forge."""

import contextlib
import mmap
import os
import pickle
import queue
import secrets
import signal
import socket
import threading
import time

import torch
from ipc_process import DEV, PATIENCE, Other, context, raises
from torch.multiprocessing import reductions
from torch_openreg import _C, _ipc


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


def rebuild(message):
    function, arguments = pickle.loads(message)
    return function(*arguments)


def interrupted_receive():
    """The answer to a receive that was interrupted comes later, and nobody takes it."""

    def work(inbox, outbox):
        one, two = inbox.get(), inbox.get()

        def interrupt(*_):
            raise KeyboardInterrupt

        signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        with raises(KeyboardInterrupt):
            rebuild(one)
        outbox.put("interrupted")
        assert inbox.get() == "go on"
        outbox.put([rebuild(two).tolist(), rebuild(one).tolist()])

    other = Other(work)
    tensors = [torch.full((3,), float(n), device=DEV) for n in (1, 2)]
    messages = [pickle.dumps(reductions.reduce_tensor(t)) for t in tensors]
    with _ipc._get_server().lock:  # the server does not answer
        other.put(*messages)
        assert other.get() == "interrupted"
    other.put("go on")
    assert other.get() == [[2] * 3, [1] * 3]
    other.end()


def sender_cannot_share():
    def work(inbox, outbox):
        messages = inbox.get(), inbox.get()
        for message in messages:
            with raises(RuntimeError, "cannot share it", "no room on the card"):
                rebuild(message)
        outbox.put("refused")
        assert inbox.get() == "go on"
        outbox.put(rebuild(messages[0]).tolist())

    other = Other(work)
    tensors = [torch.full((3,), float(n), device=DEV) for n in (1, 2)]
    messages = [pickle.dumps(reductions.reduce_tensor(t)) for t in tensors]
    tickets = list(_ipc._get_server().tickets.values())
    shares = [ticket._share for ticket in tickets]
    for ticket, kind in zip(tickets, (RuntimeError, ValueError)):

        def fail(_, kind=kind):
            raise kind("no room on the card")

        ticket._share = fail
    other.put(*messages)
    assert other.get() == "refused"
    for ticket, share in zip(tickets, shares):
        ticket._share = share
    other.put("go on")
    assert other.get() == [1] * 3
    other.end()


def other_users():
    """A process of another user gets no connection, so it cannot use up descriptors."""
    x = torch.ones(3, device=DEV)
    _, arguments = reductions.reduce_tensor(x)
    handle = arguments[7]
    if os.geteuid() != 0:
        return  # this process cannot become another user
    pid = os.fork()
    if pid == 0:
        try:
            os.setuid(65534)
        except OSError:
            os._exit(0)  # the name space has no other user
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
            stranger.settimeout(PATIENCE)
            stranger.connect(handle.server)
            os._exit(0 if stranger.recv(10) == b"" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def another_user_answers():
    """A process of another user that has the name of a server gets no ticket."""
    x = torch.ones(3, device=DEV)
    function, arguments = reductions.reduce_tensor(x)
    if os.geteuid() != 0:
        return  # this process cannot become another user
    name = b"\0openreg-taken-" + secrets.token_hex(8).encode()
    begun, begin = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setuid(65534)
        except OSError:
            os._exit(0)  # the name space has no other user
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
                stranger.settimeout(PATIENCE)
                stranger.bind(name)
                stranger.listen()
                os.write(begin, b"1")
                os._exit(0 if stranger.accept()[0].recv(100) == b"" else 1)
        finally:
            os._exit(2)
    os.close(begin)
    if os.read(begun, 1):
        forged = list(arguments)
        forged[7] = arguments[7]._replace(server=name, pid=pid, key=(0, 0))
        with raises(RuntimeError, f"process {pid}", "must live until then"):
            function(*forged)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def sender_without_room():
    """A receiver waits until a busy sender takes its connection. Other tensors arrive."""
    x = torch.ones(3, device=DEV)
    function, arguments = reductions.reduce_tensor(x)
    name = b"\0openreg-busy-" + secrets.token_hex(8).encode()
    forged = list(arguments)
    forged[7] = arguments[7]._replace(server=name, pid=1, key=(0, 0))
    errors = []

    def receive():
        try:
            function(*forged)
        except RuntimeError as error:
            errors.append(str(error))

    with contextlib.ExitStack() as stack:

        def unix_socket():
            return stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))

        server = unix_socket()
        server.bind(name)
        server.listen(0)
        callers = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                caller = unix_socket()
                caller.setblocking(False)
                caller.connect(name)
                callers += 1
        thread = threading.Thread(target=receive)
        thread.start()
        time.sleep(0.3)
        assert function(*arguments).tolist() == [1] * 3
        assert thread.is_alive()
        for _ in range(callers):
            server.accept()[0].close()
        connection = server.accept()[0]
        assert connection.recv(100)
        connection.close()
        thread.join()
    assert "process 1 has sent a tensor of openreg, and ended before" in errors[0]
