#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Grades the skeletons, the solutions and the wrong solutions of docs/labs; prints TAP.

usage: check.py [NAME...]    only these submissions, such as solution1 or "never resets"
       check.py --more       those that the suite labs leaves out
       check.py --needs ...  only prints "plugin" if a lab of these is not in a VM
"""
import importlib
import os
import pathlib
import re
import sys
import tempfile
import threading
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "docs/labs/grade"))
import bench  # noqa: E402
from wrong import WRONG  # noqa: E402

SEED = 20
VMS = 2  # a VM alone keeps less than one processor busy
SLOW = {wrong.name for wrong in WRONG if wrong.slow}
AFTER_SLOW = 12  # cases that one VM grades while another hangs
NATIVE = [lab for lab in bench.LABS
          if getattr(importlib.import_module(f"lab{lab}"), "NATIVE", False)]


def read(kind: str, file: str) -> str:
    return (TOP / f"docs/labs/{kind}/{file}").read_text(encoding="utf-8")


def header() -> str:
    """lab.h with shorter limits: wrong solutions wait for their ends"""
    text = read("given", "lab.h")
    for limit, seconds in (("TIMEOUT", 2), ("SLEEP", 10)):
        text, count = re.subn(rf"(#define LAB_{limit}_SECONDS) \d+", rf"\1 {seconds}", text)
        assert count == 1
    return text


def solution(lab: int) -> dict[str, str]:
    return {"lab.h": header()} | {file: read("solution", file) for file in bench.files_of(lab)}


def skeleton(lab: int) -> dict[str, str]:
    """The skeleton of a lab, with the solutions of the labs before"""
    return solution(lab) | {file: read("skeleton", file) for file in bench.own_files(lab)}


def broken(wrong) -> dict[str, str]:
    files = solution(wrong.lab)
    for file, old, new in wrong.edits:
        count = files[file].count(old)
        if count != 1:
            raise SystemExit(f"wrong.py: {wrong.name}: {file} has {count} times: {old}")
        files[file] = files[file].replace(old, new)
    return files


def judge_skeleton(tally) -> str:
    if "compile" in tally.trouble:
        return tally.trouble
    return "it gets points" if tally.points else ""


def judge_solution(tally) -> str:
    return "" if tally.points == tally.most and not tally.trouble else "it loses points"


def judge_wrong(wrong, tally) -> str:
    lost = {check.name for check in tally.checks.values() if not check.good}
    if wrong.words not in tally.trouble:
        return f"the grader does not say '{wrong.words}'"
    if wrong.says not in tally.text():
        return f"the grader does not say '{wrong.says}' of a check"
    want = set(tally.checks) if wrong.breaks is None else wrong.breaks
    # A reason that nobody expected, such as a VM that ends, must not pass for the fault.
    if tally.trouble and not (wrong.words or wrong.may):
        return "the grader stops, and wrong.py does not name the reason"
    return "" if want <= lost <= want | wrong.may else f"it should lose {sorted(want)}, and loses {sorted(lost)}"


def cases(asked: list[str]) -> list:
    """
    (name, lab, files, judge), so ordered that submissions that break the VM come last, but for
    those that take long.
    """
    found, more = [], []
    for lab in bench.LABS:
        found.append((f"skeleton{lab}", lab, skeleton(lab), judge_skeleton))
        found.append((f"solution{lab}", lab, solution(lab), judge_solution))
    last = sorted(WRONG, key=lambda wrong: wrong.breaks is None)
    slow = [wrong for wrong in last if wrong.slow]
    last = [wrong for wrong in last if not wrong.slow]
    for wrong in last[:-AFTER_SLOW] + slow + last[-AFTER_SLOW:]:
        (more if wrong.more else found).append((
            wrong.name, wrong.lab, broken(wrong),
            lambda tally, wrong=wrong: judge_wrong(wrong, tally)))
    if asked == ["--more"]:
        return more
    there = [case[0] for case in found + more]
    unknown = [name for name in asked if name not in there]
    if unknown:
        raise SystemExit(f"check.py: error: there is no submission {unknown[0]!r}\n  "
                         f"the names are: {', '.join(there)}")
    return [case for case in found + more if case[0] in asked] if asked else found


def pages() -> str:
    """Whether the page of each lab has the points of its checks, in their order"""
    for lab in bench.LABS:
        have = importlib.import_module(f"lab{lab}").CHECKS
        page, = (TOP / "docs/labs").glob(f"{lab}-*.md")
        rows = re.findall(r"^\| (\d+) \| ", page.read_text(encoding="utf-8"), re.M)
        if [int(row) for row in rows] != [points for _, points, _ in have]:
            return f"{page.name} has the points {rows}"
    return ""


def names() -> str:
    """Whether a name that no submission has is refused"""
    try:
        cases(["no such submission"])
    except SystemExit:
        return ""
    return "a name that no submission has passes"


def limit() -> str:
    """Whether a file on which the compiler works for ever ends in time"""
    text = ("#if __INCLUDE_LEVEL__ < 100\n#include __FILE__\n#include __FILE__\n#endif\n"
            '#include "/dev/stdin"\n')
    with tempfile.TemporaryDirectory(prefix="openreg-labs.") as name:
        top = pathlib.Path(name)
        os.chmod(top, 0o755)
        bench.prepare(top, "endless", 0, {"lab0.c": text})
        bench.build(top, ["endless"], 2)
        said = bench.Bench(top, SEED).grade("endless", 0).trouble
    return "" if "it does not compile: " in said and "Killed" in said else f"the grader says: {said}"


def warnings(path: pathlib.Path) -> str:
    log = (path / "build.log").read_text(encoding="utf-8")
    return "it has warnings of the compiler" if "warning:" in log else ""


class Run:
    """Several VMs, and a Python for the labs without one, that grade the cases in their order"""

    def __init__(self, top: pathlib.Path, todo: list) -> None:
        self.top, self.lock = top, threading.Lock()
        self.left: dict[bool, list] = {True: [], False: []}  # native or not
        for i, case in enumerate(todo):
            self.left[case[1] in NATIVE].append((i, case))
        self.good, self.broken, self.count, self.vms = True, False, 0, VMS
        # What each builder builds, in the order of the grading. The VMs must not wait for modules.
        modules, native = ([f"s{i}" for i, _ in self.left[kind]] for kind in (False, True))
        self.builds = [names for names in (modules[::2], modules[1::2], native) if names]

    def build(self, names: list[str]) -> None:
        try:
            bench.build(self.top, names)
        except Exception:
            self.broken = True
            raise

    def await_build(self, i: int) -> None:
        while not (self.top / f"s{i}" / "built").exists():
            if self.broken:
                raise RuntimeError("the modules cannot be built")
            time.sleep(0.2)

    def tell(self, title: str, tally, why: str, took: float) -> None:
        with self.lock:
            self.count += 1
            if why:
                self.good = False
                print(f"# {why}\n# " + tally.text().replace("\n", "\n# "))
            print(f"{'not ' if why else ''}ok {self.count} labs.{title.replace(' ', '_')} "
                  f"({tally.points} of {tally.most} points, {took:.0f} s)", flush=True)

    def leave(self) -> bool:
        """Whether a worker without a VM need not start another: the others grade the rest."""
        with self.lock:
            others = self.vms > 1
            self.vms -= others
            return others

    def work(self, native: bool) -> None:
        table = bench.Bench(self.top, SEED)
        try:
            while self.left[native]:
                with self.lock:
                    i, (title, lab, _, judge) = self.left[native].pop(0)
                self.await_build(i)
                start = time.monotonic()
                tally = table.grade(f"s{i}", lab)
                why = judge(tally)
                if title.startswith("solution"):
                    why = why or warnings(self.top / f"s{i}")
                self.tell(title, tally, why, time.monotonic() - start)
                if not native and title in SLOW and self.leave():
                    break
        except IndexError:  # the other VM took the last one
            pass
        except Exception:
            self.good = False
            raise
        finally:
            table.close()


def main() -> int:
    asked = sys.argv[1:]
    if asked[:1] == ["--needs"]:
        print("plugin" if any(case[1] in NATIVE for case in cases(asked[1:])) else "")
        return 0
    with tempfile.TemporaryDirectory(prefix="openreg-labs.") as name:
        top = pathlib.Path(name)
        os.chmod(top, 0o755)
        todo = cases(asked)
        for i, (_, lab, files, _) in enumerate(todo):
            bench.prepare(top, f"s{i}", lab, files)
        run, endless = Run(top, todo), []
        workers = [*(threading.Thread(target=run.build, args=(names,)) for names in run.builds),
                   threading.Thread(target=lambda: endless.append(limit())),
                   *(threading.Thread(target=run.work, args=(native,))
                     for native in [True] + [False] * VMS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    checks = {"pages": pages(), "names": names(), "limit": (endless or ["it failed"])[0]}
    for i, (check, wrong) in enumerate(checks.items()):
        run.good = run.good and not wrong
        print(f"{'not ' if wrong else ''}ok {len(todo) + i + 1} labs.{check} {wrong}")
    print(f"1..{len(todo) + len(checks)}")
    return 0 if run.good and run.count == len(todo) else 1


if __name__ == "__main__":
    os.environ.pop("PYTHONHOME", None)  # for the scripts that this program starts
    sys.exit(main())
