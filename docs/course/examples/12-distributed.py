# SPDX-License-Identifier: BSD-3-Clause
"""Two ranks with a card each: order, sums, gradients, and calls that differ."""

import tempfile

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main(rank, size, path):
    card = torch.device("openreg", rank)
    torch.openreg.set_device(card)
    dist.init_process_group(
        store=dist.FileStore(path, size), rank=rank, world_size=size, device_id=card
    )
    say = print if rank == 0 else lambda *words: None

    x = torch.zeros(1 << 22, device=card)
    for _ in range(500):
        x.add_(1)
    work = dist.all_reduce(x, async_op=True)  # after the additions, on its own queue
    say("launched, done already:", work.is_completed())
    work.wait()  # the stream waits, this thread does not
    say("after wait():", x[-1].item(), "in order" if bool((x == 1000).all()) else "wrong")

    y = torch.full((3,), rank + 1.0, device=card)
    dist.all_reduce(y)
    say("the sum of the ranks:", y[0].item())

    z = torch.randn(1000, generator=torch.Generator().manual_seed(rank)).to(card)
    dist.all_reduce(z)
    both = [torch.empty_like(z) for _ in range(size)]
    dist.all_gather(both, z)
    say("the same bits on both ranks:", torch.equal(both[0], both[1]))

    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1).to(card)
    parallel = DistributedDataParallel(model)
    parallel(torch.full((1, 4), rank + 1.0, device=card)).sum().backward()
    say("gradients are averages:", model.weight.grad.tolist() == [[1.5] * 4])

    try:
        dist.all_reduce(torch.ones(10 * (rank + 1), device=card))
        dist.barrier()
    except dist.DistBackendError as error:
        say("calls that differ are refused:", "20 f32" in str(error))
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        torch.multiprocessing.spawn(main, args=(2, f"{directory}/store"), nprocs=2)
