#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs PyTorch's own device tests on the card, and repeats failed cases on the CPU.

Every file runs in its own process. A crash or a hang becomes the result of the case that
was running, and a new process runs the remaining cases. An interrupted run continues when
it is started again.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import verdict

HERE = pathlib.Path(__file__).resolve().parent
FAILED = ("failed", "crash", "hang")


def arguments():
    p = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    p.add_argument("--tests", required=True, help="PyTorch's test/ folder")
    p.add_argument("--out", required=True, type=pathlib.Path, help="directory for the results")
    p.add_argument("--lists", default=HERE, type=pathlib.Path, help=argparse.SUPPRESS)
    p.add_argument("--quick", action="store_true", help="run only the cases of make test")
    p.add_argument("--files", help="run only these of files.txt: test_view_ops,nn/test_pooling")
    p.add_argument("--cases", help="run only cases with such a name: *_float32,*test_add*")
    p.add_argument("--sample", type=int, help="number of cases, instead of files.txt's")
    p.add_argument("--inputs", type=int, default=0, help="at most N inputs of each OpInfo")
    p.add_argument("--no-cpu", action="store_true", help="do not repeat failures on the CPU")
    p.add_argument("--jobs", type=int, default=2, help="processes at a time (%(default)s)")
    p.add_argument("--timeout", type=int, default=600, help="seconds per case (%(default)s)")
    p.add_argument("--report", type=pathlib.Path, help="write the table as Markdown to this file")
    p.add_argument("--again", action="store_true", help="run failed cases again")
    p.add_argument("--fresh", action="store_true", help="delete earlier results first")
    return p.parse_args()


def build_id(tests) -> str:
    """A hash over the files on which the results depend."""
    digest = hashlib.sha256(str(tests).encode())
    for place in os.environ.get("PYTHONPATH", "").split(":"):
        for path in sorted(pathlib.Path(place).rglob("*") if place else []):
            if path.suffix in (".so", ".py"):
                digest.update(path.read_bytes())
    for place in os.environ.get("LD_LIBRARY_PATH", "").split(":"):
        for path in sorted(pathlib.Path(place).glob("*.so")) if place else []:
            digest.update(path.read_bytes())
    for name in ("worker.py", "shims.py"):
        digest.update((HERE / name).read_bytes())
    return digest.hexdigest()[:16]


def wanted(args) -> dict:
    """{file: number of cases, 0 for all}, the longest file first."""
    files = {}
    asked = args.files.split(",") if args.files else []
    for line in (args.lists / "files.txt").read_text().splitlines():
        fields = line.partition("#")[0].split()
        if not fields:
            continue
        name, full, quick = fields
        sample = quick if args.quick else full
        if sample == "-" and name in asked:
            sample = "all"
        if sample != "-":
            files[name] = 0 if sample == "all" else int(sample)
    if args.sample is not None:
        files = dict.fromkeys(files, args.sample)
    if asked:
        if unknown := set(asked) - set(files):
            sys.exit(f"not in tests/upstream/files.txt: {', '.join(sorted(unknown))}")
        files = {name: files[name] for name in asked}
    return files


class File:
    """The cases of one file on one device, and their records."""

    def __init__(self, args, name, device, sample=0, only=None, match=None):
        self.args, self.name, self.device = args, name, device
        self.sample, self.only, self.match = sample, only, match
        self.path = args.out / f"{name.replace('/', '.')}.{device}.jsonl"
        self.cases, self.records, self.running = None, {}, None
        self.read()

    def read(self):
        self.running = None
        ended = False
        if not self.path.exists():
            return False
        for line in self.path.read_text().splitlines():
            try:
                record = json.loads(line)
            except ValueError:  # the process was killed while it wrote this line
                continue
            if "cases" in record:
                self.cases, ended = record["cases"], False
            elif "process" in record:
                self.running, ended = None, False
                self.records.pop("(the file)", None)
            elif "start" in record:
                self.running = record["start"]
            elif "case" in record:
                self.records[record["case"]] = record
                self.running = None
            elif "end" in record:
                ended = True
        return ended

    def forget(self, statuses):
        self.records = {k: r for k, r in self.records.items() if r["status"] not in statuses}
        with open(self.path, "w") as out:
            out.writelines(json.dumps(record) + "\n" for record in self.records.values())

    def add(self, **record):
        with open(self.path, "a") as out:
            out.write("\n" + json.dumps(record) + "\n")

    def once(self) -> bool:
        """Runs one process; true if it finished all cases, or cannot run at all."""
        request = {
            "tests": self.args.tests,
            "file": self.name,
            "device": self.device,
            "sample": self.sample,
            "match": self.match,
            "only": self.only,
            "inputs": self.args.inputs,
            "done": list(self.records),
            "timeout": self.args.timeout,
            "out": str(self.path),
        }
        self.add(process=True)
        self.read()
        before = len(self.records)
        with tempfile.TemporaryFile("w+", errors="replace") as log:
            status = subprocess.run(
                [sys.executable, HERE / "worker.py"],
                input=json.dumps(request),
                text=True,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C interrupts only this process; see PDEATHSIG
            ).returncode
            log.seek(max(0, log.seek(0, 2) - 20000))
            output = log.read().partition("\nExtension modules:")[0]
        if self.read():
            return True
        if self.running:
            hang = "Timeout (" in output
            error = f"more than {self.args.timeout} s" if hang else f"exit status {status}"
            output = output[output.find("Timeout (") :][:3000] if hang else output[-3000:]
            self.add(
                case=self.running,
                status="hang" if hang else "crash",
                seconds=self.args.timeout if hang else 0,
                error=f"{error}: {output}",
            )
            self.read()
        elif len(self.records) == before:
            self.add(case="(the file)", status="crash", seconds=0, error=output[-3000:])
            self.read()
            return True
        return False

    def run(self):
        while not self.once():
            pass


def run_file(args, name, sample, expected) -> dict:
    """Runs the file on the card, and its unexpected failures on the CPU as well."""
    match = args.cases.split(",") if args.cases else None
    card = File(args, name, "openreg", sample, match=match)
    if args.again:
        card.forget(FAILED)
    card.run()
    names = {
        case: case.replace("_openreg", "_cpu")
        for case, record in card.records.items()
        if record["status"] in FAILED and case != "(the file)"
        if not expected.reason(name, record)
    }
    cpu = File(args, name, "cpu", only=sorted(names.values()))
    if set(names.values()) - set(cpu.records) and not args.no_cpu:
        cpu.run()
    for case, there in names.items():
        other = cpu.records.get(there)
        card.records[case]["cpu"] = other["status"] if other else "no such case"
        card.records[case]["cpu_error"] = other["error"] if other else ""
    return card.records


def main() -> int:
    args = arguments()
    files = wanted(args)
    args.out = args.out / build_id(args.tests)
    if args.inputs:
        args.out = args.out.with_name(f"{args.out.name}-{args.inputs}-inputs")
    args.out.mkdir(parents=True, exist_ok=True)
    if args.fresh:
        for path in args.out.glob("*.jsonl"):
            path.unlink()
    expected = verdict.Expected(args.lists / "expected.toml")
    results, lock, began = {}, threading.Lock(), time.monotonic()

    def one(name):
        records = run_file(args, name, files[name], expected)
        with lock:
            results[name] = records
            for record in records.values():
                verdict.judge(expected, name, record)
            seconds = time.monotonic() - began
            print(f"{seconds:6.0f} s  {verdict.line(name, records)}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        try:
            for done in concurrent.futures.as_completed([pool.submit(one, n) for n in files]):
                done.result()
        except KeyboardInterrupt:
            print("interrupted; run the same command to continue", flush=True)
            os._exit(130)
    whole = {name for name in files if files[name] == 0 and not args.cases}
    results = {name: results[name] for name in files}
    stale = expected.unused(results, whole)
    (args.out / "results.json").write_text(json.dumps(results, indent=1))
    if args.report:
        args.report.parent.mkdir(parents=True, exist_ok=True)
        args.report.write_text(verdict.report(results, args.tests))
    return verdict.close(results, stale, args.out, time.monotonic() - began)


if __name__ == "__main__":
    sys.exit(main())
