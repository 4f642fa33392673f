# SPDX-License-Identifier: MIT
"""
Runs in the root: imports torch once, then runs each request in a child of its own. A request
is a line of JSON: client, part, directory, seed, seconds, env, cards (a library of the card, or
""). The answer is a line: the report of the client, what the child printed, and why it ended if
it did not end well. The report is a file of its own, so that printing its words gets no points.
The student's code runs in the client's process and with its rights: a program that means to cheat
can write the report.
"""
import ctypes
import faulthandler
import importlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "given"))
import torch  # noqa: E402, F401  for the children; the backend opens a card at its first use
CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)


def child(request: dict, report: int, output: int) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # else the child reads the next request
    os.dup2(output, 1)
    os.dup2(output, 2)
    faulthandler.enable()  # prints the stack of a crash
    os.environ.update(request["env"])
    sys.dont_write_bytecode = True
    sys.path.insert(0, request["directory"])
    if request["card"]:
        # libopenreg then finds this library under its name, and not the stock one.
        ctypes.CDLL(request["card"])
    importlib.import_module("client").report = report
    client = importlib.import_module(request["client"])
    client.main(request["part"], request["directory"], request["seed"])


def wait(pid: int, seconds: float) -> str:
    end = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            break
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return "it does not end"
        time.sleep(0.02)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in CRASHES:
        return "it crashes: " + signal.Signals(os.WTERMSIG(status)).name
    return ""


def place(text: str, directory: str) -> str:
    """Where a crash left the student's file, by the stack that faulthandler has printed, or "" """
    for library, offset in re.findall(r'Binary file "([^"]+)", at \+(0x[0-9a-f]+)', text):
        if not library.startswith(directory + "/"):
            continue
        # The stack has the address after each call. -i adds the callers of inlined functions.
        found = subprocess.run(
            ["addr2line", "-f", "-C", "-i", "-e", library, hex(int(offset, 16) - 1)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
        mine = re.search(r"(.*)\n.*/(lab\d+\.(?:c|cpp):\d+)", found.stdout)
        if mine:
            name = mine[1].replace("(anonymous namespace)::", "")
            return f" in {name}, {mine[2]}"
    return ""


def run(request: dict) -> dict:
    with tempfile.TemporaryFile() as report, tempfile.TemporaryFile() as output:
        pid = os.fork()
        if not pid:
            status = 1
            try:
                child(request, report.fileno(), output.fileno())
                status = 0
            except BaseException as error:  # pylint: disable=broad-except
                os.write(2, f"{type(error).__name__}: {error}\n".encode())
            finally:
                sys.stdout.flush()
                os._exit(status)
        why = wait(pid, request["seconds"])
        texts = {"why": why}
        for name, file in (("report", report), ("output", output)):
            file.seek(0)
            texts[name] = file.read().decode(errors="replace")
        if why.startswith("it crashes"):
            texts["why"] += place(texts["output"], request["directory"])
        return texts


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)


main()
