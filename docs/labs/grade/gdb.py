# SPDX-License-Identifier: MIT
"""QEMU's gdb stub: stops the guest at an access to memory, and steps on from there."""
import re
import socket

RIP = 16  # number of the register in the stub's x86-64 description
MFENCE = bytes.fromhex("0faef0")
READ, WRITE = "4", "2"  # kinds of watchpoints; 4: a read or a write


class Gdb:
    """A connection to the stub. The guest and the card stand still, except in go()."""

    def __init__(self, machine) -> None:
        self.monitor = machine.monitor
        path = machine.dir / "gdb"
        if not path.exists():
            machine.monitor.command("human-monitor-command", **{
                "command-line": f"gdbserver unix:{path},server=on,wait=off"})
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        self.socket.connect(str(path))
        self.data = b""
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

    def watch(self, kind: str, address: int, size: int) -> None:
        if self.ask(f"Z{kind},{address:x},{size:x}") != "OK":
            raise OSError("the gdb stub sets no watchpoint")

    def unwatch(self, kind: str, address: int, size: int) -> None:
        self.ask(f"z{kind},{address:x},{size:x}")

    def go(self, seconds: float) -> str:
        """Lets the guest run until a watchpoint; "" if none was hit in time."""
        self.send("c")
        self.socket.settimeout(seconds)
        try:
            answer = self.receive()
        except TimeoutError:
            self.socket.sendall(b"\x03")
            self.socket.settimeout(20)
            self.receive()
            return ""
        self.socket.settimeout(20)
        return answer if "watch" in answer else ""

    def thread(self, stop: str) -> None:
        """The following commands are for the thread of this stop."""
        found = re.search(r"thread:([^;]+);", stop)
        if found:
            self.ask("Hg" + found[1])
            self.ask("Hc" + found[1])

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
                if "watch" in self.ask("s"):
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
        self.monitor.command("cont")  # the stub leaves the machine stopped


def direct_map(machine) -> str:
    """A command of the guest that prints the address of page_offset_base"""
    return machine.run("grep -w page_offset_base /proc/kallsyms | cut -d' ' -f1")[1].strip()
