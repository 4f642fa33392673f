# SPDX-License-Identifier: BSD-3-Clause
"""Operators without a kernel run on the CPU: results, counts, and the modes warn and
error."""

import threading
import warnings

import packets
import pytest
import torch

DEV = "openreg"


@pytest.fixture(autouse=True)
def fresh():
    torch.openreg.reset_fallbacks()
    before = torch.openreg.set_fallback("count")
    yield
    torch.openreg.set_fallback(before)


def test_is_right_and_counted():
    x = torch.tensor([3.0, 1.0, 2.0])
    y = x.to(DEV)
    for _ in range(3):
        values, order = y.mode(0)
    assert torch.openreg.fallbacks() == {"aten::mode": 3}
    assert values.is_openreg and order.is_openreg
    assert values.item() == x.mode(0).values.item()
    assert sum(torch.openreg.fallbacks().values()) == torch.openreg.stats()["fallbacks"]
    torch.openreg.reset_fallbacks()
    assert torch.openreg.fallbacks() == {}


def test_in_place_and_out():
    x = torch.randn(5, 5)
    y = x.to(DEV)
    out = torch.empty(0, device=DEV)
    torch.linalg.eigvalsh(y, out=out)
    assert torch.allclose(out.cpu(), torch.linalg.eigvalsh(x), atol=1e-4)
    y.erfinv_()
    assert torch.allclose(y.cpu(), x.erfinv(), equal_nan=True)


def test_out_is_not_read():
    y = torch.randn(5, 5).to(DEV)
    out = torch.empty(5, device=DEV), torch.empty(5, 5, device=DEV)
    # Three copies: y to the CPU, values and vectors back.
    assert packets.launched(lambda: torch.linalg.eigh(y, out=out)) == 3
    want = torch.linalg.eigvalsh(y.cpu())
    torch.linalg.eigvalsh(y, out=y[0])
    assert torch.allclose(y[0].cpu(), want, atol=1e-4)


def test_out_that_is_added_to():
    library = torch.library.Library("test_fallback", "FRAGMENT")
    library.define("accumulate(Tensor x, *, Tensor(a!) out) -> ()")

    def accumulate(x, *, out):
        out.add_(x)

    library.impl("accumulate", accumulate, "CPU")
    for device in ("cpu", DEV):
        x, out = torch.ones(1, 3, device=device), torch.ones(1, 3, device=device)
        torch.ops.test_fallback.accumulate(x, out=out)
        # This operator of core also adds to out=.
        torch._compute_linear_combination(x, x[:, :1], out=out)
        assert out.tolist() == [[3.0] * 3]


def test_elements_that_share_memory():
    """An expanded tensor stays expanded on the CPU: its memory is copied only once."""
    for memory in (torch.zeros(3, 1, dtype=torch.uint16), torch.zeros(3, 1).to(torch.uint16).to(DEV)):
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            memory.expand(3, 4).bitwise_not_()
    y = torch.randn(1, 8, 8).to(DEV)
    before = torch.openreg.queue_stats(0)["dma_written"]
    torch.linalg.eigvalsh(y.expand(1000, 8, 8))
    torch.openreg.synchronize()
    assert torch.openreg.queue_stats(0)["dma_written"] - before < 10 * y.nbytes


def test_error_mode():
    y = torch.randn(3, 3).to(DEV)
    torch.openreg.set_fallback("error")
    with pytest.raises(NotImplementedError, match="has no kernel for openreg"):
        torch.linalg.eigvalsh(y)
    torch.openreg.set_fallback("count")
    torch.linalg.eigvalsh(y)


def test_warn_mode_says_it_once():
    y = torch.randn(3, 3).to(DEV)
    torch.openreg.set_fallback("warn")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.linalg.eigvalsh(y)
        torch.linalg.eigvalsh(y)
    texts = [str(w.message) for w in caught if "runs on the CPU" in str(w.message)]
    assert len(texts) == len(set(texts)) >= 1


def test_unknown_mode():
    with pytest.raises(ValueError, match="count, warn or error"):
        torch.openreg.set_fallback("maybe")


@pytest.mark.native
def test_environment(run_python):
    code = (
        "import torch\n"
        "y = torch.ones(3, 3).to('openreg')\n"
        "try:\n"
        "    torch.linalg.eigvalsh(y)\n"
        "except NotImplementedError as error:\n"
        "    print('TORCH_OPENREG_FALLBACK' in str(error))\n"
    )
    assert run_python(code, TORCH_OPENREG_FALLBACK="error") == "True\n"


@pytest.mark.native
def test_nonsense_in_the_environment(run_python):
    """The warning comes from C++, before Python's warnings are set up."""
    code = (
        "import os\n"
        "os.dup2(1, 2)\n"
        "import torch\n"
        "print(torch.openreg.set_fallback('count'))\n"
    )
    out = run_python(code, TORCH_OPENREG_FALLBACK="eror")
    assert "'eror'. Valid values are count, warn and error" in out
    assert out.splitlines()[-1] == "warn"


def test_threads_share_the_lent_generator():
    """On the CPU, operators without a generator argument use the CPU's default generator.
    The fallback lends it the card's state, and must restore it."""
    x = torch.zeros(512, dtype=torch.complex64, device=DEV)
    before = torch.get_rng_state()
    threads = [
        threading.Thread(target=lambda: [torch.native_dropout(x, 0.5, True) for _ in range(30)])
        for _ in range(3)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert torch.equal(torch.get_rng_state(), before)


def test_op_counts():
    torch.openreg.reset_op_counts()
    x = torch.arange(3.0).to(DEV)
    x.clone()
    assert torch.openreg.op_counts() == {"aten::_copy_from": 2}
    assert packets.launched(x.clone) == 1


def test_printing_is_no_fallback():
    x = torch.tensor([1.5, float("nan"), 1e9])
    torch.openreg.set_fallback("error")
    assert repr(x.to(DEV)) == repr(x)[:-1] + ", device='openreg:0')"
    assert repr(torch.ones(2, dtype=torch.complex64).to(DEV)).startswith("tensor([1.+0.j")
    assert torch.openreg.fallbacks() == {}


def test_a_kernel_of_core_that_names_its_devices():
    x = torch.tensor([[1.0, 2, 2], [3, 3, 1]])
    want = torch.mode(x, 1)
    card = x.to(DEV)
    out = torch.empty(0, device=DEV), torch.empty(0, dtype=torch.int64, device=DEV)
    torch.mode(card, 1, out=out)
    assert torch.equal(out[0].cpu(), want[0]) and torch.equal(out[1].cpu(), want[1])
