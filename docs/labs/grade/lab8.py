# SPDX-License-Identifier: MIT
"""Lab 8: a packet on the card's side. Programs in the root run packets on the student's card."""
import json
import os
import signal
import subprocess

from machine import TOP

TITLE = "a packet of your own, up to a torch operator"
CHECKS = [
    ("rows", 2, "rows of random sizes and shifts, with dense rows"),
    ("layouts", 1, "any strides, also negative ones and columns; large packets; empty ones"),
    ("dtypes", 1, "every dtype, bit for bit"),
    ("bounds", 2, "an operand that leaves its memory faults with BOUNDS, and nothing is written"),
    ("refuses", 2, "each wrong field has the fault of the page"),
    ("operator", 1, "torch.ops.lab8.roll(x, shift) is torch.roll(x, shift, -1)"),
    ("by the card", 1, "the operator raises an error on a card that has no ROLL"),
]
NATIVE = True  # needs no VM
CLIENT = "docs/labs/grade/lab8_client.py"
SECONDS = 600


def client(bench, part: str, seed: int, own: bool = True) -> tuple[str, str]:
    """The program's output, and why it ended if it crashed"""
    path = "/mnt/labs/" + bench.name
    libraries = [path] if own else []
    libraries += [os.environ[f"LAB8_{name}"] + "/lib" for name in ("SIM", "LIB")]
    command = [str(TOP / "scripts/in-root"), "--share", f"{bench.top}:/mnt/labs", "env",
               "OPENREG_TRANSPORT=sim", "OPENREG_SIM_CARDS=1", "OPENREG_SIM_WORKERS=2",
               "LD_LIBRARY_PATH=" + ":".join(libraries),
               "timeout", str(SECONDS), "python3", "-B", CLIENT, part, path, str(seed)]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True)
    number = done.returncode - 128 if done.returncode > 128 else -done.returncode
    if number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL):
        return done.stdout, "the card crashes the process: " + signal.Signals(number).name
    if done.returncode == 124:
        return done.stdout, "the program does not end"
    return done.stdout + done.stderr[-300:], ""


def run(bench, tally, rng) -> None:
    seed = rng.randrange(1 << 30)
    for part, own in (("engine", True), ("operator", True), ("stock", False)):
        text, crash = client(bench, part, seed, own)
        for line in text.splitlines():
            try:
                name, good, seen = json.loads(line)
            except ValueError:
                continue
            tally.set(name, good, seen)
        if crash:
            return tally.spoil(crash)
        if part == "engine" and not tally.checks["rows"].good:
            tally.checks["rows"].seen = tally.checks["rows"].seen or text[-200:]
            return tally.end("the card does not run a ROLL, so nothing else can be graded")
        if part == "operator" and not tally.checks["operator"].good:
            return
