# SPDX-License-Identifier: BSD-3-Clause
"""torch.multiprocessing in one process, and with processes that multiprocessing starts
itself. ipc_cases.py has the scenes of two processes."""

import concurrent.futures
import gc
import io
import multiprocessing
import pickle
import queue
import time
from multiprocessing.reduction import ForkingPickler

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

DEV = "openreg"
PATIENCE = 300  # s


@pytest.mark.parametrize("make", ["Queue", "JoinableQueue", "SimpleQueue"])
def test_put_of_what_cannot_be_sent(make):
    q = getattr(multiprocessing.get_context("forkserver"), make)()
    with pytest.raises(RuntimeError, match=r"detach\(\)"):
        q.put([torch.ones(3), torch.ones(3, device=DEV, requires_grad=True) * 2])
    q.put(torch.arange(3))  # the queue still works
    assert q.get().tolist() == [0, 1, 2]


def test_a_stream_is_not_sent():
    with pytest.raises(RuntimeError, match="Record an event"):
        multiprocessing.Queue().put(torch.Stream(DEV))


def test_pipe():
    here, there = torch.multiprocessing.Pipe()
    x = torch.arange(3, device=DEV)
    here.send(x)
    assert there.recv().data_ptr() == x.data_ptr()
    with pytest.raises(RuntimeError, match=r"detach\(\)"):
        here.send(torch.ones(3, device=DEV, requires_grad=True) * 2)
    here.send(torch.arange(3))
    assert there.recv().tolist() == [0, 1, 2]


def test_put_nowait_and_full_queues():
    q = multiprocessing.Queue(1)
    q.put_nowait(torch.ones(3, device=DEV))
    with pytest.raises(queue.Full):
        q.put_nowait(torch.ones(3, device=DEV))
    assert q.get(timeout=PATIENCE).tolist() == [1, 1, 1]


def test_put_uses_the_stream_of_its_caller(gate):
    """Not the stream of the thread that pickles: there the work would seem to be done."""
    q = multiprocessing.Queue()
    x = torch.zeros(3, device=DEV)
    q.put(x)
    q.get(timeout=PATIENCE)
    side = torch.openreg.Stream()
    with torch.openreg.stream(side):
        gate.__enter__()
        x.fill_(1)
        q.put(x)
    got = q.get(timeout=PATIENCE)
    copy = got.clone()
    assert not torch.openreg.current_stream().query()
    gate.__exit__()
    assert copy.tolist() == [1, 1, 1]


def test_other_objects_go_through():
    torch.ones(1, device=DEV)
    q = multiprocessing.Queue()
    here, there = multiprocessing.Pipe()
    sent = [torch.ones(2), "x", b"y" * 100_000, {1: (2.0, None)}, here]
    q.put(sent)
    got = q.get()
    assert got[0].tolist() == [1, 1] and got[1:4] == sent[1:4]
    got[4].send(5)
    assert there.recv() == 5


def test_refused_put_does_not_share_cpu_storage():
    t = torch.ones(2)
    q = multiprocessing.Queue()
    with pytest.raises(RuntimeError):
        q.put([torch.Stream(DEV), t])
    assert not t.is_shared()


def test_an_object_that_cannot_be_pickled(capfd):
    torch.ones(1, device=DEV)
    q = multiprocessing.Queue()
    q.put(lambda: 1)
    q.put(2)
    assert q.get() == 2
    q.close()
    q.join_thread()
    assert "pickle" in capfd.readouterr().err


def test_plain_pickle_and_save_copy():
    x = torch.arange(3, device=DEV)
    assert pickle.loads(pickle.dumps(x)).tolist() == [0, 1, 2]
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    assert torch.load(file).device.type == DEV


def test_share_memory():
    """As with CUDA: memory of the card is shared already."""
    x = torch.arange(3, device=DEV)
    address = x.data_ptr()
    assert x.is_shared() and x.untyped_storage().is_shared()
    assert x.share_memory_() is x and x.data_ptr() == address
    torch.nn.Linear(2, 2, device=DEV).share_memory()
    assert not torch.ones(3).is_shared()
    assert torch.ones(3).share_memory_().is_shared()


@pytest.mark.unchecked("the sizes of blocks have no red zones")
def test_memory_is_counted():
    gc.collect()
    torch.openreg.empty_cache()
    reserved = torch.openreg.memory_reserved()
    x = torch.ones(1000, device=DEV)
    before = torch.openreg.memory_allocated()
    ForkingPickler.loads(ForkingPickler.dumps(x))
    assert torch.openreg.memory_allocated() == before
    del x
    torch.openreg.synchronize()
    end = time.monotonic() + 30  # a thread learns that the receiver has dropped it
    while torch.openreg.memory_reserved() != reserved and time.monotonic() < end:
        torch.openreg.ipc_collect()
        torch.openreg.empty_cache()
        time.sleep(0.01)
    assert torch.openreg.memory_reserved() == reserved



def add_to(x):
    x.add_(1)
    torch.openreg.synchronize()


@pytest.mark.native
@pytest.mark.parametrize("start", ["forkserver", "spawn"])
def test_arguments_of_a_process(start):
    x = torch.zeros(3, device=DEV)
    process = multiprocessing.get_context(start).Process(target=add_to, args=(x,))
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == 0
    assert x.tolist() == [1, 1, 1]


def send_and_end(tensors, received):
    x = torch.full((1024, 1024), 1 / 1024, device=DEV)
    for _ in range(60):
        x = x @ x
    tensors.put(x)
    received.wait(PATIENCE)


@pytest.mark.native
@pytest.mark.parametrize("start", ["forkserver", "spawn"])
def test_a_sender_finishes_its_work_before_it_ends(start):
    context = multiprocessing.get_context(start)
    tensors, received = context.Queue(), context.Event()
    process = context.Process(target=send_and_end, args=(tensors, received))
    process.start()
    x = tensors.get(timeout=PATIENCE)
    received.set()
    process.join(PATIENCE)
    assert process.exitcode == 0
    assert x[0, :3].tolist() == [1 / 1024] * 3


def add_and_wait(x):
    add_to(x)
    return x.sum().item()


def refuse(x):
    return x * torch.ones(3, device=DEV, requires_grad=True)


@pytest.mark.native
def test_executors_and_pools():
    context = multiprocessing.get_context("forkserver")
    x = torch.zeros(3, device=DEV)
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as executor:
        assert executor.submit(add_and_wait, x).result(PATIENCE) == 3
        bad = torch.ones(3, device=DEV, requires_grad=True) * 2
        with pytest.raises(RuntimeError, match=r"detach\(\)"):
            executor.submit(add_and_wait, bad).result(PATIENCE)
        with pytest.raises(RuntimeError, match=r"detach\(\)"):
            executor.submit(refuse, x).result(PATIENCE)
    with context.Pool(1) as pool:
        assert pool.apply_async(add_and_wait, (x,)).get(PATIENCE) == 6
        with pytest.raises(RuntimeError, match=r"detach\(\)"):
            pool.apply_async(add_and_wait, (bad,)).get(PATIENCE)
    assert x.tolist() == [2, 2, 2]


class OnTheCard(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return {"x": torch.full((2,), float(i), device=DEV)}


class Streamed(IterableDataset):
    def __iter__(self):
        return iter([{"x": torch.full((2,), float(i), device=DEV)} for i in range(8)])


class OnTheCpu(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return torch.full((2,), float(i))


@pytest.mark.native
@pytest.mark.parametrize("start", ["forkserver", "spawn"])
@pytest.mark.parametrize("dataset", [OnTheCard, Streamed])
def test_workers_of_a_loader_return_tensors_of_the_card(dataset, start):
    loader = DataLoader(
        dataset(),
        batch_size=2,
        num_workers=1,
        multiprocessing_context=start,
        timeout=PATIENCE,
    )
    batches = [batch["x"] + 1 for batch in loader]
    assert torch.cat(batches)[:, 0].tolist() == list(range(1, 9))


@pytest.mark.native
def test_a_loader_moves_the_batches_itself():
    loader = DataLoader(OnTheCpu(), batch_size=2, num_workers=1)
    batches = [batch.to(DEV) for batch in loader]
    assert torch.cat(batches)[:, 0].tolist() == [0, 1, 2, 3]
    assert len(list(DataLoader(OnTheCard(), batch_size=2))) == 4  # without workers
