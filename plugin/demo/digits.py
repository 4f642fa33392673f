#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains two small networks to read digits, on the openreg card.

    make demo                              in a VM
    python3 plugin/demo/digits.py          on a machine with a card
    python3 plugin/demo/digits.py --losses also print the exact loss of every step

The images are from scikit-learn: 1,797 images of 8 x 8 pixels. Only the name of the
device is specific to the card.
"""

import argparse
import gzip
import importlib.util
import os
import pathlib
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

BATCH = 256
TEST_IMAGES = 360
GOOD_ENOUGH = 0.95


class Failure(Exception):
    """The reason why the demo cannot run, or has failed."""


def read_digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Returns images [n, 64], with values between -0.5 and 0.5, and their labels [n]."""
    spec = importlib.util.find_spec("sklearn")
    if spec is None:
        raise Failure("the digits are missing: apt-get install python3-sklearn")
    path = pathlib.Path(spec.origin).parent / "datasets/data/digits.csv.gz"
    with gzip.open(path, "rt") as lines:
        table = torch.tensor([[float(n) for n in line.split(",")] for line in lines])
    return table[:, :-1] / 16 - 0.5, table[:, -1].long()


class Data:
    """The images, shuffled once and split into training and test images."""

    def __init__(self) -> None:
        images, labels = read_digits()
        order = torch.randperm(len(images))
        images, labels = images[order], labels[order]
        self.images, self.labels = images[TEST_IMAGES:], labels[TEST_IMAGES:]
        self.test_images, self.test_labels = images[:TEST_IMAGES], labels[:TEST_IMAGES]

    def batches(self, device: str):
        """Yields full batches in a new order. Shuffles on the CPU, and copies all images to
        the device at once."""
        order = torch.randperm(len(self.images))
        images, labels = self.images[order].to(device), self.labels[order].to(device)
        for start in range(0, len(order) - BATCH + 1, BATCH):
            yield images[start : start + BATCH], labels[start : start + BATCH]


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
    )


class Attention(nn.Module):
    """One transformer block. Every row of the image is a token."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.embed = nn.Linear(8, width)
        self.position = nn.Parameter(torch.rand(8, width) - 0.5)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.head = nn.Linear(8 * width, 10)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        qkv = self.qkv(x).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v)
        return self.join(mixed.transpose(1, 2).reshape(batch, tokens, width))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.embed(images.view(-1, 8, 8)) + self.position
        x = x + self.attend(self.norm1(x))
        x = x + self.narrow(F.gelu(self.wide(self.norm2(x))))
        return self.head(x.flatten(1))


# For each network: the function that creates it, the epochs, the first learning rate
NETWORKS = {"MLP": (mlp, 15, 3e-3), "attention": (Attention, 20, 6e-3)}


def step(model: nn.Module, optimizer, images, labels) -> torch.Tensor:
    """Runs one step of training. Returns the loss, which is still on the device."""
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


@torch.no_grad()
def accuracy(model: nn.Module, data: Data, device: str) -> float:
    guess = model(data.test_images.to(device)).argmax(dim=1)
    return (guess == data.test_labels.to(device)).float().mean().item()


def print_epoch(epoch: int, loss: float, reached: float, losses: torch.Tensor) -> None:
    print(f"  epoch {epoch:2}  loss {loss:.4f}  accuracy {reached:.4f}", flush=True)


def print_epoch_and_losses(epoch: int, loss: float, reached: float, losses: torch.Tensor) -> None:
    print_epoch(epoch, loss, reached, losses)
    print("    " + " ".join(loss.hex() for loss in losses.tolist()), flush=True)


def train(
    model: nn.Module, data: Data, epochs: int, rate: float, report=print_epoch
) -> tuple[float, float]:
    """Returns the final accuracy and the seconds of one step."""
    model.to("openreg")
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, fused=True)
    seconds, steps = 0.0, 0
    for epoch in range(1, epochs + 1):
        optimizer.param_groups[0]["lr"] = rate * (1 - (epoch - 1) / epochs)
        begin = time.monotonic()
        losses = [step(model, optimizer, *batch) for batch in data.batches("openreg")]
        losses = torch.stack(losses)
        loss = losses.mean().item()  # waits for the card
        if epoch > 1:  # do not time the first epoch: it also fills caches
            seconds, steps = seconds + time.monotonic() - begin, steps + len(losses)
        reached = accuracy(model, data, "openreg")
        report(epoch, loss, reached, losses)
    return reached, seconds / steps


def step_on_cpu(model: nn.Module, data: Data) -> float:
    """Returns the seconds of one step of the same training on the guest's own CPU."""
    model.to("cpu")
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    images, labels = next(data.batches("cpu"))
    step(model, optimizer, images, labels)  # as on the card, do not time the first step
    begin = time.monotonic()
    step(model, optimizer, images, labels)
    return time.monotonic() - begin


def cpu_kind() -> str:
    """Returns the name of the CPU that runs the program, and whether it is emulated."""
    if os.environ.get("OPENREG_TRANSPORT") == "sim":
        return "this CPU"
    with open("/proc/cpuinfo") as info:
        text = info.read()
    if "TCG" in text:
        return "guest's CPU (emulated)"
    return "guest's CPU (KVM)" if " hypervisor" in text else "this CPU"


def run(name: str, data: Data, report) -> dict:
    """Trains a model. Returns its figures for the table."""
    make, epochs, rate = NETWORKS[name]
    model = make()
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{name}: {parameters:,} parameters, batches of {BATCH} images", flush=True)
    before = torch.openreg.stats()
    reached, seconds = train(model, data, epochs, rate, report)
    after = torch.openreg.stats()
    used = {key: after[key] - before[key] for key in after}
    return {
        "test accuracy": reached,
        "ops run on the card": used["ops"],
        "CPU fallbacks": used["fallbacks"],
        "packets": used["packets"],
        "doorbells": used["doorbells"],
        "interrupts": used["interrupts"],
        "bytes by DMA": used["dma_read"] + used["dma_written"],
        "ms a step, openreg": seconds * 1e3,
        f"ms a step, {cpu_kind()}": step_on_cpu(model, data) * 1e3,
    }


def print_table(results: dict[str, dict]) -> None:
    def cell(value) -> str:
        return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"

    print(f"\n{'':36}" + "".join(f"{name:>16}" for name in results))
    for row in next(iter(results.values())):
        print(f"{row:36}" + "".join(f"{cell(r[row]):>16}" for r in results.values()))


def judge(results: dict[str, dict]) -> str:
    """Returns the last line of the output, with the lower of the two accuracies."""
    columns = list(results.values())
    worst = min(r["test accuracy"] for r in columns)
    fallbacks = sum(r["CPU fallbacks"] for r in columns)
    if fallbacks:
        raise Failure(f"ran on the CPU: {torch.openreg.fallbacks()}")
    if worst < GOOD_ENOUGH:
        raise Failure(f"accuracy is {worst:.3f}, less than {GOOD_ENOUGH}")
    card, cpu = (sum(list(r.values())[i] for r in columns) for i in (-2, -1))
    return f"demo: ok accuracy={worst:.2f} fallbacks=0 speedup={cpu / card:.1f}x"


def main(arguments=()) -> int:
    parser = argparse.ArgumentParser(description="Trains two small networks on the openreg card.")
    parser.add_argument("--losses", action="store_true", help="print the exact loss of every step")
    show = print_epoch_and_losses if parser.parse_args(arguments).losses else print_epoch
    try:
        if not hasattr(torch, "openreg") or not torch.openreg.is_available():
            raise Failure("no openreg card; make demo starts a VM with a card")
        torch.manual_seed(0)
        data = Data()
        results = {name: run(name, data, show) for name in NETWORKS}
        print_table(results)
        print(judge(results))
    except Failure as why:
        print(f"demo: failed: {why}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
