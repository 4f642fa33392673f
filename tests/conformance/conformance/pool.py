# SPDX-License-Identifier: MIT
"""Runs entries in worker processes, and turns a crash or a hang of a worker into the
entry's result."""

import json
import os
import pathlib
import queue
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time

from .status import gravest

START_SECONDS = 900  # importing torch and its lists: minutes on a debug kernel
RUN = pathlib.Path(__file__).resolve().parent.parent / "run.py"


class Died(Exception):
    """The worker exited; the text says how."""


class Late(Exception):
    """The worker did not answer in time."""


class Process:
    def __init__(self, options: dict, program: pathlib.Path = RUN) -> None:
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, str(program), "--worker", json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        self._rest = b""
        try:
            self.hello = self.answer(time.monotonic() + START_SECONDS)
        except (Died, Late):
            self.stop()
            raise

    def ask(self, **order) -> None:
        try:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Died(self._exit_text()) from None

    def answer(self, deadline: float) -> dict:
        while b"\n" not in self._rest:
            left = deadline - time.monotonic()
            if left <= 0 or not self._selector.select(left):
                raise Late
            piece = os.read(self._process.stdout.fileno(), 1 << 16)
            if not piece:
                raise Died(self._exit_text())
            self._rest += piece
        line, self._rest = self._rest.split(b"\n", 1)
        return json.loads(line)

    def _exit_text(self) -> str:
        code = self._process.wait()
        how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        self._log.seek(0)
        log = self._log.read().decode(errors="replace")
        return f"{how}: {' '.join(log[-1500:].split())}".strip(": ")

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._selector.close()
        for pipe in (self._process.stdin, self._process.stdout, self._log):
            try:
                pipe.close()
            except BrokenPipeError:
                pass


class Runner(threading.Thread):
    """Takes entries from a shared queue, and runs them in one worker after another."""

    def __init__(self, options: dict, keys: queue.Queue, results: queue.Queue) -> None:
        super().__init__(daemon=True)
        self.options, self.keys, self.results = options, keys, results
        self.process: Process | None = None
        self.leaving = threading.Event()

    def run(self) -> None:
        try:
            while not self.leaving.is_set():
                key = self.keys.get_nowait()
                self.results.put(self._entry(key))
        except queue.Empty:
            pass
        except Exception as error:  # noqa: BLE001
            self.results.put(error)
        finally:
            self._end()
            self.results.put(None)

    def _end(self) -> None:
        if self.process:
            self.process.stop()
        self.process = None

    def _entry(self, key: str) -> dict:
        began = time.monotonic()
        checks: dict = {}
        # Each round but the last adds at least one check with a result.
        while not self._round(key, checks):
            pass
        return record_of(key, checks, time.monotonic() - began)

    def _round(self, key: str, checks: dict) -> bool:
        if self.process is None:
            self.process = Process(self.options)
        at = {"begin": "", "side": "device"}
        deadline = time.monotonic() + self.options["timeout"]
        try:
            self.process.ask(key=key, done=list(checks))
            while True:
                message = self.process.answer(deadline)
                if "begin" in message:
                    at = message
                elif "check" in message:
                    checks[message["check"]] = message["result"]
                elif "end" in message:
                    if message["healthy"]:
                        return True
                    self._end()
                    return False
        except Late:
            text = f"no end after {self.options['timeout']:g} s"
            checks[at["begin"] or "start"] = _failed_check("hang", at, text)
        except Died as error:
            checks[at["begin"] or "start"] = _failed_check("crash", at, str(error))
        self._end()
        # A failure on the CPU skips this check only; one on the device ends the entry.
        return at["side"] == "device"


def _failed_check(status: str, at: dict, text: str) -> dict:
    if at["side"] == "cpu":
        status, text = "untested", f"on the CPU, {status}: {text}"
    return {"status": status, "cases": 0, "error": text}


def record_of(key: str, checks: dict, seconds: float) -> dict:
    # The check of bad arguments does not count for the entry's status.
    counted = {n: c for n, c in checks.items() if n != "errors"}
    status = gravest(c["status"] for c in counted.values())
    worst = [n for n, c in counted.items() if c["status"] == status]
    error = counted[worst[0]].get("error", "") if worst else ""
    return {
        "key": key,
        "status": status,
        "error": f"{worst[0]}: {error}" if error else "",
        "checks": checks,
        "seconds": round(seconds, 2),
    }


def run(first: Process, options: dict, keys: list, jobs: int, finished) -> None:
    """Calls finished(record) for each key, in this thread. Also stops the first worker."""
    waiting: queue.Queue = queue.Queue()
    for key in keys:
        waiting.put(key)
    results: queue.Queue = queue.Queue()
    count = max(1, min(jobs, len(keys)))
    runners = [Runner(options, waiting, results) for _ in range(count)]
    runners[0].process = first
    for runner in runners:
        runner.start()
    left = len(runners)
    try:
        while left:
            result = results.get()
            if result is None:
                left -= 1
            elif isinstance(result, Exception):
                raise result
            else:
                finished(result)
    finally:
        for runner in runners:
            runner.leaving.set()
            if runner.process:
                runner.process.stop()
