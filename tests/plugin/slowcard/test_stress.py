# SPDX-License-Identifier: BSD-3-Clause
"""Streams, events and memory on cards with engines that sleep for random times.

scripts/suite sets the property x-slow-us (OPENREG_SIM_SLOW_US). A model in Python predicts
every value, so a test fails if an engine reads a value too early or too late.
"""

import random
import threading

import packets
import pytest
import torch

DEV = "openreg"
N = 20_000


@pytest.fixture
def rng():
    """A random generator with a new seed in each run; a failure prints the seed."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    return random.Random(seed)


def filled(value, device=DEV):
    return torch.full((N,), value, dtype=torch.int64, device=device)


def values(tensors):
    """The single value of each tensor; all elements must be equal."""
    torch.openreg.synchronize()
    found = [t.cpu().unique().tolist() for t in tensors]
    assert all(len(f) == 1 for f in found), found
    return [f[0] for f in found]


@pytest.mark.parametrize("index", [0, 1])
def test_the_card_is_slow(index):
    """Measured by the card's clock. On a fast card the other tests prove nothing."""
    with torch.openreg.device(index):
        x = torch.zeros(16, device=DEV)
        begin, end = (torch.openreg.Event(enable_timing=True) for _ in range(2))
        # Behind the gate, so that all packets are queued when the first one starts.
        with packets.Gate(index):
            begin.record()
            for _ in range(200):
                x.add_(1)
            end.record()
        torch.openreg.synchronize()
    assert begin.elapsed_time(end) > 5


def test_record_stream_keeps_memory():
    """A tensor is freed while another stream still has to read it."""
    reader = torch.openreg.Stream()
    seen = []
    for i in range(150):
        x = filled(i)
        reader.wait_stream(torch.openreg.current_stream())
        with torch.openreg.stream(reader):
            seen.append(x + 1)
        x.record_stream(reader)
        del x
    assert values(seen) == [i + 1 for i in range(150)]


def test_record_stream_of_many_readers(rng):
    readers = [torch.openreg.Stream() for _ in range(4)]
    seen, expected = [], []
    for i in range(80):
        x = filled(i)
        written = torch.openreg.current_stream().record_event()
        for reader in rng.sample(readers, rng.randint(1, 4)):
            reader.wait_event(written)
            with torch.openreg.stream(reader):
                seen.append(x.clone())
            x.record_stream(reader)
            expected.append(i)
        del x
    assert values(seen) == expected


def test_pinned_memory_is_kept():
    """A pinned buffer is freed before the copy from it has run."""
    streams = [torch.openreg.Stream() for _ in range(3)]
    seen = []
    for i in range(120):
        host = torch.full((N,), i, dtype=torch.int64).pin_memory()
        with torch.openreg.stream(streams[i % 3]):
            seen.append(host.to(DEV, non_blocking=True))
        del host
    assert values(seen) == list(range(120))


def test_copies_to_pinned_memory():
    side = torch.openreg.Stream()
    pairs = []
    for i in range(60):
        host = torch.empty(N, dtype=torch.int64).pin_memory()
        with torch.openreg.stream(side):
            host.copy_(filled(i), non_blocking=True)
            pairs.append((host, side.record_event()))
    for i, (host, event) in enumerate(pairs):
        event.synchronize()
        assert event.query()
        assert host.unique().tolist() == [i]


class Buffers:
    """Buffers that many streams write, ordered by events, and a model of their values."""

    def __init__(self, rng, n_streams=4, n_buffers=6):
        self.rng = rng
        self.streams = [torch.openreg.Stream() for _ in range(n_streams)]
        self.model = [rng.randrange(1000) for _ in range(n_buffers)]
        self.data = [filled(v) for v in self.model]
        begun = torch.openreg.current_stream().record_event()
        self.written = [begun] * n_buffers
        self.read = [[] for _ in range(n_buffers)]

    def wait_to_write(self, stream, i):
        for event in (self.written[i], *self.read[i]):
            stream.wait_event(event)

    def done(self, stream, i, sources=()):
        event = stream.record_event()
        self.written[i], self.read[i] = event, []
        for j in sources:
            self.read[j].append(event)

    def add(self, stream, i, j):
        """Adds in place: the buffer keeps its memory."""
        self.wait_to_write(stream, i)
        stream.wait_event(self.written[j])
        with torch.openreg.stream(stream):
            self.data[i].add_(self.data[j]).remainder_(1_000_003)
        self.done(stream, i, (j,))
        self.model[i] = (self.model[i] + self.model[j]) % 1_000_003

    def replace(self, stream, i, j):
        """Gives the buffer new memory, and frees the old while streams may still read it."""
        stream.wait_event(self.written[j])
        with torch.openreg.stream(stream):
            new = self.data[j] * 3 + 1
        for reader in self.streams:
            self.data[i].record_stream(reader)
        self.data[i] = new
        self.done(stream, i, (j,))
        self.model[i] = self.model[j] * 3 + 1

    def through_host(self, stream, i, j):
        self.wait_to_write(stream, i)
        stream.wait_event(self.written[j])
        with torch.openreg.stream(stream):
            host = torch.empty(N, dtype=torch.int64).pin_memory()
            host.copy_(self.data[j], non_blocking=True)
            self.data[i].copy_(host, non_blocking=True)
        self.done(stream, i, (j,))
        self.model[i] = self.model[j]

    def step(self):
        stream = self.rng.choice(self.streams)
        i, j = self.rng.sample(range(len(self.data)), 2)
        if self.model[j] > 1 << 40:
            self.add(stream, j, i)
        else:
            self.rng.choice((self.add, self.replace, self.through_host))(stream, i, j)


def test_streams_events_and_reuse(rng):
    buffers = Buffers(rng)
    for _ in range(250):
        buffers.step()
    assert values(buffers.data) == buffers.model


def test_threads(rng):
    """Each thread has its own streams and buffers; all share the memory and the rings."""
    errors = []

    def run(seed):
        try:
            buffers = Buffers(random.Random(seed), n_streams=3, n_buffers=4)
            for i in range(60):
                buffers.step()
                if i % 20 == 7:
                    torch.openreg.empty_cache()
            assert values(buffers.data) == buffers.model
        except BaseException as error:
            errors.append(error)

    threads = [
        threading.Thread(target=run, args=(rng.randrange(1 << 32),)) for _ in range(4)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


def test_chain_of_timed_events(rng):
    """A chain of events through random streams keeps the additions in order."""
    streams = [torch.openreg.Stream(priority=-(i % 2)) for i in range(4)]
    x, chain = torch.zeros(64, device=DEV), []
    last = torch.openreg.current_stream().record_event()
    for _ in range(100):
        stream = rng.choice(streams)
        stream.wait_event(last)
        with torch.openreg.stream(stream):
            x.add_(1)
        last = torch.openreg.Event(enable_timing=True)
        last.record(stream)
        chain.append(last)
    last.synchronize()
    assert all(e.query() for e in chain)
    assert all(a.elapsed_time(b) >= 0 for a, b in zip(chain, chain[1:]))
    assert x.cpu().unique().tolist() == [100.0]


def test_query_true_means_earlier_work_is_done():
    """When query() of an event returns true, all work before the event is complete."""
    side = torch.openreg.Stream()
    host = torch.zeros(1, dtype=torch.int64).pin_memory()
    for i in range(1, 60):
        with torch.openreg.stream(side):
            host.copy_(filled(i)[:1], non_blocking=True)
            event = side.record_event()
        while not event.query():
            pass
        assert host.item() == i


def test_between_cards():
    """A value moves back and forth; each card's stream waits for the other's event."""
    one, two = torch.openreg.Stream(0), torch.openreg.Stream(1)
    with torch.openreg.stream(one):
        x = filled(0, "openreg:0")
    for i in range(25):
        source, target = (one, two) if i % 2 == 0 else (two, one)
        target.wait_event(source.record_event())
        with torch.openreg.stream(target):
            y = x.to(target.device, non_blocking=True).add_(1)
        x.record_stream(target)
        x = y
    torch.openreg.synchronize(0)
    torch.openreg.synchronize(1)
    assert x.cpu().unique().tolist() == [25]


def test_allocation_waits_for_blocks_in_use():
    """When memory is short, the allocator waits for freed blocks that streams still use."""
    side = torch.openreg.Stream()
    free, _ = torch.openreg.mem_get_info()
    seen = torch.zeros(12, dtype=torch.uint8, device=DEV)
    side.wait_stream(torch.openreg.current_stream())
    for i in range(12):
        x = torch.empty(free // 5, dtype=torch.uint8, device=DEV)
        x[-1:].fill_(i)
        side.wait_stream(torch.openreg.current_stream())
        with torch.openreg.stream(side):
            seen[i : i + 1].copy_(x[-1:])
        x.record_stream(side)
        del x
    torch.openreg.synchronize()
    assert seen.tolist() == list(range(12))
