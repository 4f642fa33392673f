# SPDX-License-Identifier: MIT
"""A worker process: reads an order with the key of an entry from each line of its input,
and prints the results as one JSON object a line. A crash here affects one entry only."""

import faulthandler
import hashlib
import importlib
import json
import os
import pathlib
import platform
import resource
import sys
import warnings


def build_of(module) -> str:
    """A hash over the files of the module's package: its version may not change when the
    files do."""
    places = getattr(module, "__path__", None) or [module.__file__]
    digest = hashlib.sha256()
    for place in map(pathlib.Path, places):
        for path in sorted(place.rglob("*") if place.is_dir() else [place]):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"{path.name} {path.stat().st_size}\n".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


class Worker:
    def __init__(self, options: dict, say) -> None:
        self.options, self.say = options, say
        import torch

        torch.set_num_threads(1)
        module = importlib.import_module(options["module"])
        self.version = getattr(module, "__version__", "of no version")
        self.build = build_of(module)
        from . import entries, forms, probe

        self.device = torch.accelerator.current_accelerator().type
        forms.same_on(self.device)
        self.probe = probe.make(self.device, options["probe"])
        self.lists = entries.Lists(options["own_ops"])

    def hello(self) -> None:
        import torch

        from . import entries

        dtypes = entries.device_dtypes()
        wanted = self.options["dtypes"] or dtypes
        keys = entries.list_keys(
            self.lists, self.options["dbs"], wanted, self.options["ops"]
        )
        self.say(
            keys=keys,
            device=self.device,
            has=dtypes,
            probe=self.probe.name,
            torch=torch.__version__,
            version=self.version,
            build=self.build,
            python=platform.python_version(),
            machine=platform.machine(),
        )

    def entry(self, key: str, done: list) -> bool:
        """Runs the checks of an entry; false if the device no longer works."""
        checks = self._checks(key)
        for name in checks.names():
            if name in done:
                continue
            self.say(check=name, result=self._check(checks, name))
            if not self._healthy():
                return False
        return True

    def _checks(self, key: str):
        from .checks import checks_of

        return checks_of(self.lists, key, self.options["samples"])

    def _check(self, checks, name: str) -> dict:
        from .compare import Comparer, tolerance_of
        from .judge import Judge, describe

        self.say(begin=name, side="cpu")
        try:
            cases = checks.cases(name)
        except Exception as error:  # noqa: BLE001
            return {"status": "untested", "cases": 0, "error": describe(error)}
        judge = Judge(self.device, self.probe, lambda side: self._side(name, side))
        if name == "errors":
            return judge.errors(cases)
        override = tolerance_of(checks.info, self.device, checks.dtype)
        comparer = Comparer(self.device, checks.dtype, override)
        return judge.check(cases, comparer, checks.form_only(name))

    def _side(self, name: str, side: str) -> None:
        self.say(begin=name, side=side)

    def _healthy(self) -> bool:
        from .device import synchronize

        try:
            synchronize()
        except Exception:  # noqa: BLE001
            return False
        return True


def main(options: str) -> int:
    # Libraries may print to standard output: send this to standard error.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")

    def say(**what) -> None:
        print(json.dumps(what), file=answers, flush=True)

    worker = Worker(json.loads(options), say)
    worker.hello()
    for line in sys.stdin:
        order = json.loads(line)
        healthy = worker.entry(order["key"], order["done"])
        say(end=order["key"], healthy=healthy)
        if not healthy:
            break
    # Exit without destructors: a crash there is no entry's result.
    os._exit(0)
