# SPDX-License-Identifier: MIT
"""QEMU's gdb stub: stops the guest at an access to memory, and steps on from there."""
import re
import socket

from machine import Limit

RIP = 16  # number of the register in the stub's x86-64 description
MFENCE = bytes.fromhex("0faef0")
READ, WRITE = "4", "2"  # kinds of watchpoints; 4: a read or a write


PATIENCE = 200  # seconds; on a busy host the stub may take long for an answer


class Gdb:
    """A connection to the stub. The guest and the card stand still, except in go()."""

    def __init__(self, machine) -> None:
        self.machine = machine
        path = machine.dir / "gdb"
        if not path.exists():
            machine.monitor.command("human-monitor-command", **{
                "command-line": f"gdbserver unix:{path},server=on,wait=off"})
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        machine.debugged = True
        self.socket.connect(str(path))
        self.data = b""
        self.current = ""  # thread
        self.ask("qSupported")
        self.ask("?")

    def send(self, text: str) -> None:
        data = text.encode()
        self.socket.sendall(b"$" + data + b"#%02x" % (sum(data) & 0xff))

    def receive(self) -> str:
        while True:
            found = re.search(rb"\$([^#]*)#[0-9a-f]{2}", self.data)
            if found:
                self.data = self.data[found.end():]
                self.socket.sendall(b"+")
                return found[1].decode()
            more = self.socket.recv(4096)
            if not more:
                raise OSError("the gdb stub has gone")
            self.data += more

    def ask(self, text: str) -> str:
        self.send(text)
        return self.receive()

    def read(self, address: int, size: int) -> bytes:
        answer = self.ask(f"m{address:x},{size:x}")
        return b"" if answer.startswith("E") else bytes.fromhex(answer)

    def direct_map(self) -> int:
        """Where the guest's kernel has all memory"""
        return int.from_bytes(self.read(self.machine.direct_map, 8), "little")

    def watch(self, kind: str, address: int, size: int) -> None:
        if self.ask(f"Z{kind},{address:x},{size:x}") != "OK":
            raise OSError("the gdb stub sets no watchpoint")

    def unwatch(self, kind: str, address: int, size: int) -> None:
        self.ask(f"z{kind},{address:x},{size:x}")

    def go(self, job: str) -> str:
        """Lets the guest run until a watchpoint; "" if its job ends without hitting one."""
        self.send("c")
        limit = Limit(self.machine.monitor, 30)
        while not self.machine.ended(job) and not limit.over():
            self.socket.settimeout(0.2)
            try:
                answer = self.receive()
            except TimeoutError:
                continue
            finally:
                self.socket.settimeout(PATIENCE)
            if "watch" in answer:
                return answer
            self.send("c")  # another processor had stopped before
        self.socket.sendall(b"\x03")
        answer = self.receive()
        return answer if "watch" in answer else ""

    def thread(self, stop: str) -> None:
        """The following commands are for the thread of this stop."""
        found = re.search(r"thread:([^;]+);", stop)
        if found:
            self.select(found[1])

    def select(self, thread: str) -> None:
        self.current = thread
        self.ask("Hg" + thread)
        self.ask("Hc" + thread)

    def step(self) -> bool:
        """Runs one instruction of the current thread. True if it hits a watchpoint."""
        stop = self.ask("s")
        if "watch" in stop:
            return True
        # The stub changes to the thread that it names. That of a late stop is another.
        if f"thread:{self.current};" not in stop:
            self.select(self.current)
        return False

    def code(self, size: int = 16) -> bytes:
        """The next instructions"""
        answer = self.ask(f"p{RIP:x}")
        return self.read(int.from_bytes(bytes.fromhex(answer), "little"), size)

    def fence_before(self, address: int, size: int, steps: int = 1500) -> tuple[bool, bool]:
        """Steps to the next access to address: (it comes, an mfence comes before)"""
        fence = False
        self.watch(READ, address, size)
        try:
            for _ in range(steps):
                fence = fence or self.code(3) == MFENCE
                if self.step():
                    return True, fence
        finally:
            self.unwatch(READ, address, size)
        return False, fence

    def close(self) -> None:
        """Lets the guest run on."""
        try:
            self.ask("D")
        except OSError:
            pass
        self.socket.close()
        # The stub leaves the machine stopped, or a processor that stopped late does.
        self.machine.debugged = False
        self.machine.monitor.resume()
