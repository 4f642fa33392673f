# SPDX-License-Identifier: BSD-3-Clause
"""Graphs beside other streams, threads and cards."""

import gc

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


def test_replay_beside_a_capture():
    """On another stream, also if the graph was last used on the captured stream."""
    x, y = torch.zeros(16, device=DEV), torch.zeros(16, device=DEV)
    first, _ = capture(lambda: x.add_(1))
    other = torch.openreg.Stream()

    def work():
        y.add_(1)
        with torch.openreg.stream(other):
            first.replay()
            assert not other.is_capturing()
            assert (x == 1).all()

    g, _ = capture(work)
    assert (y == 0).all()
    g.replay()
    assert (x == 1).all() and (y == 1).all()
