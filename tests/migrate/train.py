#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Train the demo's networks on every card at once, with one process for each card.

The script runs in the guest. It trains once alone, then TIMES times while C programs
keep the cards busy and the VM migrates (scripts/vm --move). All losses must be equal
to the last bit.

    python3 tests/migrate/train.py [TIMES]

TIMES is 1 by default. With 0 the script only prints the losses, to compare them with
those of another VM.
"""

import importlib.util
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys

import torch

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "plugin/demo/digits.py"
CARDS = range(int(os.environ["OPENREG_CARDS"]))


def load_demo():
    spec = importlib.util.spec_from_file_location("digits", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def train(demo, card: int, to: int) -> None:
    """Train on one card; write a line for each epoch, with one write() to the pipe."""
    torch.openreg.set_device(card)
    torch.manual_seed(card)
    data = demo.Data()
    for name, (make, epochs, rate) in demo.NETWORKS.items():

        def tell(epoch: int, loss: float, reached: float, losses: torch.Tensor) -> None:
            exact = " ".join(loss.hex() for loss in losses.tolist())
            os.write(to, f"card {card} {name} {epoch}: {exact}\n".encode())

        demo.train(make(), data, epochs, rate, tell)
    assert torch.openreg.stats()["fallbacks"] == 0, torch.openreg.fallbacks()


def train_all(demo, title: str) -> list[str]:
    """Train on all cards; return the lines in the order of cards and epochs."""
    context = multiprocessing.get_context("fork")
    end, to = os.pipe()
    children = [context.Process(target=train, args=(demo, card, to)) for card in CARDS]
    for child in children:
        child.start()
    os.close(to)
    lines = []
    with os.fdopen(end) as pipe:
        for line in pipe:
            print(title, line, end="", flush=True)
            lines.append(line)
    for child in children:
        child.join()
    if any(child.exitcode for child in children):
        sys.exit(f"Bail out! training {title} has failed")
    return sorted(lines, key=lambda line: line.split(" ")[:3])  # stable: keeps epochs


class Tests:
    """Print results as TAP."""

    def __init__(self, planned: int) -> None:
        self.done = self.failed = 0
        print(f"1..{planned}", flush=True)

    def report(self, good: bool, name: str) -> None:
        self.done += 1
        self.failed += not good
        print("ok" if good else "not ok", self.done, name, flush=True)


def start_load(card: int) -> subprocess.Popen:
    program = pathlib.Path(os.environ["OPENREG_TESTS"]) / "migrate/load"
    return subprocess.Popen([program, str(card)], stdout=subprocess.PIPE, text=True)


def end_load(load: subprocess.Popen) -> tuple[bool, str]:
    alive = load.poll() is None
    load.send_signal(signal.SIGTERM)
    text, _ = load.communicate()
    return alive and load.returncode == 0, text.strip()


def compare(tests: Tests, demo, alone: list[str], moved: list[str]) -> None:
    for card in CARDS:
        for name, (_, epochs, _) in demo.NETWORKS.items():
            title = f"card {card} {name} "
            first = [line for line in alone if line.startswith(title)]
            again = [line for line in moved if line.startswith(title)]
            same = len(first) == epochs and first == again
            tests.report(same, f"{title}has the same losses in {epochs} epochs")


def main() -> int:
    demo = load_demo()
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    if not times:
        train_all(demo, "alone")
        return 0
    tests = Tests(planned=len(CARDS) * (times * len(demo.NETWORKS) + 1))
    alone = train_all(demo, "alone")
    loads = [start_load(card) for card in CARDS]
    for _ in range(times):
        compare(tests, demo, alone, train_all(demo, "moved"))
    for card, load in zip(CARDS, loads):
        good, text = end_load(load)
        tests.report(good, f"card {card} at work beside it: {text}")
    return tests.failed > 0


if __name__ == "__main__":
    sys.exit(main())
