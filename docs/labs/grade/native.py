# SPDX-License-Identifier: MIT
"""The labs with a card inside the process: their programs run in the root, see host.py."""
import contextlib
import json
import os
import subprocess
import threading

from machine import TOP
from tally import tail

SECONDS = 150  # only ends a hang


class Host:
    """A process in the root that has imported torch"""

    def __init__(self, top) -> None:
        libraries = ":".join(os.environ[f"LAB_{name}"] + "/lib" for name in ("SIM", "LIB"))
        self.lock = threading.Lock()
        self.process = subprocess.Popen(
            [str(TOP / "scripts/in-root"), "--share", f"{top}:/mnt/labs", "env",
             "OPENREG_TRANSPORT=sim", "OPENREG_SIM_WORKERS=2", "OMP_WAIT_POLICY=PASSIVE",
             f"LD_LIBRARY_PATH={libraries}", f"PYTHONPATH={os.environ['LAB_PLUGIN']}",
             "LAB_HOLD=" + os.environ["LAB_OUT"] + "/hold.so",
             "python3", "-B", "docs/labs/grade/host.py"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, client: str, part: str, directory: str, seed: int, card: str = "",
            **env: str) -> tuple[str, str, str]:
        """The report and the output of a part of a client, and why it ended if it crashed"""
        request = {"client": client, "part": part, "directory": directory, "seed": seed,
                   "card": card, "seconds": SECONDS, "env": {"OPENREG_SIM_CARDS": "2", **env}}
        with self.lock:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            answer = json.loads(self.process.stdout.readline() or "null")
        if answer is None:
            raise RuntimeError("Python in the root gives no answer")
        return answer["report"], answer["output"], answer["why"]

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()


def take(tally, report: str) -> None:
    """Sets the checks of which the report has a line."""
    for line in report.splitlines():
        tally.set(*json.loads(line))


def grade(bench, tally, client: str, seed: int, parts: dict[str, dict[str, str]]) -> None:
    """
    Runs the parts, each with its environment. A crash takes all points; the first check tells
    whether to go on.
    """
    first = next(iter(tally.checks))
    for part, env in parts.items():
        report, text, why = bench.host.run(client, part, f"/mnt/labs/{bench.name}", seed, **env)
        take(tally, report)
        if why:
            return tally.spoil(why)
        if not tally.checks[first].good:
            tally.checks[first].seen = tally.checks[first].seen or tail(text, 300)
            return tally.end("nothing else can be graded without the first check")
