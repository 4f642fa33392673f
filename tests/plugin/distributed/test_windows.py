# SPDX-License-Identifier: BSD-3-Clause
"""Windows: tensors that other ranks write, by puts and signals."""

import threading
import time

import pytest
import torch
import torch.distributed as dist
from ranks import card, Failure, Ranks

AGAIN = 50


def new_window(tensor=None):
    return dist.group.WORLD.new_window(tensor)


def neighbours():
    rank, size = dist.get_rank(), dist.get_world_size()
    return (rank + 1) % size, (rank - 1) % size


def ring():
    """Each rank puts into the next one's window, in both directions of the order of calls."""
    assert dist.group.WORLD.supports_window
    rank, (following, before) = dist.get_rank(), neighbours()
    mine = torch.zeros(4, 100, device=card())[1:3]  # a view: the window begins in the block
    window = new_window(mine)
    for step in range(AGAIN):
        x = torch.full((100,), rank * 1000.0 + step, device=card())
        window.put(x, following, 100 * (step % 2), False)
        window.signal(following, False)
        x.fill_(-1)  # after the put
        window.wait_signal(before, False)
        seen = mine[step % 2].clone()
        window.signal(before, False)  # this rank has read it
        window.wait_signal(following, False)
        assert torch.equal(seen.cpu(), torch.full((100,), before * 1000.0 + step)), step
    assert torch.equal(mine[:, 0].cpu(), before * 1000.0 + AGAIN - 2 + torch.arange(2))
    window.tensor_deregister()
    window.tensor_register(torch.zeros(3, dtype=torch.int64, device=card()), owning=False)
    window.tensor_deregister()


def complex_numbers():
    inbox = torch.zeros(8, dtype=torch.complex64, device=card())
    window = new_window(inbox)
    window.put(torch.full((2,), 1 + 2j, device=card()), neighbours()[0], 4, False)
    torch.openreg.synchronize()
    dist.barrier()
    torch.openreg.synchronize()
    assert inbox.tolist() == [0, 0, 0, 0, 1 + 2j, 1 + 2j, 0, 0]
    dist.barrier()
    window.tensor_deregister()


def test_complex_numbers(pair):
    pair.run(complex_numbers)


@pytest.mark.parametrize("ranks", ["pair", "trio"])
def test_ring(ranks, request):
    request.getfixturevalue(ranks).run(ring)


def asynchronous():
    """The work is done when its signal has come; a put needs no call of the other rank."""
    mine = torch.zeros(8, dtype=torch.bfloat16, device=card())
    window = new_window(mine)
    if dist.get_rank() == 0:
        work = window.wait_signal(1, True)
        assert not work.is_completed()
        dist.barrier()
        work.wait()
        assert mine.tolist() == [0, 0, 0, 1, 2, 3, 0, 0]
    else:
        dist.barrier()
        put = window.put(torch.arange(1, 4, dtype=torch.bfloat16, device=card()), 0, 3, True)
        window.signal(0, True)
        put.wait()
        torch.openreg.synchronize()
        assert put.is_completed()
        assert mine.sum().item() == 0
    attribute = window.get_attr(0)
    assert attribute.access_type == torch._C._distributed_c10d.WindowAccessType.UNIFIED
    dist.barrier()


def test_asynchronous(pair):
    pair.run(asynchronous)


def sizes_differ():
    rank = dist.get_rank()
    window = new_window(torch.zeros(10 * (rank + 1), device=card()))
    window.put(torch.ones(20, device=card()), 1, 0, False)
    with pytest.raises(ValueError, match="the window of rank 0 has 40"):
        window.put(torch.ones(11, device=card()), 0, 0, False)
    window.tensor_deregister()


def refused():
    window = new_window()
    x = torch.ones(4, device=card())
    for call in (
        lambda: window.put(x, 0, 0, False),
        lambda: window.signal(0, False),
        lambda: window.wait_signal(0, False),
        lambda: window.map_remote_tensor(0),
        lambda: window.tensor_deregister(),
    ):
        with pytest.raises(RuntimeError, match=r"call tensor_register\(\) first"):
            call()
    for tensor, words in (
        (torch.ones(4), "openreg"),
        (torch.ones(4, 2, device=card()).t(), "contiguous"),
        (torch.ones(0, device=card()), "no elements"),
    ):
        with pytest.raises((ValueError, RuntimeError), match=words):
            window.tensor_register(tensor)
    window.tensor_register(torch.zeros(4, device=card()))
    for call, words in (
        (lambda: window.put(x, 2, 0, False), "rank"),
        (lambda: window.put(x, 0, -1, False), "negative"),
        (lambda: window.put(x, 0, 1, False), "the window of rank 0 has 16"),
        (lambda: window.put(x, 0, 2**62, False), "no window has an element"),
        (lambda: window.put(torch.ones(4), 0, 0, False), "openreg"),
        (lambda: window.signal(-1, False), "rank"),
        (lambda: window.map_remote_tensor(2), "rank"),
        (lambda: window.tensor_register(x), "deregister"),
    ):
        with pytest.raises((ValueError, RuntimeError, NotImplementedError), match=words):
            call()
    window.put(x, 1, 0, False)
    window.tensor_deregister()


def mapped():
    """Tensors in the memory of the other ranks, which they keep."""
    rank, following = dist.get_rank(), neighbours()[0]
    mine = torch.arange(8.0, device=card()) + 100 * rank
    window = new_window(mine[2:6].view(2, 2))
    for r in range(dist.get_world_size()):
        theirs = window.map_remote_tensor(r)
        assert theirs.shape == (2, 2) and theirs.device == card()
        assert (theirs + 1).tolist() == [[100 * r + 3, 100 * r + 4], [100 * r + 5, 100 * r + 6]]
    dist.barrier()
    theirs = window.map_remote_tensor(following)
    theirs[1].copy_(torch.tensor([7.0, 8.0], device=card()) * rank)
    torch.openreg.synchronize()
    dist.barrier()
    before = neighbours()[1]
    assert mine[4:6].tolist() == [7 * before, 8 * before]
    window.tensor_deregister()
    del window, mine
    assert theirs[1].tolist() == [7 * rank, 8 * rank]
    dist.barrier()
    window = new_window(torch.zeros(rank + 1, 4, device=card()))
    assert window.map_remote_tensor(following).shape == (4 * (following + 1),)
    window.tensor_deregister()
    window.tensor_register(torch.full((2, 2), rank + 1j, device=card()))
    assert window.map_remote_tensor(following).tolist() == [[following + 1j] * 2] * 2
    window.tensor_deregister()
    types = torch.complex64, torch.int32, torch.int16
    window.tensor_register(torch.full((2, 2), rank, dtype=types[rank], device=card()))
    theirs = window.map_remote_tensor(following)
    assert (theirs.dtype, theirs.numel()) == (types[following], 4)
    assert theirs.tolist() == [following] * 4
    window.tensor_deregister()


@pytest.mark.parametrize("ranks", ["pair", "trio"])
def test_map_remote_tensor(ranks, request):
    request.getfixturevalue(ranks).run(mapped)


@pytest.mark.parametrize("case", [sizes_differ, refused])
def test_arguments(pair, case):
    pair.run(case)


def memory_comes_back():
    def use(steps):
        for _ in range(steps):
            window = new_window(torch.zeros(1 << 20, device=card()))
            window.put(torch.ones(1 << 18, device=card()), neighbours()[0], 0, False)
            window.tensor_deregister()
            del window
        torch.openreg.synchronize()
        dist.barrier()

    def free():
        torch.openreg.empty_cache()
        return torch.openreg.mem_get_info()[0]

    use(1)
    time.sleep(1)  # a thread still looks at the window's work
    before = free()
    dist.barrier()
    use(10)
    end = time.monotonic() + 60
    # A communicator's stream is kept for the next one, and is a page.
    while free() < before - (1 << 20) and time.monotonic() < end:
        time.sleep(0.1)
    return before - free()


def many_windows():
    windows = [new_window(torch.zeros(4, device=card())) for _ in range(40)]
    for n, window in enumerate(windows):
        window.put(torch.full((1,), float(n), device=card()), neighbours()[0], 1, False)
        window.signal(neighbours()[0], False)
    for window in windows:
        window.wait_signal(neighbours()[1], False)
    found = [window.map_remote_tensor(dist.get_rank())[1].item() for window in windows]
    assert found == list(range(40))
    dist.barrier()
    for window in windows:
        window.tensor_deregister()


# Ranks that share a card of a VM have no room for this.
@pytest.mark.native
def test_many_windows(two_new):
    two_new.start()
    two_new.run(many_windows)


@pytest.mark.native
def test_memory_comes_back(pair):
    lost = pair.run(memory_comes_back)
    assert max(lost) < 1 << 20, lost


def make_window():
    global window
    window = new_window(torch.zeros(4, device=card()))
    dist.barrier()


def wait_for_rank_1():
    window.put(torch.ones(4, device=card()), 1, 0, False)
    window.wait_signal(1, False)
    torch.openreg.synchronize()


@pytest.fixture
def two_new():
    """Ranks that the test may lose."""
    ranks = Ranks(2)
    yield ranks
    ranks.close()


@pytest.mark.native
def test_a_rank_ends(two_new):
    two_new.start()
    two_new.run(make_window)
    two_new.send(0, wait_for_rank_1)
    time.sleep(0.5)
    two_new.kill(1)
    with pytest.raises(Failure, match="rank 1 has ended: rank 0 waited for it in wait_signal"):
        two_new.result(0)


@pytest.mark.native
def test_a_rank_is_late(two_new):
    two_new.start(timeout=5)
    two_new.run(make_window)
    two_new.send(0, wait_for_rank_1)
    with pytest.raises(Failure, match="rank 1 is late: rank 0 has waited .* for its signal 1;"):
        two_new.result(0)


def deregister_and_abort():
    thread = threading.Thread(target=lambda: raised.append(outcome(window.tensor_deregister)))
    raised = []
    thread.start()
    time.sleep(0.5)
    begin = time.monotonic()
    dist.distributed_c10d._abort_process_group()
    thread.join()
    return time.monotonic() - begin, str(raised[0])


def outcome(call):
    try:
        call()
    except dist.DistBackendError as error:
        return error


@pytest.mark.native
def test_abort_does_not_wait_for_a_rank_that_does_not_come(two_new):
    two_new.start(timeout=200)
    two_new.run(make_window)
    two_new.send(0, deregister_and_abort)
    seconds, text = two_new.result(0)
    assert seconds < 60
    assert "abort" in text


def register_and_destroy():
    """Another thread waits for rank 1, which does not come."""
    group = dist.group.WORLD
    window = group.new_window(None)
    window.tensor_register(torch.zeros(4, device=card()))
    raised = []
    thread = threading.Thread(target=lambda: raised.append(outcome(window.tensor_deregister)))
    thread.start()
    time.sleep(0.5)
    begin = time.monotonic()
    dist.destroy_process_group()
    thread.join()
    return time.monotonic() - begin, str(raised[0])


def register():
    global window
    window = dist.group.WORLD.new_window(None)
    window.tensor_register(torch.zeros(4, device=card()))


def deregister_and_register():
    window.tensor_deregister()
    window.tensor_register(torch.zeros(4, device=card()))


@pytest.mark.native
def test_destroy_does_not_wait_for_a_rank_that_does_not_come(two_new):
    two_new.start(timeout=200)
    two_new.send(0, register_and_destroy)
    two_new.send(1, register)
    two_new.result(1)
    seconds, text = two_new.result(0)
    assert seconds < 100  # and not the timeout
    assert "has been destroyed" in text
    # Rank 0 has done its part of this call, but does not come to the next one.
    two_new.send(1, deregister_and_register)
    with pytest.raises(Failure, match="rank 0 has aborted"):
        two_new.result(1)
