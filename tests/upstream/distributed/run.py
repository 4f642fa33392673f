#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs torch's own tests of torch.distributed, and those of torch-xpu-ops, on cards inside
processes, a process for each rank.

    scripts/sim --cards 2 python3 tests/upstream/distributed/run.py
    scripts/sim --cards 4 python3 tests/upstream/distributed/run.py --ranks 4

An interrupted run continues when it is started again. Every test has its own limit.
"""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import run as upstream  # noqa: E402
import verdict  # noqa: E402

import adapt  # noqa: E402

RESULTS = pathlib.Path("/cache/upstream-distributed")


def arguments():
    p = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    p.add_argument("--ranks", type=int, default=2, choices=(2, 3, 4), help="of each test (2)")
    p.add_argument("--checkout", help="torch-xpu-ops: run its tests of c10d, too")
    p.add_argument("--source", help="PyTorch's test/ folder: run its test of symmetric memory, too")
    p.add_argument("-k", dest="only", default="", help="run only these: a regular expression")
    p.add_argument("--limit", type=int, default=120, help="seconds a test (%(default)s)")
    p.add_argument("--out", default=RESULTS, type=pathlib.Path, help="directory for the results")
    p.add_argument("--any-build", action="store_true", help="keep the results of other builds")
    p.add_argument("--again", action="store_true", help="run failed tests again")
    p.add_argument("--fresh", action="store_true", help="delete earlier results first")
    p.add_argument("--table", action="store_true", help="print every failure and skipped test")
    return p.parse_args()


class Module(upstream.File):
    """The tests of one module with a number of ranks, and their records."""

    def __init__(self, args, name, work):
        self.work = work
        super().__init__(args, name, f"{args.ranks}-ranks")

    def once(self) -> bool:
        """Runs one process; true if it finished all tests, or cannot run at all."""
        request = {
            "work": str(self.work),
            "module": self.name,
            "done": list(self.records),
            "only": self.args.only,
            "limit": self.args.limit,
            "out": str(self.path),
        }
        self.add(process=True)
        self.read()
        before = len(self.records)
        env = {
            **os.environ,
            "BACKEND": "occl",
            "WORLD_SIZE": str(self.args.ranks),
            "MASTER_ADDR": "127.0.0.1",
            "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": str(self.args.limit),
            "PYTHONPATH": f"{self.work}:{os.environ.get('PYTHONPATH', '')}",
            "OMP_NUM_THREADS": "1",
        }
        with tempfile.TemporaryFile("w+", errors="replace") as log:
            process = subprocess.Popen(
                [sys.executable, HERE / "ranks.py"],
                stdin=subprocess.PIPE,
                text=True,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=env,
            )
            try:
                process.communicate(json.dumps(request))
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # ranks that hang
            status = process.wait()
            log.seek(max(0, log.seek(0, 2) - 20000))
            output = log.read()[-3000:]
        if self.read():
            return True
        if self.running:
            hang = "Timeout (" in output
            self.add(
                case=self.running,
                status="hang" if hang else "crash",
                seconds=0,
                error=f"exit status {status}: {output}",
            )
            self.read()
        elif len(self.records) == before:
            self.add(case="(the file)", status="crash", seconds=0, error=output)
            self.read()
            return True
        return False


def main() -> int:
    args = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    # The names of the modules' files are in the tests' errors: keep the path short.
    key = "any" if args.any_build else upstream.build_id(HERE)
    args.out = args.out / key
    modules = adapt.write(args.out / "modules", args.checkout, args.source)
    if args.fresh:
        for path in args.out.glob("*.jsonl"):
            path.unlink()
    expected = verdict.Expected(HERE / "expected.toml")
    results, began = {}, time.monotonic()
    for name in modules:
        module = Module(args, name, args.out / "modules")
        if args.again:
            module.forget(upstream.FAILED)
        module.run()
        results[name] = module.records
        for record in module.records.values():
            verdict.judge(expected, name, record)
        print(verdict.line(name, module.records), flush=True)
    if args.table:
        for name, records in results.items():
            for record in records.values():
                if record["status"] != "passed":
                    why = record.get("reason") or record["error"].replace("\n", " ")[-200:]
                    print(f"{record['status']:8} {name}:{record['case']}: {why}")
    return verdict.close(results, [], args.out, time.monotonic() - began)


if __name__ == "__main__":
    sys.exit(main())
