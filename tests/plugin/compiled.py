# SPDX-License-Identifier: BSD-3-Clause
"""Runs functions and models compiled and in eager mode on the card, and compares."""

import copy

import pytest
import torch
from torch.utils._pytree import tree_leaves, tree_map_only

DEV = "openreg"


@pytest.fixture
def fresh():
    """No compiled code and no counts from other tests."""
    torch.compiler.reset()
    torch.openreg.reset_compile_fallbacks()
    torch.openreg.reset_fallbacks()
    yield
    torch.compiler.reset()


def randn(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def ints(high, *shape, low=0, seed=0):
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed))


def on_card(args, grad: bool = True):
    """Copies of the arguments on the card, of which the floats require gradients."""

    def move(t):
        t = t.detach().to(DEV)
        return t.requires_grad_(grad and t.is_floating_point())

    return tree_map_only(torch.Tensor, move, args)


def _run(function, args, seed: int) -> list[torch.Tensor]:
    """The results, and the gradients of the arguments."""
    torch.manual_seed(seed)
    found = [t for t in tree_leaves(function(*args)) if isinstance(t, torch.Tensor)]
    floats = [t for t in found if t.requires_grad]
    if floats:
        sum((t * torch.cos(t.detach())).sum() for t in floats).backward()
    grads = [a.grad for a in tree_leaves(args) if isinstance(a, torch.Tensor) and a.requires_grad]
    return [t.detach() for t in found] + grads


def assert_like_eager(function, args, *, grad=True, tolerance=None, **options) -> None:
    """Compares results, gradients, and arguments that the function changes."""
    theirs, ours = on_card(args, grad), on_card(args, grad)
    expected = _run(function, theirs, 0)
    found = _run(torch.compile(function, **options), ours, 0)
    expected += [t.detach() for t in tree_leaves(theirs) if isinstance(t, torch.Tensor)]
    found += [t.detach() for t in tree_leaves(ours) if isinstance(t, torch.Tensor)]
    limits = {} if tolerance is None else {"rtol": tolerance, "atol": tolerance}
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(
                a, b, equal_nan=True, msg=lambda text: f"value {i}: {text}", **limits
            )


def assert_model_like_eager(model, inputs, loss_of, tolerance=1e-4, **options) -> None:
    """Compares the loss, the gradients and the buffers after a step."""
    theirs = copy.deepcopy(model).to(DEV)
    ours = copy.deepcopy(model).to(DEV)
    inputs = on_card(inputs, grad=False)
    expected = loss_of(theirs, *inputs)
    found = loss_of(torch.compile(ours, **options), *inputs)
    expected.backward()
    found.backward()
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None), name
        if a.grad is not None:
            torch.testing.assert_close(
                a.grad, b.grad, rtol=tolerance, atol=tolerance, msg=lambda t: f"{name}: {t}"
            )
    for (name, a), b in zip(ours.named_buffers(), theirs.buffers(), strict=True):
        torch.testing.assert_close(
            a, b, rtol=tolerance, atol=tolerance, msg=lambda t: f"{name}: {t}"
        )
