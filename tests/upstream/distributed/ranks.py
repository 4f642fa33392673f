# SPDX-License-Identifier: MIT
"""Runs the tests of one adapted module, and writes a JSON line for each.

Standard input has a JSON object: "work" (the folder of the modules), "module", "done"
(tests to skip), "only" (a regular expression), "limit" (seconds a test) and "out" (the file
to append to). A test that exceeds the limit by far ends the process, like a crash.
"""

import ctypes
import faulthandler
import importlib
import json
import multiprocessing
import os
import pathlib
import re
import signal
import sys
import tempfile
import time
import traceback
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import worker  # noqa: E402
from worker import ERROR, Result  # noqa: E402

GRACE = 60  # seconds, for torch's own end of a test that is late


class Rank(multiprocessing.context.ForkServerProcess):
    """Has the environment of now. The fork server has that of its start."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.environment = dict(os.environ)

    def run(self):
        os.environ.update(self.environment)
        super().run()


def case_name(test) -> str:
    """CLASS.METHOD. device_type of these classes may be a function."""
    return f"{type(test).__name__}.{test._testMethodName}"


worker.case_name = case_name


def describe(err) -> str:
    """The end of the text says what is wrong: the ranks' tracebacks are in it."""
    kind, value, _ = err
    text = str(value)
    if isinstance(value, AssertionError):
        text = "".join(traceback.format_exception(*err)[-4:])
    return f"{kind.__name__}: {text[-ERROR:]}"


class Ranks(Result):
    def startTest(self, test):
        self.status, self.error = "passed", ""
        self.began = time.monotonic()
        self.emit(start=case_name(test))
        faulthandler.dump_traceback_later(self.request["limit"] + GRACE, exit=True)

    def stopTest(self, test):
        # Some classes keep the ranks for all their tests.
        kept = getattr(type(test), "processes", None) or []
        for rank in multiprocessing.active_children():
            if rank not in kept:
                rank.kill()
        faulthandler.cancel_dump_traceback_later()
        seconds = round(time.monotonic() - self.began, 2)
        status = self.status
        if status == "failed" and "terminated or timed out" in self.error:
            status = "hang"
        self.emit(case=case_name(test), status=status, seconds=seconds, error=self.error)
        if status != "passed" and getattr(type(test), "poison_pill", False):
            os._exit(1)  # the class would fail all other tests: run them in a new process

    def addError(self, test, err):
        if isinstance(test, unittest.TestCase):
            self.fail(describe(err))
        else:
            super().addError(test, err)

    def addFailure(self, test, err):
        self.fail(describe(err))


def main():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: ends with run.py
    request = json.load(sys.stdin)
    sys.path.insert(0, request["work"])
    multiprocessing.context.ForkServerContext.Process = Rank
    multiprocessing.set_start_method("forkserver")
    # The ranks compile nothing and import almost nothing: the module takes seconds.
    multiprocessing.set_forkserver_preload([request["module"]])
    faulthandler.enable()
    module = importlib.import_module(request["module"])
    cases = [
        kind(method)
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, unittest.TestCase)
        and kind.__module__ == request["module"]
        for method in unittest.TestLoader().getTestCaseNames(kind)
        if re.search(request["only"], f"{kind.__name__}.{method}")
    ]
    done = set(request["done"])
    result = Ranks(request, cases)
    result.emit(cases=[case_name(case) for case in cases])
    with tempfile.TemporaryDirectory() as tmp:
        os.environ["TEMP_DIR"] = tmp
        suite = unittest.TestSuite(case for case in cases if case_name(case) not in done)
        suite.run(result)
        result.emit(end=True)
        result.out.close()
        os._exit(0)


if __name__ == "__main__":
    main()
