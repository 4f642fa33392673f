# SPDX-License-Identifier: MIT
"""The VM of the grader: its guest, QEMU's monitor, the card's trace and the kernel's log."""
import base64
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
from typing import NamedTuple

TOP = pathlib.Path(__file__).resolve().parents[3]
CARD = "/machine/peripheral/card0"
BOOT_SECONDS = 900
SLOW = 6  # how much longer everything may take on a busy host
NO_RETURN = "no return"  # the error of a step that takes too long
PATIENCE = 10  # seconds for the guest's answer, beyond what the command may take
# As KERNEL_REPORTS of scripts/lib/vm.sh.
REPORTS = re.compile(
    r"WARNING: |BUG: |BUG [a-z]|kernel BUG at|Oops|Kernel panic|general protection fault"
    r"|UBSAN: |refcount_t: |INFO: (possible|suspicious|trying|task|rcu)|rcu: INFO"
    r"|list_(add|del) corruption|\[ cut here \]")
# Lines of a report that do not help a student: page tables, the machine, registers.
NOISE = re.compile(r"^(#PF: |PGD |CPU: |Hardware name: |Workqueue: |Modules linked in: |Code: "
                   r"|R\w\w: |EFLAGS: |FS: |CS: |CR2: |</?\w+>$|Tainted: |Oops: |\d+ locks? held)")


class Broken(Exception):
    """The VM cannot be used any more. The text says why, for the student."""


class Silent(Broken):
    """QEMU's monitor does not answer. The console may say more: see Machine.why()."""


class Monitor:
    """QEMU's monitor: commands and the memory of the machine."""

    def __init__(self, path: pathlib.Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(30 * SLOW)
        self.socket.connect(str(path))
        self.file = self.socket.makefile("r", encoding="utf-8")
        self.file.readline()
        self.command("qmp_capabilities")
        self.qemu = struct.unpack("3i", self.socket.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]

    def command(self, name: str, **arguments):
        try:
            text = json.dumps({"execute": name, "arguments": arguments}) + "\n"
            self.socket.sendall(text.encode())
            while True:
                answer = json.loads(self.file.readline() or "null")
                if answer is None:
                    raise Silent("the VM has stopped")
                if "error" in answer:
                    raise RuntimeError(f"QEMU refuses {name}: {answer['error']['desc']}")
                if "return" in answer:
                    return answer["return"]
        except OSError as error:
            raise Silent(f"QEMU's monitor does not answer: {error}") from error

    def processor_seconds(self) -> float:
        """The processor time that QEMU has used"""
        try:
            text = pathlib.Path(f"/proc/{self.qemu}/stat").read_text(encoding="ascii")
        except OSError:
            return 0
        words = text.rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def resume(self) -> None:
        """Continues a guest that a debugger's stop has reached late."""
        try:
            if self.command("query-status")["status"] in ("debug", "paused"):
                self.command("cont")
        except (Broken, RuntimeError):
            pass  # the caller sees that the VM has ended

    def set(self, name: str, value: int) -> None:
        self.command("qom-set", path=CARD, property=name, value=value)

    def read(self, address: int, words: int, size: int = 4) -> list[int]:
        """Words of size 4 or 8 at a physical address, also of a BAR."""
        text = self.command("human-monitor-command", **{
            "command-line": f"xp /{words}x{'w' if size == 4 else 'g'} 0x{address:x}"})
        values = [int(word, 16) for line in text.splitlines()
                  for word in line.partition(":")[2].split()]
        if len(values) != words:
            raise RuntimeError(f"the monitor cannot read 0x{address:x}: {text}")
        return values

    def bars(self) -> dict[int, tuple[int, int]]:
        """Address and size of each BAR of the card."""
        for bus in self.command("query-pci"):
            for device in self.devices(bus):
                if device["qdev_id"] == "card0":
                    return {bar["bar"]: (bar["address"], bar["size"])
                            for bar in device["regions"]}
        raise RuntimeError("there is no card in query-pci")

    def devices(self, bus):
        for device in bus["devices"]:
            yield device
            below = device.get("pci_bridge", {})
            if "devices" in below:
                yield from self.devices(below)


class Limit:
    """
    Ends a hang. Counts the processor time of QEMU, so that a busy host does not make the
    limit shorter. An idle guest uses none, so a longer limit counts the time of the host.
    """

    def __init__(self, monitor: Monitor, seconds: float) -> None:
        self.monitor = monitor
        self.processor = monitor.processor_seconds() + seconds
        self.end = time.monotonic() + seconds * SLOW

    def over(self) -> bool:
        return (time.monotonic() > self.end or
                self.monitor.processor_seconds() > self.processor)


class Done(NamedTuple):
    """What a step of lab-agent returns"""
    error: str
    result: object
    seconds: float


def quote(report: list[str]) -> list[str]:
    """Of a report of the kernel: the first words, the RIP line, the first frames in the module"""
    end = next((i for i, line in enumerate(report) if "---[ end" in line), 60)
    head, *rest = [line.strip() for line in report[:end] if line.strip()]
    place = next((i for i, line in enumerate(rest) if line.startswith(("RIP: ", "Call Trace:"))),
                 len(rest))
    words = [line for line in rest[:place] if not NOISE.search(line)][:3]
    rip = [line for line in rest[place:place + 1] if line.startswith("RIP: ")]
    frames = [line for line in rest[place + 1:] if "[lab]" in line and not line.startswith("? ")]
    return [head, *words, *rip, *frames[:3]]


class Machine:
    """A running VM with one card. share: a host directory, /lab in the guest."""

    def __init__(self, share: pathlib.Path, properties: dict[str, object]) -> None:
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="openreg-lab."))
        self.log_at = self.trace_at = 0
        self.complaints: list[str] = []  # of the card, in the trace since the last insmod
        options = [f"--device-prop={name}={value}" for name, value in properties.items()]
        command = [str(TOP / "scripts/vm"), "--no-driver", "--mem", "768M", "--timeout", "9000",
                   "--kernel-option", "iomem=relaxed",
                   "--kernel-option", "rcupdate.rcu_cpu_stall_suppress=1",
                   "--control", str(self.dir), "--share", f"{share}:/lab"]
        for option in options:
            command += option.split("=", 1)
        command += ["--", "scripts/guest/lab-agent"]
        self.output = open(self.dir / "output", "wb")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.output,
                                        stderr=subprocess.STDOUT, start_new_session=True)
        self.answers: dict[str, tuple[int, str]] = {}
        self.news = threading.Condition()
        self.next_id = 0
        self.dying = False
        self.counts = False  # traces memory for DMA
        self.debugged = False  # a debugger is attached, and decides when the guest runs
        try:
            self.connect()
        except Exception:
            self.close()
            raise

    def connect(self) -> None:
        end = time.monotonic() + BOOT_SECONDS
        path = self.dir / "control"
        while not path.exists():
            self.must_run(end, "QEMU does not start")
        self.control = socket.socket(socket.AF_UNIX)
        self.control.connect(str(path))
        self.monitor = Monitor(self.dir / "qmp")
        self.ready = False
        threading.Thread(target=self.listen, daemon=True).start()
        while not self.ready:
            self.must_run(end, "the guest does not start")
        self.bars = self.monitor.bars()
        self.pci = next(name for name in self.do(["list", "/sys/bus/pci/devices"])
                        if self.read(f"/sys/bus/pci/devices/{name}/device") == "0x10f5\n")
        # The address of the variable, which has the address of all memory.
        self.direct_map = int(self.run("grep -w page_offset_base /proc/kallsyms")[1].split()[0], 16)

    def must_run(self, end: float, what: str) -> None:
        if self.process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"{what}:\n{(self.dir / 'output').read_text(errors='replace')}")
        time.sleep(0.1)

    def listen(self) -> None:
        try:
            with self.control.makefile("r", encoding="utf-8") as lines:
                for line in lines:
                    self.take(line.split())
        except OSError:
            pass  # QEMU has ended

    def take(self, words: list[str]) -> None:
        with self.news:
            if words == ["ready"]:
                self.ready = True
            elif len(words) == 3:
                text = base64.b64decode(words[2]).decode(errors="replace")
                self.answers[words[0]] = int(words[1]), text
            self.news.notify_all()

    def wait(self, good, seconds: float = 10) -> bool:
        """Waits until good() is true. False: it was not in time, or the VM has ended."""
        limit = Limit(self.monitor, seconds)
        while not good():
            if self.process.poll() is not None or limit.over():
                return False
            self.rest()
        return True

    def rest(self) -> None:
        """Lets the guest run a little. Ends the wait if the kernel complains."""
        if not self.dying and REPORTS.search(self.log()[self.log_at:]):
            raise Broken(self.why())
        with self.news:
            self.news.wait(0.1)
        if not self.debugged:
            self.monitor.resume()

    def ended(self, name: str) -> bool:
        return name in self.answers

    def start(self, command: str | list, seconds: float = 10, kind: str = "shell") -> str:
        """Starts a command of lab-agent's kinds in the guest; finish() waits for it."""
        try:
            return self.send(command, seconds, kind)
        except OSError as error:
            raise Broken(self.why()) from error

    def send(self, command: str | list, seconds: float, kind: str = "shell") -> str:
        self.next_id += 1
        name = str(self.next_id)
        text = command if kind == "shell" else json.dumps(command)
        text = base64.b64encode(text.encode()).decode()
        self.control.sendall(f"{name} {seconds * SLOW:g} {kind} {text}\n".encode())
        return name

    def finish(self, name: str, seconds: float = 10) -> tuple[int, str]:
        """The command's exit status and output. Status 124: it took too long."""
        if self.wait(lambda: self.ended(name), seconds):
            return self.answers.pop(name)
        if self.process.poll() is None:
            self.start(f"kill -- -$(cat /tmp/job.{name})")
            if self.wait(lambda: self.ended(name), PATIENCE):
                return 124, self.answers.pop(name)[1]
        raise Broken(self.why())

    def run(self, command: str, seconds: float = 10) -> tuple[int, str]:
        return self.finish(self.start(command, seconds), seconds)

    def program(self, path: str, *arguments: str, until: str = "",
                seconds: float = 10) -> tuple[int, str]:
        """Runs a program in Python of the checkout, until it prints a word, if there is one."""
        what = ["/openreg/" + path, arguments, until]
        return self.finish(self.start(what, seconds, "python"), seconds)

    def begin(self, *steps: list, seconds: float = 10) -> str:
        """Starts steps that the driver can keep from ending; end() waits for them."""
        return self.start(list(steps), seconds, "child")

    def end(self, name: str, seconds: float = 10) -> list[Done]:
        status, text = self.finish(name, seconds)
        if status:
            return [Done(NO_RETURN if status == 124 else text.strip(), None, seconds)]
        return [Done(*done) for done in json.loads(text)]

    def attempt(self, *steps: list, seconds: float = 10) -> Done:
        """Does steps that the driver can keep from ending. Returns the last, or that which failed."""
        return self.end(self.begin(*steps, seconds=seconds), seconds)[-1]

    def do(self, *steps: list, seconds: float = 10):
        """Does steps that need no process of their own. Returns the result of the last."""
        last = self.end(self.start(list(steps), seconds, "steps"), seconds)[-1]
        if last.error:
            raise RuntimeError(f"{steps}: {last.error}")
        return last.result

    def read(self, path: str) -> str:
        """A file of the guest, "" if it is not there"""
        done, = self.end(self.start([["read", path]], kind="steps"))
        return done.result or ""

    def names(self, path: str) -> list[str]:
        """What is in a directory of the guest, nothing if it is not there"""
        done, = self.end(self.start([["list", path]], kind="steps"))
        return done.result or []

    def why(self) -> str:
        """Why the guest does not answer, in the kernel's words."""
        self.dying = True
        self.wait(lambda: False, 1)  # QEMU ends soon after a panic
        words = self.reports()
        if words:
            return "the kernel stopped: " + words
        if self.process.poll() is not None:
            return "the VM ended; the kernel's last words: " + self.last_words()
        where = self.where()
        if where:
            return "the driver hangs; the kernel says where: " + where
        return "the VM hangs; the kernel's last words: " + self.last_words()

    def where(self) -> str:
        """The functions of the module that are on a stack or on a processor"""
        command = ("grep -h '\\[lab\\]' /proc/[0-9]*/stack; echo 8 > /proc/sys/kernel/printk; "
                   "echo l > /proc/sysrq-trigger; for i in {1..20}; do sleep 0.2; "
                   "dmesg | grep '\\[lab\\]' | tail -n 5 | grep . && break; done")
        try:
            name = self.send(command, 5)
        except OSError:
            return ""
        self.wait(lambda: self.ended(name), PATIENCE)
        lines = self.answers.pop(name, (0, ""))[1].splitlines()
        return " | ".join(sorted({re.sub(r"^.*?(\w+\+0x)", r"\1", line) for line in lines}))

    def log(self) -> str:
        return (self.dir / "console").read_bytes().decode(errors="replace").replace("\r", "")

    def last_words(self) -> str:
        return " | ".join(line for line in self.log().splitlines()[-5:] if line.strip())

    def reports(self) -> str:
        """The first report of the kernel since the last call: its words, RIP, the module's frames."""
        text = self.log()
        new, self.log_at = text[self.log_at:], len(text)
        lines = [re.sub(r"^\[ *[0-9.]+\] ", "", line) for line in new.splitlines()]
        for i, line in enumerate(lines):
            if REPORTS.search(line) and "cut here" not in line:
                return " | ".join(quote(lines[i:]))
        return ""

    def trace(self) -> list[str]:
        """The card's trace since the last call: lines such as "openreg_reset "."""
        path = self.dir / "trace"
        if not path.exists():
            return []
        with open(path, "rb") as file:
            file.seek(self.trace_at)
            new = file.read()
            new = new[:new.rfind(b"\n") + 1]
            self.trace_at += len(new)
        lines = new.decode(errors="replace").splitlines()
        self.complaints += [line.partition(": ")[2] for line in lines
                            if line.startswith("openreg: ")]
        return lines

    def complaint(self) -> str:
        """What the card's trace says of an error of the driver, or "" """
        self.trace()
        return f"; the card's trace: {self.complaints[0]}" if self.complaints else ""

    def register(self, offset: int, size: int = 4) -> int:
        """A register, read from outside. Call trace() first: this drops what is in it."""
        value = self.monitor.read(self.bars[0][0] + offset, 1, size)[0]
        self.trace()
        return value

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(10 * SLOW)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        self.output.close()
        shutil.rmtree(self.dir, ignore_errors=True)
