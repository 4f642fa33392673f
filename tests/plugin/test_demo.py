# SPDX-License-Identifier: BSD-3-Clause
"""Tests the parts of the demo, without its minute of training."""

import importlib.util
import pathlib

import pytest
import torch

from ops import no_fallback

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "plugin/demo/digits.py"


@pytest.fixture(scope="module")
def demo():
    spec = importlib.util.spec_from_file_location("digits", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_data(demo):
    data = demo.Data()
    assert len(data.images) + len(data.test_images) == 1797
    assert data.images.min() == -0.5 and data.images.max() == 0.5
    assert sorted(data.labels.unique().tolist()) == list(range(10))


@pytest.mark.parametrize("name", ["mlp", "Attention"])
def test_an_epoch_stays_on_the_card(demo, name):
    data = demo.Data()
    with no_fallback():
        accuracy, seconds = demo.train(getattr(demo, name)(), data, epochs=2, rate=1e-3)
    assert accuracy > 0.2 and seconds > 0


def test_losses_to_the_last_bit(demo, capsys):
    losses = torch.rand(3).to("openreg")
    demo.print_epoch_and_losses(7, losses.mean().item(), 0.5, losses)
    short, exact = capsys.readouterr().out.splitlines()
    assert short == f"  epoch  7  loss {losses.mean().item():.4f}  accuracy 0.5000"
    assert [float.fromhex(text) for text in exact.split()] == losses.tolist()


def test_verdicts(demo):
    column = {"test accuracy": 0.97, "CPU fallbacks": 0, "card": 1.0, "cpu": 50.0}
    line = demo.judge({"a": column, "b": {**column, "test accuracy": 0.96}})
    assert line == "demo: ok accuracy=0.96 fallbacks=0 speedup=50.0x"
    with pytest.raises(demo.Failure, match="less than 0.95"):
        demo.judge({"a": {**column, "test accuracy": 0.9}})
    with pytest.raises(demo.Failure, match="on the CPU"):
        demo.judge({"a": {**column, "CPU fallbacks": 1}})


def test_without_a_card(demo, monkeypatch, capsys):
    monkeypatch.setattr(torch.openreg, "is_available", lambda: False)
    assert demo.main() == 1
    assert "demo: failed: no openreg card" in capsys.readouterr().out
