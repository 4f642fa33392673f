# SPDX-License-Identifier: MIT
"""Run cases of one of PyTorch's test files, and write a JSON line for each.

Standard input has a JSON object: "tests" (the folder), "file", "device" ("openreg" or
"cpu"), "match" (patterns of names, or null), "sample" (number of cases, 0 for all), "only"
(names, or null), "inputs" (at most so many of each OpInfo, 0 for all), "done" (cases to
skip), "timeout" (seconds a case) and "out" (the file to append to).

A case that takes too long ends the process, like a crash. The last line is then
{"start": CASE}, and standard error has the stack.
"""

import ctypes
import faulthandler
import fnmatch
import hashlib
import importlib
import json
import os
import signal
import sys
import tempfile
import time
import traceback
import unittest

ERROR = 1500  # longest text of an error, in characters


def describe(err) -> str:
    kind, value, trace = err
    frames = [f for f in traceback.extract_tb(trace) if "/test/" in f.filename]
    where = f" [{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}]" if frames else ""
    return f"{kind.__name__}: {value}"[:ERROR] + where


def case_name(test) -> str:
    """CLASS.METHOD, without the device in CLASS; METHOD contains the device's name."""
    device = getattr(test, "device_type", "")
    return f"{type(test).__name__.removesuffix(device.upper())}.{test._testMethodName}"


class Result(unittest.TestResult):
    def __init__(self, request, cases):
        super().__init__()
        self.request = request
        self.cases = cases
        self.out = open(request["out"], "a", buffering=1)
        self.status, self.error = None, ""

    def emit(self, **record):
        self.out.write(json.dumps(record) + "\n")

    def startTest(self, test):
        self.status, self.error = "passed", ""
        self.began = time.monotonic()
        self.emit(start=case_name(test))
        faulthandler.dump_traceback_later(self.request["timeout"], exit=True)

    def stopTest(self, test):
        try:
            settle(self.request["device"])
        except Exception:
            self.fail("after the case: " + describe(sys.exc_info()))
        faulthandler.cancel_dump_traceback_later()
        seconds = round(time.monotonic() - self.began, 2)
        self.emit(case=case_name(test), status=self.status, seconds=seconds, error=self.error)

    def fail(self, error):
        if self.status != "failed":
            self.status, self.error = "failed", error

    def addError(self, test, err):
        if isinstance(test, unittest.TestCase):
            self.fail(describe(err))
            return
        # setUpClass() raised: no case of the class will run.
        for case in self.cases:
            if test.id().endswith(f".{type(case).__name__})"):
                error = "in setUpClass: " + describe(err)
                self.emit(case=case_name(case), status="failed", seconds=0, error=error)

    def addFailure(self, test, err):
        self.fail(describe(err))

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.fail(describe(err))

    def addSkip(self, test, reason):
        if self.status == "passed":
            self.status, self.error = "skipped", reason

    def addUnexpectedSuccess(self, test):
        self.fail("unexpected success")


def settle(device):
    """Leaves idle streams, device 0 and an empty cache for the next case."""
    if device == "cpu":
        return
    import torch

    mod = getattr(torch, device)
    try:
        for index in range(mod.device_count()):
            mod.synchronize(index)
    finally:
        for index in range(mod.device_count()):
            mod.reset(index)
            mod.synchronize(index)
        mod.set_device(0)
        mod.empty_cache()


def collect(request) -> list:
    """Return the device's cases, in the file's order of classes."""
    device = request["device"]
    folder, _, name = request["file"].rpartition("/")
    sys.path[:0] = [request["tests"], os.path.join(request["tests"], folder)]
    sys.argv = [name]
    import shims

    text = ""
    for file in (name, "test_torchinductor"):  # other files of Inductor's import from this one
        if not text or file in text:
            with open(os.path.join(request["tests"], folder, file + ".py")) as source:
                text += source.read()
    shims.install(device, text)
    if request["inputs"]:
        shims.limit_inputs(request["inputs"])
    module = importlib.import_module(name)
    shims.instantiate_template(module, device)
    shims.be_gpu(module, device)
    # Upstream's example backend has the device's name in each test.
    named = "openreg" if name == "test_openreg" else None
    cases = [
        kind(method)
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, unittest.TestCase)
        and getattr(kind, "device_type", named) == device
        for method in unittest.TestLoader().getTestCaseNames(kind)
    ]
    if request["match"] is not None:
        cases = [
            case
            for case in cases
            if any(fnmatch.fnmatchcase(case_name(case), pattern) for pattern in request["match"])
        ]
    if request["sample"]:
        by_hash = sorted(cases, key=lambda c: hashlib.sha256(case_name(c).encode()).digest())
        kept = set(map(case_name, by_hash[: request["sample"]]))
        cases = [case for case in cases if case_name(case) in kept]
    if request["only"] is not None:
        cases = [case for case in cases if case_name(case) in request["only"]]
    return cases


def main():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: ends with run.py
    request = json.load(sys.stdin)
    os.environ["PYTORCH_PRINT_REPRO_ON_FAILURE"] = "0"
    faulthandler.enable()
    cases = collect(request)
    done = set(request["done"])
    left = [case for case in cases if case_name(case) not in done]
    result = Result(request, left)
    result.emit(cases=[case_name(case) for case in cases])
    with tempfile.TemporaryDirectory() as tmp:
        os.chdir(tmp)
        unittest.TestSuite(left).run(result)
        result.emit(end=True)
        result.out.close()
        os._exit(0)  # skip torch's shutdown, which is not under test


if __name__ == "__main__":
    main()
