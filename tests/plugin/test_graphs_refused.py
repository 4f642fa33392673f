# SPDX-License-Identifier: BSD-3-Clause
"""What a graph cannot capture or replay raises, and says what to do. Nothing is left."""

import pytest
import torch
from torch import nn

DEV = "openreg"


def capture(work, **options):
    g = torch.openreg.Graph()
    with torch.openreg.graph(g, **options):
        result = work()
    return g, result


@pytest.fixture
def x():
    return torch.rand(16, device=DEV)


@pytest.fixture(autouse=True)
def streams_are_free():
    """After each test every stream runs its packets again."""
    yield
    assert not torch.openreg.is_current_stream_capturing()
    assert (torch.zeros(4, device=DEV) + 1).sum().item() == 4
    g, y = capture(lambda: torch.ones(4, device=DEV))
    g.replay()
    assert y.sum().item() == 4


REFUSED = {
    "item": (lambda x: x[0].item(), "between the host and the card"),
    "cpu": (lambda x: x.cpu(), "between the host and the card"),
    "upload": (lambda x: x.copy_(torch.ones(16)), "between the host and the card"),
    "pinned": (
        lambda x: x.copy_(torch.ones(16).pin_memory(), non_blocking=True),
        "between the host and the card",
    ),
    "synchronize": (lambda x: torch.openreg.synchronize(), "waiting for a stream"),
    "stream": (
        lambda x: torch.openreg.current_stream().synchronize(),
        "waiting for a stream",
    ),
    "query": (lambda x: torch.openreg.current_stream().query(), "waiting for a stream"),
    "fallback": (lambda x: torch.linalg.qr(x.view(4, 4)), "linalg_qr.*no kernel"),
    "nonzero": (lambda x: x.nonzero(), "between the host and the card"),
    "seed": (lambda x: torch.openreg.manual_seed(1), "seed or offset"),
    "other card": (
        lambda x: torch.zeros(4, device="openreg:1"),
        "openreg:1 cannot be part of it",
    ),
    "copy to the other card": (lambda x: x.to("openreg:1"), "openreg:1|another"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(x, name):
    work, text = REFUSED[name]
    before = x.clone()
    with pytest.raises(RuntimeError, match=text):
        capture(lambda: (x.add_(1), work(x)))
    assert torch.equal(x, before)


@pytest.mark.parametrize("name", ["item", "synchronize", "fallback"])
def test_a_refusal_spoils_the_graph(x, name):
    """A program that catches the error has a graph without a part of its work."""
    work, text = REFUSED[name]
    g = torch.openreg.Graph()
    g.capture_begin()
    with pytest.raises(RuntimeError, match=text):
        work(x)
    with pytest.raises(RuntimeError, match="the capture of the graph has failed.*" + text):
        g.capture_end()
    with pytest.raises(RuntimeError, match="has captured nothing"):
        g.replay()


def test_events_from_outside(x):
    other = torch.openreg.Stream()
    event = torch.openreg.Event()
    with torch.openreg.stream(other):
        torch.openreg._sleep(200_000_000)
        event.record()
    g = torch.openreg.Graph()
    g.capture_begin()
    with pytest.raises(RuntimeError, match="outside of the capture.*before the capture"):
        torch.openreg.current_stream().wait_event(event)
    with pytest.raises(RuntimeError):
        g.capture_end()


def test_events_of_a_capture(x):
    """Only captured streams can use an event that a captured stream has recorded."""
    event = torch.openreg.Event(enable_timing=True)
    g = torch.openreg.Graph()
    with torch.openreg.graph(g):
        x.add_(1)
        event.record()
    for use in (event.query, event.synchronize, lambda: event.elapsed_time(event)):
        with pytest.raises(RuntimeError, match="while a graph was captured.*after replay"):
            use()
    with pytest.raises(RuntimeError, match="the capture has ended"):
        torch.openreg.current_stream().wait_event(event)
    event.record()
    event.synchronize()


def test_nested(x):
    inner, _ = capture(lambda: x.add_(1))
    with pytest.raises(RuntimeError, match="the replay of another graph"):
        capture(inner.replay)
    with pytest.raises(RuntimeError, match="another graph is being captured"):
        capture(lambda: capture(lambda: x.add_(1)))


def test_wrong_order(x):
    g = torch.openreg.Graph()
    for call in (g.replay, g.instantiate):
        with pytest.raises(RuntimeError, match="has captured nothing"):
            call()
    with pytest.raises(RuntimeError, match="capture_begin"):
        g.capture_end()
    with pytest.raises(RuntimeError, match="no pool"):
        g.pool()
    g.capture_begin()
    x.add_(1)
    g.capture_end()
    with pytest.raises(RuntimeError, match=r"reset\(\)"):
        g.capture_begin()
    g.reset()
    with pytest.raises(RuntimeError, match="has captured nothing"):
        g.replay()


def test_replay_without_the_inputs():
    """The program has freed an input: other tensors may have its memory now."""
    kept = torch.zeros(16, device=DEV)
    lost = torch.ones(16, device=DEV)
    g, _ = capture(lambda: kept.add_(lost))
    g.replay()
    address = f"{lost.data_ptr():#x}"
    del lost
    with pytest.raises(RuntimeError, match=f"freed memory at {address}.*Keep the tensors"):
        g.replay()
    assert (kept == 1).all()


def test_input_freed_in_the_capture():
    inputs = [torch.ones(16, device=DEV)]

    def work():
        return inputs.pop() + 1

    g, _ = capture(work)
    with pytest.raises(RuntimeError, match="freed memory"):
        g.replay()


@pytest.mark.unchecked("a NOTE is in the graph, too")
def test_fault_names_the_operator(x):
    """A replay that faults names the operator in the graph, and the reset helps."""
    table = torch.rand(10, 4, device=DEV)
    index = torch.zeros(4, dtype=torch.long, device=DEV)

    def work():
        x.add_(1)
        return table.index_select(0, index)

    g, y = capture(work)
    index.fill_(12)
    g.replay()
    with pytest.raises(RuntimeError, match="index_select.*LIST, in its packet 2.*index 12"):
        torch.openreg.synchronize()
    torch.openreg.reset()
    index.fill_(3)
    g.replay()
    assert torch.equal(y, table[3].expand(4, 4))


def test_free_capture_after_an_error(x):
    """The stream is free after an error of the program in the block."""
    g = torch.openreg.Graph()
    with pytest.raises(ZeroDivisionError), torch.openreg.graph(g):
        x.add_(1 / 0)
    with torch.openreg.graph(g):
        x.mul_(0)
    g.replay()
    assert (x == 0).all()


def test_graph_dies_in_its_capture(x):
    g = torch.openreg.Graph()
    g.capture_begin()
    x.add_(1)
    del g


FORKED = """
import os
import torch

x = torch.zeros(4, device="openreg")
g = torch.openreg.Graph()
with torch.openreg.graph(g):
    x.add_(1)
g.replay()
torch.openreg.synchronize()
pid = os.fork()
if not pid:
    refused = 0
    for call in (g.replay, g.reset, torch.openreg.Graph().capture_begin):
        try:
            call()
        except RuntimeError as e:
            refused += "fork" in str(e)
    del g
    os._exit(refused)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
g.replay()
print(x.sum().item())
"""


def test_forked_child(run_forked):
    assert run_forked(FORKED).split() == ["3", "8.0"]


def test_make_graphed_callables_refuses():
    module = nn.Linear(4, 4).to(DEV)
    sample = torch.zeros(2, 4, device=DEV)
    with pytest.raises(TypeError, match="tensors"):
        torch.openreg.make_graphed_callables(module, (sample, 3))
    module.register_forward_hook(lambda *args: None)
    with pytest.raises(RuntimeError, match="hooks"):
        torch.openreg.make_graphed_callables(module, (sample,))
    with torch.autocast(DEV), pytest.raises(RuntimeError, match="cache_enabled=False"):
        torch.openreg.make_graphed_callables(nn.Linear(4, 4).to(DEV), (sample,))
