# SPDX-License-Identifier: BSD-3-Clause
"""The demo on several cards: the losses are those of one card."""

import importlib
import pathlib
import sys

import pytest
import torch

DEMO = pathlib.Path(__file__).resolve().parents[3] / "plugin/demo"


def module():
    if str(DEMO) not in sys.path:
        sys.path.insert(0, str(DEMO))
    return importlib.import_module("digits_ddp")


def train(ranks, epochs=3):
    demo = module()
    torch.manual_seed(0)
    data = demo.digits.Data()
    before = torch.openreg.stats()["fallbacks"]
    losses, reached = demo.train(demo.digits.mlp(), data, epochs, 3e-3, ranks)
    return losses.tolist(), reached, torch.openreg.stats()["fallbacks"] - before


@pytest.mark.native
def test_losses_are_those_of_one_card(pair):
    demo = module()
    (losses, reached, on_cpu), (others, *_) = pair.run(train, 2)
    assert losses == others and on_cpu == 0
    # Bit-equal from run to run.
    assert pair.run(train, 2)[0][0] == losses
    alone, accuracy, _ = train(1)
    worst = max(abs(a - b) for a, b in zip(losses, alone, strict=True))
    assert 0 < worst < demo.LARGEST_DIFFERENCE
    assert abs(reached - accuracy) < 0.02


def test_verdicts():
    demo = module()
    many, one = torch.tensor([1.0, 0.5]), torch.tensor([1.0, 0.5001])
    assert demo.judge(many, one, 0.97, 0).startswith("demo: ok accuracy=0.97 fallbacks=0")
    with pytest.raises(demo.digits.Failure, match="less than 0.95"):
        demo.judge(many, one, 0.9, 0)
    with pytest.raises(demo.digits.Failure, match="on the CPU"):
        demo.judge(many, one, 0.97, 2)
    with pytest.raises(demo.digits.Failure, match="a loss differs"):
        demo.judge(many, one + 1, 0.97, 0)


def test_start_without_torchrun(monkeypatch, capsys):
    demo = module()
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    assert demo.main() == 1
    assert "start it with make demo-ddp" in capsys.readouterr().out
