#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Print gcov's coverage of qemu-device/card, for each file and in total.

A line or branch of a header counts once, however many files include the header. It
is covered if any of these files covers it. Functions that a macro makes count by name.

usage: coverage.py BUILD [--goal | --missing FILE...]

--goal: fail if the goal is not reached.
--missing: print the lines and branches that no test covers.
"""
import collections
import json
import pathlib
import subprocess
import sys

CARD = "qemu-device/card/"
# Goal for the total, in percent.
GOAL = {"lines": 95, "branches": 90}


class Card:
    """Counts for each (file, function, line), and for each branch of a line."""

    def __init__(self):
        self.lines = collections.Counter()
        self.branches = collections.Counter()

    def add(self, name, line):
        key = (name, line.get("function_name", ""), line["line_number"])
        self.lines[key] += line["count"]
        for i, branch in enumerate(line["branches"]):
            self.branches[key + (i,)] += branch["count"]

    def files(self):
        return sorted({key[0] for key in self.lines})


def read(build):
    card = Card()
    for note in sorted(build.glob("libopenreg-card.a.p/*.gcno")):
        out = subprocess.run(
            ["gcov", "--json-format", "--branch-probabilities", "--stdout",
             str(note)],
            cwd=build, check=True, capture_output=True, text=True).stdout
        for text in out.splitlines():
            for source in json.loads(text)["files"]:
                name = source["file"]
                if CARD not in name:
                    continue
                name = name.split(CARD)[-1]
                for line in source["lines"]:
                    card.add(name, line)
    return card


def share(counts, names):
    """Return the number of covered entries and of all entries of these files."""
    mine = [count for key, count in counts.items() if key[0] in names]
    return sum(count > 0 for count in mine), len(mine)


def percent(covered, total):
    return f"{100 * covered / total:6.1f} %" if total else "     -  "


def row(card, title, names):
    lines, branches = share(card.lines, names), share(card.branches, names)
    return (f"{title:26} {lines[0]:6} of {lines[1]:6} lines "
            f"{percent(*lines)}  {branches[0]:6} of {branches[1]:6} branches "
            f"{percent(*branches)}")


def goal():
    return (f"{'goal':26} {'':16} lines {GOAL['lines']:6.1f} %  "
            f"{'':16} branches {GOAL['branches']:6.1f} %")


def check_goal(card, names):
    for what, counts in ("lines", card.lines), ("branches", card.branches):
        covered, total = share(counts, names)
        if not total or 100 * covered < GOAL[what] * total:
            sys.exit(f"the goal for {what} is not reached")


def missing(card, name):
    by_line = collections.defaultdict(set)
    for key, count in card.lines.items():
        if key[0] == name and not count:
            by_line[key[2]].add(f"not run in {key[1]}")
    for key, count in card.branches.items():
        if key[0] == name and not count and card.lines[key[:3]]:
            by_line[key[2]].add(f"branch {key[3]} of {key[1]}")
    for line in sorted(by_line):
        what = sorted(by_line[line])
        more = f" and {len(what) - 4} more" if len(what) > 4 else ""
        print(f"{name}:{line}: {', '.join(what[:4])}{more}")


def main():
    card = read(pathlib.Path(sys.argv[1]))
    if sys.argv[2:3] == ["--missing"]:
        for name in sys.argv[3:] or card.files():
            missing(card, name)
        return
    files = card.files()
    for name in files:
        print(row(card, name, [name]))
    print(row(card, "all", files))
    print(goal())
    if sys.argv[2:3] == ["--goal"]:
        check_goal(card, files)


main()
