# SPDX-License-Identifier: BSD-3-Clause
"""A group without a backend for the card says what to do. torchrun and TCPStore work with a torch
that is built without libuv. tests/plugin/distributed has the tests of the backend."""

import datetime
import socket
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist

DEV = "openreg"
SUGGESTION = r"init_process_group\('cpu:gloo,openreg:occl'\)"


@pytest.fixture
def group():
    dist.init_process_group("cpu:gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


COLLECTIVES = {
    "all_reduce": lambda x: dist.all_reduce(x),
    "broadcast": lambda x: dist.broadcast(x, 0),
    "all_gather": lambda x: dist.all_gather([torch.empty_like(x)], x),
    "all_gather_into_tensor": lambda x: dist.all_gather_into_tensor(torch.empty_like(x), x),
    "reduce_scatter_tensor": lambda x: dist.reduce_scatter_tensor(torch.empty_like(x), x),
    "all_to_all_single": lambda x: dist.all_to_all_single(torch.empty_like(x), x),
    "scatter": lambda x: dist.scatter(x, [x.clone()], 0),
    "reduce": lambda x: dist.reduce(x, 0),
    "gather": lambda x: dist.gather(x, [torch.empty_like(x)], 0),
    "of_parameters": lambda x: torch.nn.parallel.DistributedDataParallel(
        torch.nn.Linear(2, 2, device=DEV)
    ),
    "of_another_group": lambda x: dist.all_reduce(x, group=dist.new_group([0])),
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives_suggest_the_backend(name, group):
    with pytest.raises(RuntimeError, match=SUGGESTION):
        COLLECTIVES[name](torch.ones(2, device=DEV))


@pytest.mark.parametrize("positional", [False, True])
def test_store_of_a_torch_without_libuv(positional):
    if positional:
        timeout = datetime.timedelta(seconds=30)
        store = dist.TCPStore("localhost", 0, 1, True, timeout, True, False, None, True)
    else:
        store = dist.TCPStore("localhost", 0, is_master=True, use_libuv=True)
    store.set("a", "b")
    assert store.get("a") == b"b"
    with pytest.raises(RuntimeError) as caught:
        dist.TCPStore("localhost", 1, 2, False, datetime.timedelta(seconds=1))
    assert "libuv" not in str(caught.value)


SCRIPT = r"""
import os, torch, torch.distributed as dist
index = int(os.environ["LOCAL_RANK"]) % torch.openreg.device_count()
torch.openreg.set_device(index)
dist.init_process_group(device_id=torch.device("openreg", index))
x = torch.full((2,), float(dist.get_rank() + 1), device="openreg")
dist.all_reduce(x)
assert x.tolist() == [3, 3], x
os.write(1, f"rank {dist.get_rank()} of {dist.get_world_size()}\n".encode())
dist.destroy_process_group()
"""


def free_port():
    with socket.socket() as s:
        s.bind(("localhost", 0))
        return s.getsockname()[1]


@pytest.mark.native
@pytest.mark.parametrize("way", ["static", "standalone"])
def test_torchrun(way, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    options = [f"--master-port={free_port()}"]
    if way == "standalone":  # the host's name may have no address
        options = ["--standalone", "--local-addr=127.0.0.1"]
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *options, "--nproc-per-node=2", script],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["rank 0 of 2", "rank 1 of 2"]
