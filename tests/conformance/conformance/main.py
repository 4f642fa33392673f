# SPDX-License-Identifier: MIT
"""The command: parses its arguments, runs the workers and writes the report."""

import argparse
import os
import pathlib
import sys

from . import keys as names
from . import pool, report, worker
from .progress import Progress
from .status import FATAL, ORDER
from .store import Store


def arguments(argv) -> argparse.Namespace:
    p = argparse.ArgumentParser(
        description="Tests a PrivateUse1 backend with op_db, module_db and optim_db of "
        "torch.testing, with the CPU as the reference. An interrupted run continues when "
        "started again. The exit status is 1 if any entry is wrong or missing, crashes or "
        "hangs.",
    )
    p.add_argument(
        "--module",
        default="torch_openreg",
        help="the Python module that registers the backend (%(default)s)",
    )
    p.add_argument(
        "--out",
        default="conformance-results",
        type=pathlib.Path,
        help="directory for the results (%(default)s)",
    )
    p.add_argument("--db", default=",".join(names.DBS), help="lists to run (%(default)s)")
    p.add_argument(
        "--dtypes", default="", help="float32,... (all dtypes that the device reports)"
    )
    p.add_argument(
        "--ops", default="", help="run only names that match this regular expression"
    )
    p.add_argument(
        "--sample", type=int, default=0, help="run only N entries, always the same"
    )
    p.add_argument(
        "--samples", type=int, default=48, help="inputs per check (%(default)s)"
    )
    p.add_argument(
        "--jobs", type=int, default=os.cpu_count(), help="worker processes (%(default)s)"
    )
    p.add_argument(
        "--timeout", type=float, default=180, help="seconds per entry (%(default)s)"
    )
    p.add_argument(
        "--probe", default="", help="counter of fallbacks, package.module:factory"
    )
    p.add_argument(
        "--own-ops", default="", help="a file with OpInfos, instead of torch's list"
    )
    p.add_argument("--fresh", action="store_true", help="delete earlier results first")
    p.add_argument(
        "--again", default="", help="run entries with these statuses again: wrong,crash"
    )
    p.add_argument("--worker", help=argparse.SUPPRESS)
    return p.parse_args(argv)


def options_of(args: argparse.Namespace) -> dict:
    return {
        "module": args.module,
        "probe": args.probe,
        "own_ops": args.own_ops,
        "dbs": [db for db in args.db.split(",") if db],
        "dtypes": [d for d in args.dtypes.split(",") if d],
        "ops": args.ops,
        "samples": args.samples,
        "timeout": args.timeout,
    }


def first_worker(options: dict) -> pool.Process:
    """Starts a worker. Its first message lists the entries; later it runs some of them."""
    try:
        return pool.Process(options)
    except pool.Died as error:
        sys.exit(f"the backend cannot be loaded: {error}")
    except pool.Late:
        sys.exit("the backend did not load in time")


def close(store: Store, keys: list, run: dict, out: pathlib.Path) -> int:
    done = [store.records[key] for key in keys if key in store.records]
    report.write(out, run, done)
    total = report.summary(run, done)
    counts = {s: sum(r["status"] == s for r in done) for s in ORDER}
    print(", ".join(f"{n} {status}" for status, n in counts.items() if n))
    for record in done:
        if record["status"] in FATAL:
            print(f"{record['status']}: {record['key']}: {record['error'][:300]}")
    share = total["native_float32"]
    if share["ops"]:
        print(
            f"native in float32: {share['native']} of {share['ops']} of op_db,"
            f" {share['percent_native']} % (forward {share['percent_native_forward']} %)"
        )
    print(f"{out / 'report.md'}, {out / 'report.json'}")
    return 0 if total["passed"] else 1


def main(argv=None) -> int:
    args = arguments(argv)
    if args.worker:
        return worker.main(args.worker)
    options = options_of(args)
    again = [status for status in args.again.split(",") if status]
    if unknown := set(again) - set(ORDER):
        sys.exit(f"--again: there is no status {', '.join(unknown)}")
    first = first_worker(options)
    found = dict(first.hello)
    keys = found.pop("keys")
    if args.sample:
        keys = names.sample(keys, args.sample)
    if not keys:
        sys.exit("nothing matches --db, --dtypes and --ops")
    run = {"module": args.module, "samples": args.samples, "own_ops": args.own_ops}
    run.update(found)
    store = Store(args.out / "results.jsonl", run, args.fresh, again)
    left = [key for key in keys if key not in store.records]
    done = [store.records[key] for key in keys if key in store.records]
    progress = Progress(len(keys), done)

    def finished(record: dict) -> None:
        store.add(record)
        progress.add(record)

    try:
        pool.run(first, options, left, args.jobs, finished)
    except KeyboardInterrupt:
        print("\ninterrupted; run the same command to continue", file=sys.stderr)
        return 130
    finally:
        progress.close()
    return close(store, keys, run, args.out)
