# SPDX-License-Identifier: BSD-3-Clause
"""Two cards train as one does with the whole batch."""

import copy

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from ranks import DEV, card
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

STEPS = 4
BATCH = 12


def network(norm=nn.Identity):
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), norm(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5)
    )


def batches():
    generator = torch.Generator().manual_seed(2)
    for _ in range(STEPS):
        yield (
            torch.randn(BATCH, 3, 6, 6, generator=generator),
            torch.randint(0, 5, (BATCH,), generator=generator),
        )


def train(model, part, reduce):
    """Returns the losses of the whole batch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for x, y in batches():
        loss = F.cross_entropy(model(part(x).to(card())), part(y).to(card()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if reduce:
            loss = loss.detach().clone()
            dist.all_reduce(loss, dist.ReduceOp.AVG)
        losses.append(loss.item())
    return losses


def own_part(t):
    return t.chunk(dist.get_world_size())[dist.get_rank()]


def as_one_card(model):
    return train(copy.deepcopy(model).to(card()), lambda t: t, reduce=False)


def ddp(**options):
    expected = as_one_card(network())
    model = DistributedDataParallel(network().to(card()), **options)
    losses = train(model, own_part, reduce=True)
    torch.testing.assert_close(losses, expected, rtol=1e-5, atol=1e-6)
    again = train(DistributedDataParallel(network().to(card()), **options), own_part, True)
    assert losses == again
    return [p.detach().cpu() for p in model.parameters()]


@pytest.mark.native
@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({"static_graph": True}, marks=pytest.mark.native),
        pytest.param({"gradient_as_bucket_view": True}, marks=pytest.mark.native),
        pytest.param({"bucket_cap_mb": 0.001}, marks=pytest.mark.native),
        pytest.param({"find_unused_parameters": True}, marks=pytest.mark.native),
    ],
    ids=lambda options: "-".join(options) or "plain",
)
def test_data_parallel(pair, options):
    parameters = pair.run(ddp, **options)
    for a, b in zip(*parameters):
        assert torch.equal(a, b)


def hooked():
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    losses = {}
    for hook in (default_hooks.allreduce_hook, default_hooks.fp16_compress_hook):
        model = DistributedDataParallel(network().to(card()))
        model.register_comm_hook(None, hook)
        losses[hook.__name__] = train(model, own_part, reduce=True)
    model = DistributedDataParallel(network().to(card()))
    state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    losses["powerSGD"] = train(model, own_part, reduce=True)
    expected = as_one_card(network())
    for name, found in losses.items():
        torch.testing.assert_close(found, expected, rtol=0.05, atol=0.05, msg=name)


@pytest.mark.native
def test_hooks(pair):
    pair.run(hooked)


def logged():
    model = DistributedDataParallel(network().to(card()))
    model._set_ddp_runtime_logging_sample_rate(1)
    train(model, own_part, reduce=False)
    log = model._get_ddp_logging_data()
    return {k: v for k, v in log.items() if k.startswith("avg_") and k.endswith("time")}


@pytest.mark.native
def test_times_in_the_log(pair):
    for times in pair.run(logged):
        for name in ("forward_compute_time", "backward_compute_time", "backward_comm_time"):
            assert times[f"avg_{name}"] > 0, times


def synchronized_norm():
    model = network(nn.BatchNorm2d)
    expected_model = copy.deepcopy(model).to(card())
    expected = train(expected_model, lambda t: t, reduce=False)
    model = nn.SyncBatchNorm.convert_sync_batchnorm(model).to(card())
    losses = train(DistributedDataParallel(model), own_part, reduce=True)
    torch.testing.assert_close(losses, expected, rtol=1e-4, atol=1e-5)
    for a, b in zip(model.buffers(), expected_model.buffers()):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.native
def test_sync_batch_norm(pair):
    pair.run(synchronized_norm)


def uneven_norm():
    """Ranks may have batches of different sizes, and half precision."""
    rank = dist.get_rank()
    x = torch.randn(7, 4, 5, generator=torch.Generator().manual_seed(3))
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 0.05)):
        one = nn.BatchNorm1d(4)
        expected = x.clone().requires_grad_()
        out = one(expected)
        (out * torch.arange(5.0)).sum().backward()
        part = x[:5] if rank == 0 else x[5:]
        mine = part.to(card(), dtype).requires_grad_()
        norm = nn.SyncBatchNorm(4).to(card())
        result = norm(mine)
        (result * torch.arange(5.0, device=card())).sum().backward()
        places = slice(0, 5) if rank == 0 else slice(5, 7)
        close = dict(rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(result.float().cpu(), out[places], **close)
        close["atol"] *= 10
        torch.testing.assert_close(mine.grad.float().cpu(), expected.grad[places], **close)
        torch.testing.assert_close(norm.running_var.cpu(), one.running_var, **close)
        dist.all_reduce(norm.weight.grad)
        torch.testing.assert_close(norm.weight.grad.cpu(), one.weight.grad, **close)


@pytest.mark.native
def test_sync_batch_norm_of_uneven_parts(pair):
    pair.run(uneven_norm)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(width, 2 * width)
        self.outer = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.outer(F.gelu(self.inner(x)))


def blocks():
    torch.manual_seed(4)
    return nn.Sequential(nn.Flatten(), nn.Linear(108, 17), Block(17), Block(17), nn.Linear(17, 5))


def fsdp2(policy=None):
    expected = as_one_card(blocks())
    model = blocks().to(card())
    mesh = init_device_mesh(DEV, (dist.get_world_size(),))
    options = {"mesh": mesh, **({"mp_policy": policy} if policy else {})}
    for layer in model:
        if isinstance(layer, Block):
            fully_shard(layer, **options)
    fully_shard(model, **options)
    losses = train(model, own_part, reduce=True)
    tolerance = 0.05 if policy else 1e-5
    torch.testing.assert_close(losses, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.native
def test_fully_shard(pair):
    pair.run(fsdp2)


@pytest.mark.native
def test_fully_shard_in_mixed_precision(pair):
    pair.run(fsdp2, MixedPrecisionPolicy(torch.bfloat16, torch.float32))


def zero():
    from torch.distributed.optim import ZeroRedundancyOptimizer

    expected = as_one_card(network())
    model = DistributedDataParallel(network().to(card()))
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9
    )
    losses = []
    for x, y in batches():
        loss = F.cross_entropy(model(own_part(x).to(card())), own_part(y).to(card()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss = loss.detach().clone()
        dist.all_reduce(loss, dist.ReduceOp.AVG)
        losses.append(loss.item())
    torch.testing.assert_close(losses, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.native
def test_zero_redundancy_optimizer(pair):
    pair.run(zero)


def tensor_parallel():
    from torch.distributed.tensor import distribute_tensor, Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        parallelize_module,
        RowwiseParallel,
    )

    mesh = init_device_mesh(DEV, (dist.get_world_size(),))
    torch.manual_seed(5)
    block = Block(16)
    x = torch.randn(3, 16)
    expected = block(x)
    plan = {"inner": ColwiseParallel(), "outer": RowwiseParallel()}
    parallel = parallelize_module(block.to(card()), mesh, plan)
    torch.testing.assert_close(parallel(x.to(card())).cpu(), expected, rtol=1e-5, atol=1e-5)
    d = distribute_tensor(x, mesh, [Shard(1)])
    torch.testing.assert_close(d.redistribute(mesh, [Replicate()]).to_local().cpu(), x)


@pytest.mark.native
def test_tensor_parallel(pair):
    pair.run(tensor_parallel)


def attention():
    from torch.distributed.tensor import distribute_tensor, Shard

    mesh = init_device_mesh(DEV, (dist.get_world_size(),))
    torch.manual_seed(6)
    qkv = [torch.randn(2, 4, 10, 16) for _ in range(3)]
    whole = [t.clone().requires_grad_() for t in qkv]
    expected = F.scaled_dot_product_attention(*whole, is_causal=True)
    expected.square().sum().backward()
    for placement in (Shard(0), Shard(1)):
        parts = [distribute_tensor(t, mesh, [placement]).requires_grad_() for t in qkv]
        result = F.scaled_dot_product_attention(*parts, is_causal=True)
        assert result.placements == (placement,)
        result.square().sum().backward()
        close = dict(rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(result.full_tensor().cpu(), expected, **close)
        for part, t in zip(parts, whole):
            assert part.grad.placements == (placement,)
            torch.testing.assert_close(part.grad.full_tensor().cpu(), t.grad, **close)


@pytest.mark.native
def test_attention_of_distributed_tensors(pair):
    pair.run(attention)


def checkpoint(path):
    import torch.distributed.checkpoint as dcp

    mesh = init_device_mesh(DEV, (dist.get_world_size(),))
    model = blocks().to(card())
    fully_shard(model, mesh=mesh)
    state = model.state_dict()
    dcp.save(state, checkpoint_id=path)
    other = blocks().to(card())
    for p in other.parameters():
        p.data.zero_()
    fully_shard(other, mesh=mesh)
    loaded = other.state_dict()
    dcp.load(loaded, checkpoint_id=path)
    other.load_state_dict(loaded)
    for a, b in zip(model.parameters(), other.parameters()):
        assert torch.equal(a.full_tensor(), b.full_tensor())


@pytest.mark.native
def test_checkpoint(pair, tmp_path):
    pair.run(checkpoint, str(tmp_path / "checkpoint"))


def compiled():
    import torch.distributed._functional_collectives as funcol

    def step(x):
        return funcol.all_reduce(x * 2, "sum", dist.group.WORLD) + 1

    x = torch.ones(10, device=card())
    assert step(x).tolist() == [5] * 10
    assert torch.compile(step, backend="aot_eager")(x).tolist() == [5] * 10


@pytest.mark.native
def test_functional_collectives(pair):
    pair.run(compiled)
