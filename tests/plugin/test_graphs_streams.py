# SPDX-License-Identifier: BSD-3-Clause
"""Graphs beside other streams, threads and cards."""

import gc
from concurrent.futures import ThreadPoolExecutor

import packets
import pytest
import torch

DEV = "openreg"


def capture(work, **options):
    g = torch.openreg.Graph()
    with torch.openreg.graph(g, **options):
        result = work()
    return g, result


def test_memory_waits_for_readers_of_any_stream():
    """Packets that read a result run after its graph, its tensor and the cache are gone."""
    g, y = capture(lambda: torch.full((1 << 20,), 5.0, device=DEV))
    g.replay()
    z = torch.zeros(1 << 20, device=DEV)
    torch.openreg.synchronize()
    del g
    bad, reader = torch.openreg.Stream(), torch.openreg.Stream()
    reset = packets.stuck(bad, reader)
    with torch.openreg.stream(reader):
        torch.mul(y, 2, out=z)
    del y
    gc.collect()
    torch.openreg.empty_cache()
    reset()
    torch.openreg.synchronize()
    assert (z == 10).all()


def test_one_graph_for_each_card():
    """graph() captures on the current card, also without a stream."""
    results = []
    for card in (0, 1, 0):
        with torch.openreg.device(card):
            x = torch.zeros(16, device=f"openreg:{card}")
            g, _ = capture(lambda x=x: x.add_(1))
            g.replay()
            results.append(x.sum().item())
    assert results == [16, 16, 16]


def in_thread(work):
    """Returns what work() returns or raises in another thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def test_another_thread_synchronizes():
    """That waits for the packets before the capture, and does not spoil the graph."""
    x = torch.zeros(16, device=DEV)

    def work():
        x.add_(1)
        in_thread(torch.openreg.synchronize)

    g, _ = capture(work)
    g.replay()
    assert (x == 1).all()


def test_replay_beside_a_capture():
    """On another stream, also if the graph was last used on the captured stream."""
    x, y = torch.zeros(16, device=DEV), torch.zeros(16, device=DEV)
    captured, other = torch.openreg.Stream(), torch.openreg.Stream()
    first, _ = capture(lambda: x.add_(1), stream=captured)

    def work():
        y.add_(1)
        with torch.openreg.stream(other):
            first.replay()
            assert not other.is_capturing()
            assert (x == 1).all()

    g, _ = capture(work, stream=captured)
    assert (y == 0).all()
    g.replay()
    assert (x == 1).all() and (y == 1).all()


FIRST_USE = """
import torch

g = torch.openreg.Graph()
with torch.openreg.graph(g):
    x = torch.rand(4, device="openreg")
g.replay()
print(x.unique().numel())
"""


def test_first_random_numbers_in_a_capture(run_forked):
    assert run_forked(FIRST_USE) == "4\n"


# Each draws from the default generator, or changes it.
USES = {
    "rand": lambda replay: torch.rand(8, device=DEV),
    "seed": lambda replay: torch.openreg.manual_seed(7),
    "state": lambda replay: torch.openreg.set_rng_state(torch.openreg.get_rng_state()),
    "replay": lambda replay: replay(),
}


@pytest.mark.parametrize("thread", [False, True])
@pytest.mark.parametrize("name", USES)
def test_a_capture_keeps_its_generator(name, thread):
    """It gives back the numbers that it takes, so no other stream may take some meanwhile."""

    def drawn():
        return torch.rand(8, device=DEV)

    before, _ = capture(drawn)
    own = torch.Generator(DEV)
    captured, other = torch.openreg.Stream(), torch.openreg.Stream()

    def elsewhere():
        with torch.openreg.stream(other):
            torch.rand(8, device=DEV, generator=own)
            with pytest.raises(RuntimeError, match="draws from this generator.*of its own"):
                USES[name](before.replay)

    def work():
        x = drawn()
        in_thread(elsewhere) if thread else elsewhere()
        return x

    torch.openreg.manual_seed(3)
    want = drawn()
    torch.openreg.manual_seed(3)
    g, x = capture(work, stream=captured)
    g.replay()
    assert torch.equal(x, want)
    USES[name](before.replay)


def test_debug_dump(tmp_path):
    x = torch.zeros(16, device=DEV)
    g, _ = capture(lambda: x.add_(1))
    g.debug_dump(str(tmp_path / "dump"))
    assert (tmp_path / "dump").read_text() == "aten::add_.Tensor: VECTOR, 2 slots\n"
    with pytest.raises(RuntimeError, match="cannot be written to /nonexistent/dump"):
        g.debug_dump("/nonexistent/dump")
