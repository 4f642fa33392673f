#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints gcov's coverage of the driver by file and in all, over several runs.

A line counts once, even if several files include it. It is covered if any run
covered it in any of these files.

usage: coverage.py BUILD COUNTS [--missing [FILE...]]
  BUILD   folder where the module was built, with its .gcno
  COUNTS  folder of N.tar.gz.b64, each with the .gcda of one run
"""
import base64
import collections
import io
import json
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

GOAL = 85
DRIVER = "kmod/"


def gcov(directory):
    out = subprocess.run(
        ["gcov", "--json-format", "--stdout",
         *sorted(path.name for path in directory.glob("*.gcda"))],
        cwd=directory, check=True, capture_output=True, text=True).stdout
    for text in out.splitlines():
        yield from json.loads(text)["files"]


def read(build, archive, lines):
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        for note in (build / "kmod").rglob("*.gcno"):
            shutil.copy(note, directory)
        data = base64.b64decode(archive.read_bytes())
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            tar.extractall(directory, filter="data")
        for source in gcov(directory):
            if DRIVER not in source["file"]:
                continue
            file = source["file"].split(DRIVER)[-1]
            for line in source["lines"]:
                key = (file, line["line_number"])
                lines[key] += line["count"]


def row(name, counts):
    covered = sum(count > 0 for count in counts)
    return (f"{name:28} {covered:5} of {len(counts):5} lines "
            f"{100 * covered / len(counts):6.1f} %")


def main():
    build, work = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    lines = collections.Counter()
    archives = sorted(work.glob("*.b64"))
    for archive in archives:
        read(build, archive, lines)
    if not lines:
        sys.exit("no counts: did any test run?")
    files = sorted({key[0] for key in lines})
    if sys.argv[3:4] == ["--missing"]:
        for name in sys.argv[4:] or files:
            for (file, number), count in sorted(lines.items()):
                if file == name and not count:
                    print(f"{file}:{number}")
        return
    for name in files:
        print(row(name, [n for key, n in lines.items() if key[0] == name]))
    print(row(f"all, of {len(archives)} runs", list(lines.values())))
    covered = sum(count > 0 for count in lines.values())
    if 100 * covered < GOAL * len(lines):
        sys.exit(f"the goal of {GOAL} % is not reached")
    print(f"goal: {GOAL} %, reached")


main()
