# SPDX-License-Identifier: BSD-3-Clause
"""Trains each model of models.py for two steps on the card, without a fallback, in f32 and
under autocast. The losses must equal the CPU's.

Each model has its own test function, so that a run with --cases covers all models.
"""

import contextlib
import copy
import functools

import pytest
import torch
from torch import nn

import models
from ops import no_fallback, to_card

# With oneDNN switched off, core looks for an Intel GPU and warns.
pytestmark = pytest.mark.filterwarnings("ignore:TF32")

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
# (dtype, optimizer, its form). With --cases=2, the first and the fifth run. The CPU uses
# the plain optimizer.
WAYS = [
    (F32, "sgd", "foreach"), (F32, "sgd", "fused"),
    (F32, "adamw", "fused"), (F32, "adamw", "foreach"),
    (BF16, "adamw", "foreach"), (BF16, "sgd", "fused"),
    (F16, "sgd", "foreach"), (F16, "adamw", "fused"),
]
# torch's tolerances for the dtypes.
RTOL = {F32: 1.3e-6, F16: 1e-3, BF16: 1.6e-2}
ATOL = 1e-5


@functools.cache
def on_card(name: str) -> tuple[models.Case, nn.Module]:
    """The case, and its model on the card. The card initializes the model faster: an
    emulated CPU makes only half a million normal numbers a second."""
    case = models.CASES[name]()
    torch.manual_seed(0)
    with torch.device("openreg"):
        return case, case.make()


def optimizer_of(case: models.Case, model: nn.Module, name: str, **how) -> torch.optim.Optimizer:
    if name == "sgd":
        return torch.optim.SGD(model.parameters(), lr=case.sgd_rate, momentum=0.9, **how)
    # Some gradients consist of rounding errors, such as that of the keys' bias, and Adam
    # makes full steps of them. The loss is unaffected, since softmax cancels this bias.
    return torch.optim.AdamW(model.parameters(), lr=case.adam_rate, **how)


def losses(case, model, optimizer, inputs, dtype) -> list[float]:
    """The losses of two training steps, and then of the evaluation."""
    device = inputs[0].device.type
    # A small scale: with an overflow the scaler would skip the step, and no losses differ.
    scaler = torch.amp.GradScaler(device, init_scale=1024.0, enabled=dtype == F16)

    def loss_of() -> torch.Tensor:
        with torch.autocast(device, dtype=dtype, enabled=dtype != F32):
            return case.loss_of(model, *inputs)

    model.train()
    out = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = loss_of()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        out.append(loss.item())
    assert not scaler.is_enabled() or scaler.get_scale() == 1024
    with torch.no_grad():
        model.eval()
        return out + [loss_of().item()]


@contextlib.contextmanager
def one_thread():
    """A context with one torch thread. Beside a card's threads, several torch threads that
    wait for each other take ten times as long."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@functools.cache
def on_cpu(name: str, dtype: torch.dtype, optimizer: str) -> list[float]:
    case, model = on_card(name)
    model = copy.deepcopy(model).cpu()
    steps = optimizer_of(case, model, optimizer)
    # oneDNN supports half types on some processors only, and takes seven times as long on
    # an emulated processor. Core's own kernels support them everywhere.
    with torch.backends.mkldnn.flags(enabled=False), one_thread():
        return losses(case, model, steps, case.inputs, dtype)


def check(name: str, way: tuple, **rtol: float) -> None:
    dtype, optimizer, how = way
    case, model = on_card(name)
    want = on_cpu(name, dtype, optimizer)
    model = copy.deepcopy(model)
    with no_fallback():
        steps = optimizer_of(case, model, optimizer, **{how: True})
        got = losses(case, model, steps, to_card(case.inputs), dtype)
    torch.testing.assert_close(got, want, **{"rtol": RTOL[dtype], "atol": ATOL, **rtol})
    assert min(want[1:]) < want[0]


def name_of(way: tuple) -> str:
    return " ".join([str(way[0]).removeprefix("torch."), *way[1:]])


every_way = pytest.mark.parametrize("way", WAYS, ids=name_of)
# An emulated CPU takes minutes for the convolutions of such a model in each half type.
every_way_of_many_weights = pytest.mark.parametrize(
    "way",
    [pytest.param(way, marks=() if way[0] == F32 else pytest.mark.native) for way in WAYS],
    ids=name_of,
)


@every_way
def test_lstm(way):
    check("lstm", way)


@every_way
def test_gru(way):
    check("gru", way)


@every_way
def test_blocks(way):
    check("blocks", way)


@every_way
def test_encoder_and_decoder(way):
    check("encoder and decoder", way)


@pytest.mark.native
@every_way
def test_gpt2(way):
    check("gpt2", way)


@every_way
def test_bert(way):
    check("bert", way)


@every_way
def test_llama(way):
    check("llama", way)


@every_way_of_many_weights
def test_resnet18(way):
    # The tolerances are the CPU's own differences between two layouts of the same pictures,
    # contiguous and channels_last. Its second loss differs by 1.6e-2 (AdamW) and 2.7e-3
    # (SGD) in f16, by 6.3e-2 and 9.1e-3 in bf16. The card differed from the CPU by at most
    # 2.1e-3 in f16, and by 3.2e-2 in bf16 on a host with AMX.
    rtol = {F16: {"rtol": 1.6e-2}, BF16: {"rtol": 6.3e-2}}
    check("resnet18", way, **rtol.get(way[0], {}))


@every_way
def test_unet(way):
    check("unet", way)
