# SPDX-License-Identifier: BSD-3-Clause
"""Carries file descriptors of the card's memory from one process to another.

A pickled tensor has a ticket. The receiver gives the ticket to the sender's server, over a
Unix socket of the abstract namespace, and gets the descriptors. The server serves processes
of its own user and of root only, and the ticket is a secret. The receiver shows it only to
the user that sent it. The receiver keeps the connection: its end tells that the sender has
ended.
"""

import contextlib
import functools
import os
import secrets
import selectors
import socket
import struct
import threading
import time
import weakref
from collections.abc import Iterator
from multiprocessing.util import Finalize
from typing import Any, Callable, NamedTuple, Optional

import torch
from torch.multiprocessing.reductions import (
    StorageWeakRef,
    shared_cache,
    storage_from_cache,
)

from . import _C
from ._device import device_count, get_device_properties

_TICKET = 16  # bytes
_GET, _GET_WITH_CLOCKS, _TAKEN = b"g", b"c", b"t"
# An answer repeats the ticket. After _FAILED it has the text of the error.
_HERE, _FREED, _FAILED = b"y", b"n", b"e"
_ANSWER = 1 + _TICKET + 1000  # bytes, at most
_PATIENCE = 300  # s
_FINISH = 30  # s


class _Ticket:
    """An object that was sent. It is held until the receiver has it. After that the ticket
    is good as long as the sender holds the object itself."""

    def __init__(
        self,
        held: Any,
        again: Callable[[], Any],
        share: Callable[[Any], int],
        index: int,
    ) -> None:
        self._held, self._again, self._share = held, again, share
        self.index = index

    def taken(self) -> None:
        self._held = None

    def found(self) -> Any:
        return self._again() if self._held is None else self._held

    def open(self) -> Optional[int]:
        """Returns a descriptor that the caller closes, or None if the object is gone."""
        found = self.found()
        return None if found is None else self._share(found)


def _user_of(connection: socket.socket) -> int:
    """The user of the process at the other end, when it connected or began to listen."""
    size = struct.calcsize("3i")
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    _, user, _ = struct.unpack("3i", credentials)
    return user


def _send(connection: socket.socket, message: bytes) -> bool:
    """Returns False at the end of the connection."""
    try:
        connection.send(message)
    except OSError:
        return False
    return True


class _Server:
    """Gives descriptors to the processes that have tickets."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.tickets: dict[bytes, _Ticket] = {}
        self._most = 128
        self.name = b"\0openreg-" + secrets.token_hex(16).encode()
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(self.name)
        self.user = os.geteuid()
        self._listener.listen(128)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._connections: set[socket.socket] = set()
        threading.Thread(target=self._serve, name="openreg-ipc", daemon=True).start()

    def close_in_child(self) -> None:
        """A copy in a forked child would keep the receivers from seeing this process end."""
        for held in (self._listener, *self._connections):
            held.close()

    def add(self, ticket: _Ticket) -> bytes:
        name = secrets.token_bytes(_TICKET)
        with self.lock:
            if len(self.tickets) >= self._most:
                self._forget()
            self.tickets[name] = ticket
        return name

    def _forget(self) -> None:
        """Forgets the tickets of objects that are gone."""
        for name, ticket in list(self.tickets.items()):
            if ticket.found() is None:
                del self.tickets[name]
        self._most = max(128, 2 * len(self.tickets))

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    self._accept()
                elif not self._answer(key.fileobj):
                    self._selector.unregister(key.fileobj)
                    self._connections.discard(key.fileobj)
                    key.fileobj.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            time.sleep(0.1)  # most likely this process has no free descriptor
            return
        if _user_of(connection) not in (0, os.geteuid()):
            connection.close()
            return
        connection.setblocking(False)
        self._connections.add(connection)
        self._selector.register(connection, selectors.EVENT_READ)

    def _answer(self, connection: socket.socket) -> bool:
        """Returns False at the end of the connection."""
        try:
            request = connection.recv(1 + _TICKET + 1)
        except BlockingIOError:
            return True
        except OSError:
            return False
        kind, name = request[:1], request[1:]
        with self.lock:
            ticket = self.tickets.get(name)
            fds: list[int] = []
            try:
                if ticket and kind in (_GET, _GET_WITH_CLOCKS):
                    fds = self._open(ticket, kind)
                    socket.send_fds(connection, [(_HERE if fds else _FREED) + name], fds)
                elif kind != _TAKEN:
                    return False
                if ticket:
                    ticket.taken()
            except Exception as error:  # the thread must serve the others
                return _send(connection, (_FAILED + name + str(error).encode())[:_ANSWER])
            finally:
                for fd in fds:
                    os.close(fd)
        return True

    def _open(self, ticket: _Ticket, kind: bytes) -> list[int]:
        fd = ticket.open()
        if fd is None:
            return []
        fds = [fd]
        if kind == _GET_WITH_CLOCKS:
            try:
                fds.append(_C.share_clocks(ticket.index))
            except BaseException:
                os.close(fd)
                raise
        return fds


_server: Optional[_Server] = None
_lock = threading.RLock()


def _get_server() -> _Server:
    global _server
    with _lock:
        if _server is None:
            _server = _Server()
            # After the queues' threads have sent what is left: their priority is -5.
            Finalize(None, _finish, exitpriority=-10)
        return _server


_sent_from: set[torch.Stream] = set()


def _finish() -> None:
    """Lets the streams that have sent finish before this process ends: a receiver may wait
    for their work."""
    end = time.monotonic() + _FINISH
    for stream in _sent_from:
        with contextlib.suppress(RuntimeError):  # it has faulted: its receivers know
            while not stream.query() and time.monotonic() < end:
                time.sleep(0.001)


class Handle(NamedTuple):
    """Names memory of the card for another process."""

    card: str
    index: int  # of the card, in the sender
    server: bytes
    pid: int
    user: int  # of the server
    ticket: bytes
    key: tuple[int, int]  # of the memory
    offset: int  # the point in the sender's work: a clock, and its value
    value: int


_issued = threading.local()


@contextlib.contextmanager
def cancel_on_error() -> Iterator[None]:
    """Nobody comes for tickets of a message that is not sent."""
    before = getattr(_issued, "tickets", None)
    _issued.tickets = []
    try:
        yield
    except BaseException:
        for ticket in _issued.tickets:
            ticket.taken()
        raise
    finally:
        _issued.tickets = before


@functools.cache
def _card(index: int) -> str:
    return get_device_properties(index).pci


def send_storage(storage: torch.UntypedStorage) -> Handle:
    index = storage.device.index
    ref = StorageWeakRef(storage)

    def again() -> Optional[torch.UntypedStorage]:
        return torch.UntypedStorage._new_with_weak_ptr(ref.cdata)

    handle = _issue(_Ticket(storage, again, _C.share_storage, index))
    shared_cache[handle.key] = ref
    return handle


def send_event(event: torch.Event) -> Handle:
    index = event.device.index
    if index is None or index < 0:
        index = _C.current_device()

    def share(event: torch.Event) -> int:
        return _C.share_event(event, index)

    return _issue(_Ticket(event, weakref.ref(event), share, index))


def _issue(ticket: _Ticket) -> Handle:
    fd = ticket.open()
    assert fd is not None
    try:
        stat = os.fstat(fd)
    finally:
        os.close(fd)
    server = _get_server()
    point = _C.share_point(ticket.index)
    _sent_from.add(torch._C._accelerator_getStream(ticket.index))
    if getattr(_issued, "tickets", None) is not None:
        _issued.tickets.append(ticket)
    return Handle(
        _card(ticket.index),
        ticket.index,
        server.name,
        os.getpid(),
        server.user,
        server.add(ticket),
        (stat.st_dev, stat.st_ino),
        *point,
    )


class _Sender:
    """A connection to the process that sends. The caller of a method holds lock."""

    def __init__(self, name: bytes, pid: int, user: int) -> None:
        self.lock = threading.RLock()
        self.name = name
        self.process = f"process {pid}"
        self.user = user
        self.closed = False
        self.clocks: dict[int, Any] = {}
        self._connected = False
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(_PATIENCE)

    def connect(self) -> None:
        if self._connected:
            return
        try:
            self._call()
            # Another server may have taken the name of one that has ended.
            if _user_of(self._socket) != self.user:
                raise ConnectionRefusedError
        except TimeoutError as error:
            self.drop()
            raise self._late() from error
        except OSError as error:
            self.drop()
            raise self.gone() from error
        except BaseException:
            self.drop()
            raise
        self._connected = True

    def _call(self) -> None:
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                return self._socket.connect(self.name)
            except BlockingIOError as error:  # many others are calling it
                if time.monotonic() >= end:
                    raise TimeoutError from error
            time.sleep(0.01)

    def _late(self) -> RuntimeError:
        return RuntimeError(
            f"{self.process} has sent a tensor of openreg, and has not answered for "
            f"{_PATIENCE} seconds. Let it run, so that its threads can answer."
        )

    def gone(self) -> RuntimeError:
        return RuntimeError(
            f"{self.process} has sent a tensor of openreg, and ended before this process "
            "received it. The sender must live until then: for example, let it wait for an "
            "answer. If it still lives, both must be in the same network namespace."
        )

    def _ask(self, kind: bytes, ticket: bytes) -> tuple[bytes, list[int]]:
        """Returns the answer without the ticket, and the descriptors."""
        try:
            self._socket.send(kind + ticket)
            answer, fds, _, _ = socket.recv_fds(self._socket, _ANSWER, 2)
        except TimeoutError as error:
            raise self._late() from error
        except OSError as error:
            raise self.gone() from error
        if not answer:
            raise self.gone()
        if answer[1 : 1 + _TICKET] != ticket:
            for fd in fds:
                os.close(fd)
            raise RuntimeError(
                f"{self.process} has answered for another tensor of openreg than the one "
                "that was asked for. Both must use the same version of openreg."
            )
        return answer[:1] + answer[1 + _TICKET :], fds

    def get(self, ticket: bytes, index: int) -> int:
        """Returns the descriptor of the memory."""
        clocks = index not in self.clocks
        try:
            answer, fds = self._ask(_GET_WITH_CLOCKS if clocks else _GET, ticket)
        except BaseException:
            self.drop()  # the answer may come later: the next one must not read it
            raise
        if answer[:1] == _FAILED:
            raise RuntimeError(
                f"{self.process} has sent a tensor of openreg, and cannot share it: "
                + answer[1:].decode(errors="replace")
            )
        if len(fds) != 1 + clocks:
            raise RuntimeError(
                f"{self.process} has freed the tensor of openreg that it sent. A tensor can "
                "be received again only while the sender keeps it."
            )
        if clocks:
            try:
                self.clocks[index] = _C.ForeignClocks(
                    fds[1], self._socket.fileno(), self.process, index
                )
            except BaseException:
                os.close(fds[0])
                raise
            finally:
                os.close(fds[1])
        return fds[0]

    def taken(self, ticket: bytes) -> None:
        with contextlib.suppress(OSError):
            self._socket.send(_TAKEN + ticket)

    def ended(self) -> bool:
        return any(clocks.abandoned for clocks in self.clocks.values())

    def close(self) -> None:
        self.closed = True
        self._socket.close()

    def drop(self) -> None:
        with _lock:
            if _senders.get(self.name) is self:
                del _senders[self.name]
        self.close()


_senders: dict[bytes, _Sender] = {}


def _get_sender(handle: Handle) -> _Sender:
    with _lock:
        sender = _senders.get(handle.server)
        if sender is None:
            for name, old in list(_senders.items()):
                if old.ended():
                    _senders.pop(name).close()
            sender = _senders[handle.server] = _Sender(
                handle.server, handle.pid, handle.user
            )
        return sender


@contextlib.contextmanager
def _locked_sender(handle: Handle) -> Iterator[_Sender]:
    while True:
        sender = _get_sender(handle)
        with sender.lock:
            if sender.closed:  # by another thread, meanwhile
                continue
            sender.connect()
            yield sender
            return


def _index_of(handle: Handle) -> int:
    """Returns the index of the sender's card here. Opens no other card if it can."""
    indices = sorted(range(device_count()), key=lambda index: index != handle.index)
    for index in indices:
        if _card(index) == handle.card:
            return index
    visible = os.environ.get("OPENREG_VISIBLE_DEVICES")
    raise RuntimeError(
        f"a received tensor is on the card {handle.card}, which this process does not have"
        + (f" with OPENREG_VISIBLE_DEVICES={visible}" if visible else "")
        + ". Let this process see the card, or send x.cpu()."
    )


def receive_storage(cls: type, handle: Handle, nbytes: int) -> torch.UntypedStorage:
    _C.init()
    index = _index_of(handle)
    with _locked_sender(handle) as sender:
        storage = storage_from_cache(cls, handle.key)
        if storage is not None and index in sender.clocks:
            sender.taken(handle.ticket)
        else:
            fd = sender.get(handle.ticket, index)
            try:
                if storage is None:
                    storage = _C.receive_storage(fd, nbytes, index)
                    shared_cache[handle.key] = StorageWeakRef(storage)
            finally:
                os.close(fd)
        _C.wait_point(sender.clocks[index], handle.offset, handle.value, index)
    return storage


def receive_event(event: torch.Event, handle: Handle) -> int:
    """Makes a new event the sent one. Returns the index of its card."""
    _C.init()
    index = _index_of(handle)
    with _locked_sender(handle) as sender:
        fd = sender.get(handle.ticket, index)
    try:
        _C.receive_event(event, fd, index)
    finally:
        os.close(fd)
    return index


def _after_fork_in_child() -> None:
    global _server, _lock, _senders
    if _server is not None:
        _server.close_in_child()
    for sender in _senders.values():
        sender.close()
    _server, _senders, _lock = None, {}, threading.RLock()
    _sent_from.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
