# SPDX-License-Identifier: BSD-3-Clause
"""Sending a tensor of the card to another process raises an error in the sender."""

import concurrent.futures
import dataclasses
import io
import multiprocessing
import pickle
import queue
from multiprocessing.reduction import ForkingPickler

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

DEV = "openreg"
refused = pytest.raises(NotImplementedError, match=r"cannot go to another process.*x\.cpu\(\)")


@dataclasses.dataclass
class Sample:
    name: str
    data: object


KINDS = {
    "tensor": lambda: torch.ones(3, device=DEV),
    "view": lambda: torch.ones(3, 4, device=DEV)[1:, ::2],
    "empty": lambda: torch.empty(0, device=DEV),
    "parameter": lambda: torch.nn.Parameter(torch.ones(3, device=DEV)),
    "not_a_leaf": lambda: torch.ones(3, device=DEV, requires_grad=True) * 2,
    "sparse": lambda: torch.eye(3, device=DEV).to_sparse(),
    "jagged": lambda: torch.nested.nested_tensor(
        [torch.ones(2), torch.ones(3)], layout=torch.jagged, device=DEV
    ),
    "storage": lambda: torch.ones(3, device=DEV).untyped_storage(),
    "typed_storage": lambda: torch.ones(3, device=DEV)._typed_storage(),
    "module": lambda: torch.nn.Linear(2, 2, device=DEV),
    "deep": lambda: [{"a": (1, Sample("x", [torch.ones(3, device=DEV)]))}],
}


@pytest.mark.parametrize("kind", KINDS)
def test_pickling_is_refused(kind):
    with refused:
        ForkingPickler.dumps(KINDS[kind]())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", ["Queue", "JoinableQueue", "SimpleQueue"])
def test_put_is_refused(kind, make):
    q = getattr(multiprocessing.get_context("forkserver"), make)()
    with refused:
        q.put(KINDS[kind]())
    q.put(torch.arange(3))  # the queue still works
    assert q.get().tolist() == [0, 1, 2]


@pytest.mark.parametrize("kind", ["event", "stream"])
def test_put_of_event_or_stream_is_refused(kind):
    holder = torch.Event(DEV) if kind == "event" else torch.Stream(DEV)
    with refused:
        multiprocessing.Queue().put(holder)


@pytest.mark.parametrize("kind", KINDS)
def test_send_is_refused(kind):
    here, there = torch.multiprocessing.Pipe()
    with refused:
        here.send(KINDS[kind]())
    here.send(torch.arange(3))
    assert there.recv().tolist() == [0, 1, 2]


def test_put_nowait_and_full_queues():
    q = multiprocessing.Queue(1)
    with refused:
        q.put_nowait(torch.ones(3, device=DEV))
    q.put_nowait(1)
    with pytest.raises(queue.Full):
        q.put_nowait(2)


def test_other_objects_go_through():
    lock = multiprocessing.Lock()
    torch.ones(1, device=DEV)
    q = multiprocessing.Queue()
    here, there = multiprocessing.Pipe()
    sent = [torch.ones(2), "x", b"y" * 100_000, {1: (2.0, None)}, here]
    q.put(sent)
    got = q.get()
    assert got[0].tolist() == [1, 1] and got[1:4] == sent[1:4]
    got[4].send(5)
    assert there.recv() == 5
    del lock


def test_refused_put_does_not_share_cpu_storage():
    torch.ones(1, device=DEV)
    t = torch.ones(2)
    q = multiprocessing.Queue()
    with refused:
        q.put([t, torch.ones(1, device=DEV)])
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


@pytest.mark.parametrize("kind", ["tensor", "view", "empty", "parameter", "module"])
def test_share_memory_is_refused(kind):
    holder = KINDS[kind]()
    share = getattr(holder, "share_memory_", None) or holder.share_memory
    with pytest.raises(NotImplementedError, match="Share a copy on the CPU"):
        share()


def test_share_memory_of_the_cpu():
    assert torch.ones(3).share_memory_().is_shared()


def nothing(x):
    pass


@pytest.mark.native
def test_arguments_of_a_process_are_refused():
    process = multiprocessing.get_context("forkserver").Process(
        target=nothing, args=(torch.ones(3, device=DEV),)
    )
    with refused:
        process.start()


@pytest.mark.native
def test_executors_and_pools_pass_the_error_on():
    context = multiprocessing.get_context("forkserver")
    x = torch.ones(3, device=DEV)
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as executor:
        with refused:
            executor.submit(nothing, x).result(60)
        assert executor.submit(nothing, 1).result(60) is None
    with context.Pool(1) as pool:
        with refused:
            pool.apply_async(nothing, (x,)).get(60)


class OnTheCard(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return {"x": torch.full((2,), float(i), device=DEV)}


class Streamed(IterableDataset):
    def __iter__(self):
        return iter([torch.ones(2, device=DEV)] * 4)


class OnTheCpu(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return torch.full((2,), float(i))


@pytest.mark.native
@pytest.mark.parametrize("start", ["forkserver", "spawn"])
@pytest.mark.parametrize("dataset", [OnTheCard, Streamed])
def test_workers_of_a_loader_raise(dataset, start):
    loader = DataLoader(
        dataset(), batch_size=2, num_workers=1, multiprocessing_context=start, timeout=120
    )
    with refused:
        next(iter(loader))


@pytest.mark.native
def test_a_loader_moves_the_batches_itself():
    loader = DataLoader(OnTheCpu(), batch_size=2, num_workers=1)
    batches = [batch.to(DEV) for batch in loader]
    assert torch.cat(batches)[:, 0].tolist() == [0, 1, 2, 3]
    assert len(list(DataLoader(OnTheCard(), batch_size=2))) == 2  # without workers
