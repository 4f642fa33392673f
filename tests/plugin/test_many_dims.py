# SPDX-License-Identifier: BSD-3-Clause
"""Tensors of more than 64 dimensions. Core has masks of 64 dimensions, so the CPU refuses
some operators; the card refuses the same."""

import pytest
import torch

FUNCTIONS = """
    sum nansum mean amax amin max min all any prod argmax argmin std var median nanmedian sort
    argsort msort cumsum cumprod cummax cummin logcumsumexp logsumexp softmax norm
    count_nonzero aminmax mode unique flip roll exp add neg
""".split()
WITH_ARGUMENTS = {
    "topk": lambda t: torch.topk(t, 1, 1),
    "kthvalue": lambda t: torch.kthvalue(t, 1, 1),
    "vector_norm": torch.linalg.vector_norm,
    "vector_norm of a dimension": lambda t: torch.linalg.vector_norm(t, 2, 1),
    "norm of a dimension": lambda t: torch.norm(t, 2, 1),
    "matmul": lambda t: t @ t,
    "cat": lambda t: torch.cat([t, t], 1),
    "index_select": lambda t: t.index_select(1, torch.tensor([1, 0], device=t.device)),
    "gather": lambda t: t.gather(1, torch.zeros_like(t, dtype=torch.long)),
    "where": lambda t: torch.where(t > 1, t, -t),
    "mask": lambda t: t[t > 1],
}


def outcome(function, t):
    try:
        result = function(t)
        return [r.cpu() for r in ([result] if isinstance(result, torch.Tensor) else result)]
    except Exception as error:  # noqa: BLE001 - the result
        return error


def cases():
    found = dict(WITH_ARGUMENTS)
    for name in FUNCTIONS:
        function = getattr(torch, name)
        found[name] = function
        found[name + " of 1"] = lambda t, function=function: function(t, 1)
    return found


@pytest.mark.parametrize("name", cases())
@pytest.mark.parametrize("dims", [64, 65, 130])
def test_many_dims(name, dims):
    x = torch.tensor([[2.0, 1.0], [3.0, float("nan")], [0.0, 5.0]])
    x = x.view(*[1] * (dims // 2), 3, *[1] * (dims - dims // 2 - 2), 2).transpose(1, -1)
    of_cpu, of_card = (outcome(cases()[name], x.to(device)) for device in ("cpu", "openreg"))
    if isinstance(of_cpu, Exception):
        assert isinstance(of_card, type(of_cpu)), (of_cpu, of_card)
        assert not isinstance(of_card, torch.AcceleratorError)
    else:
        assert not isinstance(of_card, Exception), of_card
        assert [r.shape for r in of_card] == [r.shape for r in of_cpu]
        flat = [[r.flatten() for r in of] for of in (of_card, of_cpu)]
        torch.testing.assert_close(*flat, equal_nan=True)
