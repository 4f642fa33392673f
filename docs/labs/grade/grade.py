#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Grades the labs. scripts/lab --grade runs this with the root's Python.

usage: grade.py [--lab N]... [--seed N] [--json FILE] DIRECTORY
DIRECTORY has the student's files lab0.c, lab1.c and so on. Exit status: 0 for full marks.
"""
import argparse
import json
import os
import pathlib
import random
import sys
import tempfile

import bench

TOP = bench.TOP


def submission(directory: pathlib.Path, lab: int) -> dict[str, str]:
    """The student's files for a lab, or skeletons for those that are not there"""
    files = {}
    for name in bench.files_of(lab):
        path = directory / name
        if not path.exists():
            path = TOP / "docs/labs/skeleton" / name
        files[name] = path.read_text(encoding="utf-8", errors="replace")
    return files


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/lab --grade")
    parser.add_argument("--lab", type=int, action="append", choices=bench.LABS)
    parser.add_argument("--seed", type=int, default=random.randrange(1, 10000))
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("directory", type=pathlib.Path)
    args = parser.parse_args()
    labs = args.lab or [lab for lab in bench.LABS
                        if any((args.directory / name).exists() for name in bench.own_files(lab))]
    if not labs:
        print(f"lab: error: there is no lab0.c in {args.directory}\n"
              "  make lab LAB=0 begins the first lab", file=sys.stderr)
        return 2
    tallies = []
    with tempfile.TemporaryDirectory(prefix="openreg-labs.") as top:
        os.chmod(top, 0o755)
        for lab in labs:
            bench.prepare(pathlib.Path(top), f"lab{lab}", lab, submission(args.directory, lab))
        bench.build(pathlib.Path(top), [f"lab{lab}" for lab in labs])
        table = bench.Bench(pathlib.Path(top), args.seed)
        try:
            for lab in labs:
                tallies.append(table.grade(f"lab{lab}", lab))
                print(tallies[-1].text(), flush=True)
        finally:  # what was graded is reported, also if the grader itself fails
            table.close()
            points, most = sum(t.points for t in tallies), sum(t.most for t in tallies)
            print(f"{points} of {most} points, seed {args.seed}")
            if args.json:
                args.json.write_text(json.dumps(
                    {"points": points, "of": most, "seed": args.seed,
                     "labs": [tally.report() for tally in tallies]}, indent=1) + "\n")
    return 0 if points == most else 1


if __name__ == "__main__":
    os.environ.pop("PYTHONHOME", None)  # for the scripts that this program starts
    sys.exit(main())
