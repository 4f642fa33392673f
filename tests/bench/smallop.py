# SPDX-License-Identifier: MIT
"""(d) x.add_(y) on 16 elements, 10,000 times, and a synchronize; (f) the doorbells and
interrupts of these calls, from the card's own counters."""

import glob

import torch

from common import DEVICES, figure, measure

LAUNCHES = 10000


def card_stats():
    """Returns the totals of the first card, by name."""
    path = sorted(glob.glob("/sys/kernel/debug/accel/*/openreg_stats"))[0]
    with open(path, encoding="ascii") as f:
        return {name: int(value) for name, value in (line.split() for line in f)}


def add_many(x, y):
    for _ in range(LAUNCHES):
        x.add_(y)


for device in DEVICES:
    x = torch.zeros(16, device=device)
    y = torch.ones(16, device=device)
    add_many(x, y)
    before = card_stats()
    took = measure(lambda: add_many(x, y), device, 5)
    after = card_stats()
    figure("d", f"x.add_(y) on {device}", 1e6 * took / LAUNCHES, "us")
    if device == "openreg":
        for name in ("doorbells", "interrupts"):
            each = 1e3 * (after[name] - before[name]) / (5 * LAUNCHES)
            figure("f", f"{name} per 1000 launches from Python", each, "")
