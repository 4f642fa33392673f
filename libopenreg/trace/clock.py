# SPDX-License-Identifier: MIT
"""CLOCK of the cards as CLOCK_MONOTONIC, with a bound of the error.

A moment (before, after, card) says: when CLOCK was card, CLOCK_MONOTONIC was between before
and after. Between two moments the clocks run at a constant ratio. The other moments show how
far that is from the truth.
"""
import bisect

Moment = tuple[int, int, int]

APART_NS = 100_000_000  # a ratio of clocks over less time would be wrong


def middle(moment: Moment) -> float:
    return (moment[0] + moment[1]) / 2


def half(moment: Moment) -> float:
    return (moment[1] - moment[0]) / 2


def choose(moments: list[Moment]) -> list[Moment]:
    """The best of moments that are near each other."""
    chosen: list[Moment] = []
    for m in moments:
        if not chosen or m[2] - chosen[-1][2] >= APART_NS:
            chosen.append(m)
        elif half(m) < half(chosen[-1]):
            chosen[-1] = m
    return chosen


class Clock:
    def __init__(self, moments: list[Moment]) -> None:
        moments = sorted(set(moments), key=lambda m: m[2])
        chosen = choose(moments)
        self.cards = [m[2] for m in chosen]
        self.times = [middle(m) for m in chosen]
        self.rate = 1.0
        if len(chosen) > 1:
            self.rate = (self.times[-1] - self.times[0]) / (self.cards[-1] - self.cards[0])
        self.error = 1 + max(half(m) for m in chosen) + max(
            [self._bend(), *(abs(self.ns(m[2]) - middle(m)) - half(m) for m in moments)])

    def _bend(self) -> float:
        """How far a moment is from the line between its neighbours."""
        worst = 0.0
        for i in range(1, len(self.cards) - 1):
            left, right = self.cards[i - 1], self.cards[i + 1]
            part = (self.cards[i] - left) / (right - left)
            line = self.times[i - 1] + part * (self.times[i + 1] - self.times[i - 1])
            worst = max(worst, abs(line - self.times[i]))
        return worst

    def ns(self, card: int) -> int:
        """CLOCK_MONOTONIC at this time of the card."""
        i = bisect.bisect_right(self.cards, card)
        if 0 < i < len(self.cards):
            left, right = self.cards[i - 1], self.cards[i]
            rate = (self.times[i] - self.times[i - 1]) / (right - left)
            return round(self.times[i - 1] + (card - left) * rate)
        i = max(i - 1, 0)
        return round(self.times[i] + (card - self.cards[i]) * self.rate)


def clocks_of(moments: dict[str, list[Moment]]) -> dict[str, Clock]:
    """A clock for each card. The cards of a machine have one clock. They get the same
    conversion, so that the order of their packets is exact."""
    groups: list[tuple[list[str], list[Moment]]] = []
    for name, own in moments.items():
        for names, shared in groups:
            clock = Clock(shared)
            if all(abs(clock.ns(m[2]) - middle(m)) <= half(m) + clock.error + 20_000
                   for m in own):
                names.append(name)
                shared += own
                break
        else:
            if own:
                groups.append(([name], list(own)))
    return {name: clock for names, shared in groups
            for clock in [Clock(shared)] for name in names}
