# SPDX-License-Identifier: MIT
"""Judges the results: the list of expected failures, the table, the last line."""

import collections
import datetime
import fnmatch
import pathlib
import re
import tomllib

FAILED = ("failed", "crash", "hang")
CPU = "fails on the CPU too"
NEW = "new"
STALE = "no longer fails this way, correct tests/upstream/expected.toml"


class Expected:
    """expected.toml: groups of cases with the reason for their failure, and their error."""

    def __init__(self, path):
        self.groups = tomllib.loads(path.read_text()).get("group", [])
        self.used = collections.Counter()
        for group in self.groups:
            group["regex"] = re.compile(group["error"], re.DOTALL)

    def reason(self, file, record):
        name = f"{file}:{record['case']}"
        for group in self.groups:
            for pattern in group["cases"]:
                if fnmatch.fnmatchcase(name, pattern) and group["regex"].search(record["error"]):
                    self.used[pattern] += 1
                    return group["reason"]
        return None

    def unused(self, results, whole) -> list:
        """The patterns that match no failure, of the files that ran completely."""
        return [
            pattern
            for group in self.groups
            for pattern in group["cases"]
            if not self.used[pattern] and pattern.partition(":")[0] in whole
        ]


def judge(expected, file, record):
    """Sets the reason of a failed record."""
    if record["status"] in FAILED:
        there = CPU if record.get("cpu") in FAILED else NEW
        record["reason"] = expected.reason(file, record) or there


def counts(records) -> dict:
    count = collections.Counter()
    for record in records.values():
        failed = record["status"] in FAILED
        known = {CPU: "cpu", NEW: "new"}.get(record.get("reason"), "expected")
        count[known if failed else record["status"]] += 1
    return count


def line(name, records) -> str:
    n = counts(records)
    return (
        f"{name}: {n['passed']} passed, {n['new']} failed, {n['skipped']} skipped,"
        f" {n['expected']} fail as expected, {n['cpu']} fail on the CPU too"
    )


def report(results, tests) -> str:
    import torch

    version = (pathlib.Path(tests).parent / "version").read_text().strip()
    text = [
        "<!-- SPDX-License-Identifier: MIT -->",
        "<!-- `make upstream-tests` wrote this file. -->",
        "",
        "# PyTorch's own device tests on openreg",
        "",
        f"{datetime.date.today()}: the tests of PyTorch {version}, run with torch"
        f" {torch.__version__} on a card inside the process.",
        "",
        "| file | passed | skipped | fails on the CPU too | fails as expected | fails |",
        "|---|---|---|---|---|---|",
    ]
    total = collections.Counter()
    reasons = collections.defaultdict(list)
    for name, records in results.items():
        n = counts(records)
        total += n
        text.append(row(name, n))
        for record in records.values():
            if "reason" in record:
                reasons[record["reason"]].append(f"{name}:{record['case']}")
    text += [row("all", total), "", "## Failures and their reasons", ""]
    for reason, cases in sorted(reasons.items(), key=lambda item: -len(item[1])):
        text += [f"### {reason} ({len(cases)})", ""]
        text += [f"- {case}" for case in short(cases)] + [""]
    return "\n".join(text)


def row(name, n) -> str:
    cells = (n["passed"], n["skipped"], n["cpu"], n["expected"], n["new"])
    return f"| {name} | " + " | ".join(map(str, cells)) + " |"


def short(cases) -> list:
    """One line per test, with the number of its cases. The names of the cases of one test
    differ after the device's name."""
    tests = collections.Counter(case.partition("_openreg")[0] for case in cases)
    return [test + (f" ({n})" if n > 1 else "") for test, n in sorted(tests.items())]


def close(results, stale, out, seconds) -> int:
    total = collections.Counter()
    for name, records in results.items():
        total += counts(records)
        for record in records.values():
            if record.get("reason") == NEW:
                print(f"FAILED {name}:{record['case']}: {record['status']}: {record['error'][:400]}")
    for pattern in stale:
        print(f"FAILED {pattern}: {STALE}")
    print(f"{total['expected']} fail as expected, {total['cpu']} fail on the CPU too;"
          f" every case is in {out / 'results.json'}")
    failed = total["new"] + len(stale)
    print(
        f"{total['passed']} passed, {failed} failed, {total['skipped']} skipped"
        f" in {seconds:.1f}s"
    )
    return 1 if failed or not total["passed"] else 0
