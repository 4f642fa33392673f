# SPDX-License-Identifier: MIT
"""Worker processes, one entry at a time each, and what it means when one of them dies
or does not answer."""

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
    """The worker is gone; text says how."""


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
            raise Died(self._epitaph()) from None

    def answer(self, deadline: float) -> dict:
        while b"\n" not in self._rest:
            left = deadline - time.monotonic()
            if left <= 0 or not self._selector.select(left):
                raise Late
            piece = os.read(self._process.stdout.fileno(), 1 << 16)
            if not piece:
                raise Died(self._epitaph())
            self._rest += piece
        line, self._rest = self._rest.split(b"\n", 1)
        return json.loads(line)

    def _epitaph(self) -> str:
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


class Seat(threading.Thread):
    """Where one worker after the other does the entries of a common list."""

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
        # Each round but the last one adds a check that has a result.
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
                said = self.process.answer(deadline)
                if "begin" in said:
                    at = said
                elif "check" in said:
                    checks[said["check"]] = said["result"]
                elif "end" in said:
                    if said["healthy"]:
                        return True
                    self._end()
                    return False
        except Late:
            text = f"no end after {self.options['timeout']:g} s"
            checks[at["begin"] or "start"] = _fallen("hang", at, text)
        except Died as error:
            checks[at["begin"] or "start"] = _fallen("crash", at, str(error))
        self._end()
        # The CPU's fault costs a check; the device's is the entry's result.
        return at["side"] == "device"


def _fallen(status: str, at: dict, text: str) -> dict:
    if at["side"] == "cpu":
        status, text = "untested", f"on the CPU, {status}: {text}"
    return {"status": status, "cases": 0, "error": text}


def record_of(key: str, checks: dict, seconds: float) -> dict:
    # Bad arguments say nothing of whether good ones work.
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
    """Calls finished(record) for each key, in this thread. Ends the first worker too."""
    waiting: queue.Queue = queue.Queue()
    for key in keys:
        waiting.put(key)
    results: queue.Queue = queue.Queue()
    count = max(1, min(jobs, len(keys)))
    seats = [Seat(options, waiting, results) for _ in range(count)]
    seats[0].process = first
    for seat in seats:
        seat.start()
    left = len(seats)
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
        for seat in seats:
            seat.leaving.set()
            if seat.process:
                seat.process.stop()
