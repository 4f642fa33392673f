# SPDX-License-Identifier: MIT
"""Runs QEMU, and moves the VM into other QEMU processes during the run.

usage: move.py DIRECTORY KIND:TEXT... -- QEMU ARGUMENT...

When the guest's command prints a line with the first TEXT, the VM moves. Then the
program waits for the second TEXT, and so on. KIND is the way to move:

    migrate   live, through a socket
    save      to the VM's disk, from which a new QEMU loads it

QEMU writes the command's output to file descriptor 3. The program puts a pipe in its
place, passes the output on, and adds a line with # for each move.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time

OUTPUT = 3  # and 4: QEMU's descriptors for the command's output and its errors

# After so many lines during a migration the VM is stopped. Otherwise the command might
# end before the migration on a slow host.
LIVE_LINES = 12


class Failure(Exception):
    """Why the machine was not moved."""


class Output:
    """The command's output: passed on at once, and kept for find()."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.to = os.dup(OUTPUT)
        self.pipe, end = os.pipe()
        os.set_blocking(self.pipe, False)
        os.dup2(end, OUTPUT)
        os.close(end)
        self.text = b""
        self.seen = 0  # bytes up to the end of the line that find() last found
        threading.Thread(target=self.read, daemon=True).start()

    def take(self) -> bool:
        """Passes available output on. The caller holds the lock."""
        try:
            text = os.read(self.pipe, 65536)
        except BlockingIOError:
            return False
        self.put(text)
        self.text += text
        return bool(text)

    def put(self, text: bytes) -> None:
        try:
            while text:
                text = text[os.write(self.to, text) :]
        except BrokenPipeError:  # the reader has gone: end the run
            os.kill(os.getpid(), signal.SIGTERM)

    def read(self) -> None:
        while True:
            select.select([self.pipe], [], [])
            with self.lock:
                self.take()

    def mark(self, text: str) -> None:
        """Adds a line of this program after all output so far."""
        with self.lock:
            while self.take():
                pass
            broken = self.text and not self.text.endswith(b"\n")
            self.put(b"\n" * broken + f"# {text}\n".encode())

    def end(self) -> None:
        with self.lock:
            while self.take():
                pass

    def find(self, text: str) -> bool:
        """True if a complete line with the text follows the line found before."""
        with self.lock:
            at = self.text.find(text.encode(), self.seen)
            end = self.text.find(b"\n", at)
            if at < 0 or end < 0:
                return False
            self.seen = end + 1
            return True

    def lines(self) -> int:
        with self.lock:
            return self.text.count(b"\n")


class Machine:
    """A QEMU process, and the socket of its QMP monitor."""

    started: "list[subprocess.Popen]" = []

    def __init__(self, command: list[str], *more: str) -> None:
        self.socket, peer = socket.socketpair()
        with peer:
            fd = peer.fileno()
            monitor = ["-chardev", f"socket,id=move,fd={fd}", "-mon", "move,mode=control"]
            self.process = subprocess.Popen(
                [*command, *monitor, *more], pass_fds=(OUTPUT, OUTPUT + 1, fd)
            )
        self.started.append(self.process)
        self.replies = self.socket.makefile("rb")
        self.do("qmp_capabilities")

    def do(self, command: str, **arguments):
        request = {"execute": command, "arguments": arguments}
        try:
            self.socket.sendall(json.dumps(request).encode() + b"\n")
            for line in self.replies:
                reply = json.loads(line)
                if "error" in reply:
                    raise Failure(f"{command}: {reply['error']['desc']}")
                if "return" in reply:
                    return reply["return"]
        except OSError:
            pass
        raise Failure(f"{command}: QEMU has exited")

    def ended(self) -> bool:
        return self.process.poll() is not None

    def quit(self) -> None:
        self.do("quit")
        if self.process.wait():
            raise Failure(f"QEMU exited with status {self.process.returncode}")


def migrate(command: list[str], old: Machine, output: Output, where: str):
    """Migrates the VM through a socket into a new QEMU."""
    begin, lines, stopped = time.monotonic(), output.lines(), False
    new = Machine(command, "-S", "-incoming", "defer")
    uri = f"unix:{where}/move"
    new.do("migrate-incoming", uri=uri)
    old.do("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
    old.do("migrate", uri=uri)
    while (info := old.do("query-migrate"))["status"] != "completed":
        if info["status"] in ("failed", "cancelled"):
            raise Failure(f"migrate: {info.get('error-desc', info['status'])}")
        if not stopped and output.lines() - lines > LIVE_LINES:
            stopped = True
            old.do("stop")
        time.sleep(0.02)
    while new.do("query-status")["status"] == "inmigrate":
        time.sleep(0.02)
    old.quit()
    ram, how = info["ram"], "stopped" if stopped else "live"
    how += f", {ram['transferred'] >> 20} MiB in {ram['dirty-sync-count']} rounds"
    how += f", {time.monotonic() - begin:.1f} s, stopped for {info['downtime']} ms"
    return new, how


def save(command: list[str], old: Machine, output: Output, where: str):
    """Saves the VM to its disk, ends the old QEMU, and loads the VM in a new one."""
    begin = time.monotonic()
    old.do("stop")
    if problem := old.do("human-monitor-command", **{"command-line": "savevm move"}):
        raise Failure(f"savevm: {problem.strip()}")
    old.quit()
    new = Machine(command, "-S", "-loadvm", "move")
    return new, f"{time.monotonic() - begin:.1f} s"


KINDS = {"migrate": migrate, "save": save}


def run(where: str, moves: list[str], command: list[str], output: Output) -> int:
    machine = Machine(command)
    for move in moves:
        kind, text = move.split(":", 1)
        while not output.find(text):
            if machine.ended():
                raise Failure(f"the run ended, and no line of output has '{text}'")
            time.sleep(0.02)
        machine, how = KINDS[kind](command, machine, output, where)
        output.mark(f"moved by {kind}: {how}")
        machine.do("cont")
    status = machine.process.wait()
    output.end()
    return status


def end(*_) -> None:
    raise SystemExit(1)


def main() -> int:
    cut = sys.argv.index("--")
    signal.signal(signal.SIGTERM, end)
    try:
        return run(sys.argv[1], sys.argv[2:cut], sys.argv[cut + 1 :], Output())
    except Failure as why:
        print(f"move: {why}", file=sys.stderr)
        return 1
    finally:
        for process in Machine.started:
            if process.poll() is None:
                process.kill()


if __name__ == "__main__":
    sys.exit(main())
