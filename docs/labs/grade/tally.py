# SPDX-License-Identifier: MIT
"""The points of one lab: what each check expects, and what the grader saw."""
import textwrap
from dataclasses import dataclass, field


def head(text: str, most: int) -> str:
    """The first words of the text, in one line of at most so many characters"""
    return textwrap.shorten(text, most, placeholder=" ...")


def tail(text: str, most: int) -> str:
    """The last words of the text, so too"""
    return textwrap.shorten(text[::-1], most, placeholder=" ...")[::-1]


@dataclass
class Check:
    name: str
    points: int
    expected: str
    good: bool = False
    seen: str = ""


@dataclass
class Tally:
    """Points of a lab. A check that is never set has failed."""
    lab: int
    title: str
    checks: dict[str, Check] = field(default_factory=dict)
    trouble: str = ""  # what ended the grading early

    def __init__(self, lab: int, title: str, checks: list[tuple[str, int, str]]) -> None:
        self.lab, self.title, self.trouble = lab, title, ""
        self.checks = {name: Check(name, points, expected) for name, points, expected in checks}

    def set(self, name: str, good: bool, seen: object = "") -> bool:
        check = self.checks[name]
        check.good, check.seen = bool(good), str(seen)
        return check.good

    def end(self, trouble: str) -> None:
        """The lab cannot be graded further. Of the checks before, the points stay."""
        self.trouble = trouble

    def spoil(self, trouble: str) -> None:
        """What the driver did takes all its points: an oops, a module that stays loaded."""
        self.trouble = trouble
        for check in self.checks.values():
            if check.good:
                check.seen = "as expected; the points are lost by what stopped the grading, below"
            check.good = False
            check.seen = check.seen or "not reached"

    @property
    def points(self) -> int:
        return sum(check.points for check in self.checks.values() if check.good)

    @property
    def most(self) -> int:
        return sum(check.points for check in self.checks.values())

    def text(self) -> str:
        lines = [f"lab {self.lab}: {self.title}"]
        for check in self.checks.values():
            got = check.points if check.good else 0
            lines.append(f"  {got}/{check.points}  {check.name}")
            if not check.good:
                lines += [f"        expected: {check.expected}",
                          f"        seen:     {check.seen or 'not reached'}"]
        if self.trouble:
            lines.append(f"  stopped: {self.trouble}")
        lines.append(f"  {self.points} of {self.most} points")
        return "\n".join(lines)

    def report(self) -> dict:
        return {"lab": self.lab, "title": self.title, "points": self.points, "of": self.most,
                "stopped": self.trouble,
                "checks": [{"name": check.name, "of": check.points,
                            "points": check.points if check.good else 0,
                            "expected": check.expected, "seen": check.seen or "not reached"}
                           for check in self.checks.values()]}
