# SPDX-License-Identifier: BSD-3-Clause
"""Four cards train ResNet-18 by DDP and GPT-2 by FSDP2 as one card does with the whole batch,
and two cards go on where four have stopped."""

import pathlib
import sys

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from ranks import DEV, card
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import models  # noqa: E402

STEPS, BATCH = 3, 8


@pytest.fixture(scope="module")
def quad(processes):
    ranks = processes(4)
    ranks.start()
    yield ranks
    ranks.stop()


def pictures(step):
    generator = torch.Generator().manual_seed(step)
    labels = torch.randint(0, 5, (BATCH,), generator=generator)
    return torch.randn(BATCH, 3, 40, 40, generator=generator), labels


def texts(step):
    generator = torch.Generator().manual_seed(step)
    return (torch.randint(models.WORDS, (BATCH, models.LENGTH), generator=generator),)


def of_text(model, words):
    return model(input_ids=words, labels=words).loss


def train(model, optimizer, batch, loss_of, steps, ranks):
    """Returns the losses of the whole batch."""
    losses = []
    for step in steps:
        own = [t.chunk(ranks)[dist.get_rank() if ranks > 1 else 0] for t in batch(step)]
        loss = loss_of(model, *(t.to(card()) for t in own))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss = loss.detach().clone()
        if ranks > 1:
            dist.all_reduce(loss, dist.ReduceOp.AVG)
        losses.append(loss.item())
    return losses


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def resnet(ranks):
    torch.manual_seed(1)
    model = models.resnet18().make()
    if ranks > 1:
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model).to(card())
        model = DistributedDataParallel(model)
    model.to(card())
    return train(model, sgd(model), pictures, models.picture_loss, range(STEPS), ranks)


def sharded_gpt2(ranks):
    torch.manual_seed(1)
    model = models.make_gpt2().to(card())
    if ranks > 1:
        mesh = init_device_mesh(DEV, (ranks,))
        for block in model.transformer.h:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3)


def gpt2(ranks):
    model, optimizer = sharded_gpt2(ranks)
    return train(model, optimizer, texts, of_text, range(STEPS), ranks)


def run(function):
    """Twice on all cards, and on one card by rank 0."""
    ranks = dist.get_world_size()
    first, second = function(ranks), function(ranks)
    return first, second, function(1) if dist.get_rank() == 0 else None


@pytest.mark.native
@pytest.mark.parametrize("function", [pytest.param(resnet, marks=pytest.mark.long), gpt2])
def test_losses_are_those_of_one_card(quad, function):
    results = quad.run(run, function, timeout=300)
    first, second, alone = results[0]
    assert first == second, "the losses differ from run to run"
    assert all(r[0] == first for r in results)
    assert first[0] != first[-1]
    torch.testing.assert_close(first, alone, rtol=2e-4, atol=2e-5)


def save(path):
    """Trains, saves, and goes on."""
    ranks = dist.get_world_size()
    model, optimizer = sharded_gpt2(ranks)
    train(model, optimizer, texts, of_text, range(2), ranks)
    weights, state = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": state}, checkpoint_id=path)
    return train(model, optimizer, texts, of_text, range(2, 5), ranks)


def resume(path):
    ranks = dist.get_world_size()
    model, optimizer = sharded_gpt2(ranks)
    weights, state = get_state_dict(model, optimizer)
    dcp.load({"model": weights, "optimizer": state}, checkpoint_id=path)
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=state)
    return train(model, optimizer, texts, of_text, range(2, 5), ranks)


@pytest.mark.native
def test_two_cards_resume_what_four_have_saved(quad, pair, tmp_path):
    path = str(tmp_path / "checkpoint")
    expected = quad.run(save, path)[0]
    losses = pair.run(resume, path)
    assert losses[0] == losses[1]
    torch.testing.assert_close(losses[0], expected, rtol=2e-4, atol=2e-5)
