# SPDX-License-Identifier: MIT
"""Runs QEMU, and moves its machine into other QEMU processes on the way.

usage: move.py DIRECTORY KIND:TEXT... -- QEMU ARGUMENT...

Once the guest's command has printed a line with the first TEXT, the machine is
moved, then the second TEXT is looked for, and so on. KIND is how it moves:

    migrate   through a socket, while the guest runs
    save      to its disk, whence a new QEMU takes it up

The command's output comes from QEMU by way of file descriptor 3, whose place a
pipe takes; each move adds a line with a # to it.
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

# So many lines may come while a machine is being migrated. Then it is stopped,
# or on a slow host the command might end before the move does.
LIVE_LINES = 12


class Failure(Exception):
    """Why the machine was not moved."""


class Output:
    """What the command prints: handed on at once, and remembered."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.to = os.dup(OUTPUT)
        self.pipe, end = os.pipe()
        os.set_blocking(self.pipe, False)
        os.dup2(end, OUTPUT)
        os.close(end)
        self.text = b""
        self.seen = 0  # bytes in which a line has been found
        threading.Thread(target=self.read, daemon=True).start()

    def take(self) -> bool:
        """Hands on what is there; the lock is held."""
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
        except BrokenPipeError:  # nobody reads it any more: all of this ends
            os.kill(os.getpid(), signal.SIGTERM)

    def read(self) -> None:
        while True:
            select.select([self.pipe], [], [])
            with self.lock:
                self.take()

    def mark(self, text: str) -> None:
        """A line of our own, after all that the machine has printed so far."""
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
        """Has a whole line with the text come, after those found before?"""
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
    """A QEMU process, and the socket by which it is told what to do."""

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
        raise Failure(f"{command}: QEMU has ended")

    def ended(self) -> bool:
        return self.process.poll() is not None

    def quit(self) -> None:
        self.do("quit")
        if self.process.wait():
            raise Failure(f"QEMU left with status {self.process.returncode}")


def migrate(command: list[str], old: Machine, output: Output, where: str):
    """The machine goes on in a QEMU that gets it through a socket."""
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
    how += f", {time.monotonic() - begin:.1f} s, at a stand for {info['downtime']} ms"
    return new, how


def save(command: list[str], old: Machine, output: Output, where: str):
    """The machine is saved, and taken up by a new QEMU when the old has gone."""
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
                raise Failure(f"the run ended without a line that has '{text}'")
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
