#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the figures of docs/reliability.md from docs/results/reliability.json, which the
suites, fuzzers, soaks and coverage commands write when OPENREG_RESULTS is set.

usage: make-reliability.py [--check]    (--check: fail if the page has other figures)
"""
import json
import sys

from generated import TOP, table, update

PAGE = "docs/reliability.md"
RESULTS = "docs/results/reliability.json"


def number(figures: dict, name: str) -> str:
    return f"{figures[name]:,}" if name in figures else ""


def share(figures: dict, name: str) -> str:
    """The part of the lines or branches that ran, in percent."""
    if name not in figures:
        return ""
    return f"{100 * figures['run_' + name] / figures[name]:.1f} % of {figures[name]:,}"


def rows(results: dict, heads: list[str], known: str, show=number) -> list[str]:
    """A table of the entries that have the figure `known`."""
    found = [[f"`{entry['command']}`", entry["date"],
              *(show(entry["figures"][0], head.rstrip(":")) for head in heads)]
             for entry in results.values() if known in entry["figures"][0]]
    return table(["run", "date", *heads], found) if found else ["No run yet."]


def machines(results: dict) -> list[str]:
    """A list of the machines, each with its runs. The newest machine comes first."""
    runs: dict[str, list[str]] = {}
    for name, entry in sorted(results.items(), key=lambda item: item[1]["date"], reverse=True):
        m = entry["machine"]
        text = (f"{m['processors']} processors {m['processor']} ({m['isa']}), host's Linux "
                f"{m['kernel']}, guest's Linux {m['guest']}, torch {m['torch']}")
        runs.setdefault(text, []).append(name)
    return [f"- {text}: {', '.join(sorted(names))}" for text, names in runs.items()]


def parts(results: dict) -> dict[str, list[str]]:
    return {
        "suites": rows(results, ["passed:", "failed:", "skipped:", "seconds:"], "passed"),
        "fuzzers": rows(results, ["inputs:", "ioctls:", "seconds:", "found:"], "found"),
        "soaks": rows(results, ["minutes:", "kills:", "unplugs:", "resets:", "sleeps:",
                                "launches:", "failed:"], "minutes"),
        "coverage": rows(results, ["lines:", "branches:"], "lines", share),
        "machines": machines(results),
    }


def main() -> int:
    if sys.argv[1:] not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    path = TOP / RESULTS
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    good = update(PAGE, parts(results), bool(sys.argv[1:]), "tests/docs/make-reliability.py")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
