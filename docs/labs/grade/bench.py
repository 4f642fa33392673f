# SPDX-License-Identifier: MIT
"""Submissions: how they are built, and the bench on which one is graded after another."""
import importlib
import os
import pathlib
import random
import re
import shutil
import subprocess

from machine import TOP, Broken, Done, Machine, Silent
from native import Host
from regs import C, STATUS_FATAL
from tally import Tally

LABS = range(13)
ALONE = {0: ["lab0.c"], 8: ["lab8.c", "lab8.cpp"], 10: ["lab10.cpp"], 11: ["lab11.cpp"],
         12: ["lab12.py"]}
# What native labs are built with and run with, in the root; scripts/lib/vm.sh sets them.
PATHS = [f"LAB_{name}" for name in ("CARD", "SIM", "LIB", "PLUGIN", "OUT")]
TRACING = "/sys/kernel/tracing/"
DEVICE_FILES = ("lab", "lab7", "lab9")
GIVEN = TOP / "docs/labs/given"
# Default values of the card's properties that the checks change.
CALM = {"x-inject-gone": 0, "x-inject-reg": 0, "x-inject-reg-value": 0, "x-inject-admin": 0,
        "x-inject-status": 0, "x-inject-opcode": 0, "x-inject-irq": 0, "x-inject-stall": 0,
        "x-inject-state": 0, "x-inject-fault": 0, "x-inject-completed": 0, "x-inject-head": 0}


def own_files(lab: int) -> list[str]:
    """The files that a student writes in this lab"""
    return ALONE.get(lab) or [f"lab{lab}.c", *(["copy.c"] if lab == 5 else [])]


def files_of(lab: int) -> list[str]:
    """The files of a student that the lab needs. Those of the driver's labs make one module."""
    if lab in ALONE:
        return own_files(lab)
    return [file for i in range(1, lab + 1) if i not in ALONE for file in own_files(i)]


def prepare(top: pathlib.Path, name: str, lab: int, files: dict[str, str]) -> None:
    """Makes the directory of a submission; files: name and text of each of its files."""
    to = top / name
    to.mkdir()
    (to / "lab").write_text(str(lab))
    for file in [*GIVEN.glob("*.*"), GIVEN / "Kbuild", *(TOP / "uapi").glob("*.h")]:
        shutil.copy(file, to)
    for file, text in files.items():
        (to / file).write_text(text, encoding="utf-8")


def build(top: pathlib.Path, names: list[str], seconds: int = 200) -> None:
    """
    Builds submissions. One that does not compile has no result; grade() says so. seconds: of
    processor time, for each call of the compiler.
    """
    command = [str(TOP / "scripts/in-root"), "--share", f"{top}:/mnt/labs", "env",
               *(f"{name}={os.environ.get(name, '')}" for name in PATHS),
               f"LAB_SECONDS={seconds}",
               "docs/labs/given/build", *(f"/mnt/labs/{name}" for name in names)]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode not in (0, 1):  # 1: one does not compile
        raise RuntimeError(f"the modules cannot be built: {done.stdout}")


def complaint(log: str) -> str:
    """The compiler's first errors"""
    lines = [line for line in log.splitlines()
             if "error:" in line or "undefined!" in line]
    return " | ".join(lines[:3]) or " | ".join(log.splitlines()[-3:])


def properties(seed: int) -> dict[str, object]:
    """The card of a seed"""
    rng = random.Random(seed)
    return {"vram-size": rng.choice(["32M", "64M", "128M", "256M"]),
            "vectors": rng.randrange(3, 28), "doorbells": rng.randrange(8, 200),
            "workers": rng.randrange(1, 4), "spin-us": rng.randrange(20000, 100000),
            "ioeventfd": "off",  # so that a doorbell is in the trace at once
            "x-inject": "on"}


def built(path: pathlib.Path, lab: int) -> bool:
    module = ["lab.ko", "copy"] if lab >= 5 else ["lab.ko"]
    wanted = {0: ["lab0"], 8: ["libopenreg-sim.so.1", "lab8.so"], 10: ["lab10.so"],
              11: ["lab11.so"], 12: []}.get(lab, module)
    return all((path / name).exists() for name in wanted)


class Bench:
    """Grades one submission after another. Starts the VM again if a submission breaks it."""

    def __init__(self, top: pathlib.Path, seed: int) -> None:
        self.top, self.seed = top, seed
        self.machine: Machine | None = None
        self.python: Host | None = None
        self.name = ""

    def close_machine(self) -> None:
        if self.machine:
            self.machine.close()
        self.machine = None

    def close(self) -> None:
        self.close_machine()
        self.close_python()

    def close_python(self) -> None:
        if self.python:
            self.python.close()
        self.python = None

    @property
    def host(self) -> Host:
        """For the labs without a VM"""
        if not self.python:
            self.python = Host(self.top)
        return self.python

    # What the checks use.

    @property
    def sleep_seconds(self) -> int:
        """LAB_SLEEP_SECONDS of the submission"""
        text = (self.top / self.name / "lab.h").read_text(encoding="utf-8")
        return int(re.search(r"^#define LAB_SLEEP_SECONDS (\d+)$", text, re.M)[1])

    def insmod(self, seconds: int = 8) -> Done:
        self.machine.complaints.clear()
        return self.machine.attempt(["insmod", f"/lab/{self.name}/lab.ko"], seconds=seconds)

    def why_unbound(self, error: str) -> str:
        """Why the driver has not bound to the card, for the student. error: that of insmod"""
        machine = self.machine
        if error:
            return f"insmod: {error}{machine.complaint()}"
        if "lab" not in machine.do(["list", "/sys/bus/pci/drivers"]):
            return ("the module registers no driver: write a pci_driver with the name \"lab\", and "
                    "module_pci_driver()")
        words = " | ".join(re.findall(r"\blab \S+: (?!enabling)(.*)", machine.do(["dmesg"]))[-2:])
        why = (f"probe returns an error; the kernel's log: {words}" if words else
               "its table lacks the card's ids, or probe returns -ENODEV or -ENXIO, for which the "
               "kernel prints nothing")
        return f"the driver is registered and not bound: {why}{machine.complaint()}"

    def fatal(self) -> str:
        """That the card is FATAL, and so completes no command, or "" """
        if self.machine.register(C["REG_STATUS"]) != STATUS_FATAL:
            return ""
        return f"; STATUS is FATAL{self.machine.complaint()}"

    def device_files(self) -> list[str]:
        """The device files of the driver"""
        return sorted(set(self.machine.do(["list", "/dev"])) & set(DEVICE_FILES))

    def watch_removal(self) -> None:
        """
        The trace of count_dma() gets each call and return of lab_admin() and lab_reset(), and the
        removal of a device file.
        """
        self.machine.do(
            ["write", TRACING + "kprobe_events",
             "p:labs/begin lab:lab_admin opcode=+0(%si):u16 id=+8(%si):u32\n"
             "r:labs/end lab:lab_admin\nr:labs/reset lab:lab_reset\n"
             "r:labs/gone device_destroy\n"],
            ["write", TRACING + "events/labs/enable", "1"],
            ["write", TRACING + "trace_marker", "removal"])

    def removal(self) -> tuple[list[tuple[str, int, int]], int]:
        """
        What the trace has since watch_removal(): (begin, end, reset, gone or dma_free, opcode, id),
        and the number of dma_left(). The kernel empties the trace together with kprobe_events.
        """
        text, left = self.machine.read(TRACING + "trace"), self.dma_left()
        self.machine.do(["write", TRACING + "events/labs/enable", "0"],
                        ["write", TRACING + "kprobe_events", ""])
        return [(what, int(opcode or 0), int(number or 0)) for what, opcode, number in re.findall(
            r" (begin|end|reset|gone|dma_free): (?:.* opcode=(\d+) id=(\d+))?",
            text.partition(": removal\n")[2])], left

    def open_late(self, removal: list[tuple[str, int, int]], name: str) -> str:
        """Why a process could still open the device file when its context went away, or "" """
        if name in self.device_files():
            return f"/dev/{name} is still there"
        for what, opcode, _ in removal:
            if what == "gone":
                return ""
            if what in ("reset", "dma_free") or opcode in (C["ADMIN_CTX_DESTROY"],
                                                           C["ADMIN_SEG_UNBIND"]):
                return (f"/dev/{name} is removed only after the first CTX_DESTROY, SEG_UNBIND, "
                        "reset or release of memory")
        return ""

    def rmmod(self, seconds: int = 12) -> None:
        error = self.machine.attempt(["rmmod", "lab"], seconds=seconds).error
        if error:
            raise Broken("the module does not unload: " + (self.machine.reports() or error))

    def sysfs(self, name: str) -> str:
        """The path of a file of the card"""
        return f"/sys/bus/pci/devices/{self.machine.pci}/{name}"

    def bound(self) -> bool:
        done, = self.machine.end(self.machine.start([["link", self.sysfs("driver")]],
                                                    kind="steps"))
        return (done.result or "").endswith("/lab")

    def master(self) -> bool:
        return bool(self.machine.do(["word", self.sysfs("config"), 4, 2]) & 4)

    def poke(self, offset: int, value: int, bar: int = 0) -> None:
        """Writes to the card, as a driver before this one might have."""
        self.machine.do(["poke", self.machine.bars[bar][0] + offset, value])

    def count_dma(self) -> None:
        """Begins to trace the memory for DMA that the card's driver allocates and frees."""
        at, steps = TRACING, []
        if not self.machine.counts:
            for event in ("dma_alloc", "dma_free"):
                steps += [["write", f"{at}events/dma/{event}/filter",
                           f'device == "{self.machine.pci}"'],
                          ["write", f"{at}events/dma/{event}/enable", "1"]]
        self.machine.counts = True
        self.machine.do(["write", at + "trace", ""], *steps)

    def dma_left(self) -> int:
        """How many allocations for DMA have not been freed since count_dma()"""
        taken, freed = self.machine.do(["count", TRACING + "trace", " dma_alloc:",
                                        " dma_free:"])
        return taken - freed

    def calm(self) -> None:
        for name, value in CALM.items():
            self.machine.monitor.set(name, value)

    # Grading.

    def clean(self) -> None:
        """Makes the machine as it was, for the next submission."""
        self.calm()
        self.rmmod()
        self.machine.do(["write", self.sysfs("reset"), "1"])
        self.machine.trace()

    def grade(self, name: str, lab: int) -> Tally:
        module = importlib.import_module(f"lab{lab}")
        tally = Tally(lab, module.TITLE, module.CHECKS)
        self.name = name
        if not built(self.top / name, lab):
            tally.end("it does not compile: " +
                      complaint((self.top / name / "build.log").read_text(errors="replace")))
            return tally
        if getattr(module, "NATIVE", False):
            try:
                module.run(self, tally, random.Random(f"{self.seed} {lab}"))
            except (OSError, RuntimeError, ValueError) as error:
                tally.spoil(f"the process that grades it has ended ({error})")
                self.close_python()
            return tally
        if not self.machine:
            self.machine = Machine(self.top, properties(self.seed))
        try:
            self.machine.trace()
            module.run(self, tally, random.Random(f"{self.seed} {lab}"))
            self.clean()
            words = self.machine.reports()
            if words:
                tally.spoil("the kernel complained: " + words)
            if self.device_files():  # the kernel's list of them has pointers into the module
                self.close_machine()
        except Silent as silent:
            why = self.machine.why()
            tally.spoil(why if why.startswith("the kernel") else f"{why} ({silent})")
            self.close_machine()
        except Broken as broken:
            tally.spoil(str(broken))
            self.close_machine()
        except (ArithmeticError, LookupError, OSError, RuntimeError, ValueError) as error:
            # A guest that the driver has broken gives odd answers.
            tally.spoil(f"{self.machine.why()} ({error})")
            self.close_machine()
        return tally
