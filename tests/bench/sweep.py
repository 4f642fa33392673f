#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the card with torch's CPU in the same process: steps of models, shapes that
programs use, and every operator of torch's list that runs on the card. sweep_worker.py
describes the timing of calls."""

import argparse
import json
import os
import pathlib
import re
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "conformance")]

import sweep_report  # noqa: E402
from fair import fair_environment  # noqa: E402
from sweep_worker import Worker  # noqa: E402

fair_environment()

from conformance.pool import Died, Late, Process  # noqa: E402
from conformance.store import Store  # noqa: E402

SIZES = (10**6, 10**4)
DTYPES = ("float32", "bfloat16")


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(
        description="Times operators on the card and on torch's CPU. A repeated command "
        "continues an unfinished sweep. The tables contain all measured entries.",
    )
    p.add_argument("--out", default="sweep", type=pathlib.Path, help="directory of entries")
    p.add_argument("--results", type=pathlib.Path, help="directory for sweep.md and sweep.json")
    p.add_argument("--ops", default="", help="regular expression for the names")
    p.add_argument("--kind", default="model,shape,op", help="kinds of entries (%(default)s)")
    p.add_argument("--dtypes", default=",".join(DTYPES), help="dtypes of operators (%(default)s)")
    p.add_argument("--sizes", default=",".join(map(str, SIZES)), help="elements (%(default)s)")
    p.add_argument("--minutes", type=float, default=0, help="stop after this time")
    p.add_argument("--seconds", type=float, default=0.1, help="time for a figure (%(default)s)")
    p.add_argument("--timeout", type=float, default=40, help="seconds for an entry (%(default)s)")
    p.add_argument("--fresh", action="store_true", help="discard all measured entries first")
    p.add_argument("--again", action="store_true", help="measure matching entries again")
    p.add_argument("--worker", help=argparse.SUPPRESS)
    return p.parse_args()


def serve(options: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = Worker(json.loads(options))
    print(json.dumps(worker.hello()), file=answers, flush=True)
    for line in sys.stdin:
        key = json.loads(line)["key"]
        record = {"key": key, "build": worker.build, **worker.entry(key)}
        print(json.dumps(record), file=answers, flush=True)
    os._exit(0)


def keys_of(hello: dict, args: argparse.Namespace) -> list:
    match = re.compile(args.ops).search
    kinds = args.kind.split(",")
    keys = [
        f"{kind}:{name}"
        for kind in ("model", "shape")
        for name in hello[f"{kind}s"]
        if kind in kinds and match(name)
    ]
    for dtype in args.dtypes.split(","):
        for size in args.sizes.split(","):
            keys += [
                f"op:{name}:{dtype}:{size}"
                for name, has in hello["ops"].items()
                if "op" in kinds and dtype in has and match(name)
            ]
    return keys


class Workers:
    """Runs one worker process at a time. Starts a new one after a crash or a hang."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.options = {
            "dtypes": args.dtypes.split(","),
            "seconds": args.seconds,
            "ops_too": "op" in args.kind,
        }
        self.process = self.start()

    def start(self) -> Process:
        return Process(self.options, HERE / "sweep.py")

    def entry(self, key: str) -> dict:
        self.process = self.process or self.start()
        try:
            self.process.ask(key=key)
            return self.process.answer(time.monotonic() + self.args.timeout)
        except Late:
            record = {"key": key, "status": "too slow"}
        except Died as error:
            record = {"key": key, "status": "crash", "error": str(error)[-300:]}
        self.process.stop()
        self.process = None
        return record


def main() -> int:
    args = arguments()
    if args.worker:
        serve(args.worker)
    workers = Workers(args)
    hello = workers.process.hello
    keys = keys_of(hello, args)
    if not keys:
        sys.exit("nothing matches --ops, --kind and --dtypes")
    store = Store(args.out / "results.jsonl", hello["machine"], args.fresh)
    left = [k for k in keys if args.again or k not in store.records]
    end = time.monotonic() + 60 * args.minutes if args.minutes else float("inf")
    shown = time.monotonic()
    for i, key in enumerate(left):
        if time.monotonic() > end:
            print(f"{len(left) - i} of {len(keys)} are left: repeat the command to continue")
            break
        store.add(workers.entry(key))
        if time.monotonic() > shown + 20:
            shown = time.monotonic()
            print(f"{i + 1}/{len(left)} {key}", file=sys.stderr, flush=True)
    chosen = [store.records[k] for k in keys if k in store.records]
    print(sweep_report.slow(chosen))
    if args.results:
        sweep_report.write(args.results, hello["machine"], list(store.records.values()))
        print(f"{args.results / 'sweep.md'}, {args.results / 'sweep.json'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
