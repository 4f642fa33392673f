# SPDX-License-Identifier: BSD-3-Clause
"""Jagged nested tensors, which core composes of plain tensors. For this, core imports half
of torch."""

import pytest
import torch

from ops import values

DEV = "openreg"

pytestmark = pytest.mark.native


def parts(device, grad):
    made = [values(2, 4, seed=1), values(3, 4, seed=2), values(1, 4, seed=3)]
    return [t.to(device).requires_grad_(grad) for t in made]


def jagged_of_parts(device, grad):
    leaves = parts(device, grad)
    return torch.nested.as_nested_tensor(leaves, layout=torch.jagged), leaves


def jagged_leaf(device, grad):
    nested = torch.nested.nested_tensor(
        parts(device, False), layout=torch.jagged, requires_grad=grad)
    return nested, [nested]


def jagged_of_offsets(device, grad):
    flat = torch.cat(parts(device, False)).requires_grad_(grad)
    offsets = torch.tensor([0, 2, 5, 6], device=device)
    return torch.nested.nested_tensor_from_jagged(flat, offsets), [flat]


def jagged_of_lengths(device, grad):
    whole = values(3, 5, 4).to(device).requires_grad_(grad)
    lengths = torch.tensor([2, 5, 1], device=device)
    parts = torch.nested.narrow(whole, 1, 0, lengths, layout=torch.jagged).unbind()
    return torch.nested.as_nested_tensor(list(parts), layout=torch.jagged), [whole]


FUNCTIONS = {
    "mul": lambda x: x * x,
    "add": lambda x: x + 2,
    "sin": lambda x: x.sin(),
    "gelu": torch.nn.functional.gelu,
    "linear": lambda x: torch.nn.functional.linear(x, values(3, 4).to(x.device)),
    "layer_norm": lambda x: torch.nn.functional.layer_norm(x, (4,)),
    "softmax": lambda x: x.softmax(-1),
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean(-1),
    "padded": lambda x: x.to_padded_tensor(0.0),
    "clone": lambda x: x.clone(),
    "matmul": lambda x: x @ values(4, 2).to(x.device),
    "unbind": lambda x: torch.cat([t * (i + 1) for i, t in enumerate(x.unbind())]),
}


def flat(t):
    return t.values() if t.is_nested else t


def results(source, name, device, grad):
    x, leaves = source(device, grad)
    out = FUNCTIONS[name](x)
    found = [flat(out).detach()]
    if grad:
        weighted = flat(out) * torch.linspace(-1, 1, flat(out).numel(), device=device).view(flat(out).shape)
        gradients = torch.autograd.grad(weighted.sum(), leaves)
        found += [flat(g) for g in gradients]
    return found


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "name, grad",  # core has no gradient of a jagged sum
    [(n, g) for n in FUNCTIONS for g in (False, True) if (n, g) != ("sum", True)])
@pytest.mark.parametrize(
    "source", [jagged_of_parts, jagged_leaf, jagged_of_offsets, jagged_of_lengths])
def test_jagged(source, name, grad):
    want = results(source, name, "cpu", grad)
    got = results(source, name, DEV, grad)
    for g, w in zip(got, want, strict=True):
        assert g.is_openreg
        torch.testing.assert_close(g.cpu(), w, rtol=1e-4, atol=1e-5)


def test_moves():
    nested, _ = jagged_of_parts("cpu", True)
    card = nested.to(DEV)
    assert card.is_openreg and card.layout == torch.jagged
    (card * 2).values().sum().backward()
    back = card.cpu()
    assert torch.equal(back.values(), nested.values())
    assert repr(card).startswith("NestedTensor(size=(3, j")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_training():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).to(DEV)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, _ = jagged_of_parts(DEV, False)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = (model(x).values() - 1).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 4


def attention(device, channels, lengths):
    """The result and the gradients, of other keys and values than queries."""
    made = [
        [values(n, 2, channels, seed=10 * i + n).to(device) for n in ns]
        for i, ns in enumerate(lengths)
    ]
    leaves = [
        torch.nested.nested_tensor(t, layout=torch.jagged, requires_grad=True) for t in made
    ]
    heads = [t.transpose(1, 2) for t in leaves]
    # The keys and values must have the same offsets.
    heads[2] = torch.nested.nested_tensor_from_jagged(
        leaves[2].values(), leaves[1].offsets()).transpose(1, 2)
    out = torch.nn.functional.scaled_dot_product_attention(*heads).transpose(1, 2).contiguous()
    weights = torch.linspace(-1, 1, out.values().numel(), device=device).view_as(out.values())
    grads = torch.autograd.grad((out.values() * weights).sum(), leaves)
    return [t.detach().cpu() for t in (out.values(), *(g.values() for g in grads))]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("channels", [1, 4, 8, 12])
@pytest.mark.parametrize("lengths", [[(2, 3, 1)] * 3, [(2, 3, 1), (4, 1, 2), (4, 1, 2)]])
def test_attention(channels, lengths):
    for got, want in zip(attention(DEV, channels, lengths), attention("cpu", channels, lengths)):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_attention_with_arguments():
    for arguments in ({"scale": 0.5}, {"is_causal": True}):
        outcomes = []
        for device in ("cpu", DEV):
            t = jagged_of_parts(device, False)[0].unsqueeze(2).transpose(1, 2)
            try:
                out = torch.nn.functional.scaled_dot_product_attention(t, t, t, **arguments)
                outcomes.append(out.transpose(1, 2).contiguous().values().cpu())
            except RuntimeError as error:
                outcomes.append(str(error))
        if isinstance(outcomes[0], torch.Tensor):
            torch.testing.assert_close(outcomes[1], outcomes[0], rtol=1e-4, atol=1e-5)
        else:
            assert outcomes[0] == outcomes[1]
