# SPDX-License-Identifier: BSD-3-Clause
"""Autocast and GradScaler: a training loop in half precision on the card."""

import pytest
import torch
from torch import nn

from ops import no_fallback, to_card, values



def unscale(grads, found, inverse):
    torch._amp_foreach_non_finite_check_and_unscale_(grads, found, inverse)
    return [*grads, found]


@pytest.mark.parametrize("bad", [None, float("inf"), float("nan")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_unscale(bad, dtype):
    grads = [values(3, 4, dtype=dtype), values(5, dtype=dtype).t(), values(0, dtype=dtype),
             values(4, 6, dtype=dtype)[:, ::2]]
    if bad is not None:
        grads[1][2] = bad
    for before in (0.0, 1.0):
        card = [to_card(g) for g in grads]
        inverse = torch.tensor(0.25)
        with no_fallback():
            got = unscale(card, to_card(torch.tensor(before)), to_card(inverse))
        for g, w in zip(got, grads):
            torch.testing.assert_close(g.cpu(), w * 0.25, equal_nan=True)
        assert got[-1].item() == (1.0 if bad is not None else before)


def test_unscale_more_dimensions_than_a_packet_has():
    whole = values(*[4] * 8, 3)
    for bad in (False, True):
        whole[(0,) * 9] = float("inf") if bad else 1.0
        card = to_card(whole)
        part = card[(slice(0, None, 2),) * 8]
        found = to_card(torch.zeros(1))
        with no_fallback():
            unscale([part], found, to_card(torch.tensor(0.25)))
        want = whole.clone()
        want[(slice(0, None, 2),) * 8] *= 0.25
        torch.testing.assert_close(card.cpu(), want)
        assert found.item() == bad


def test_update_scale():
    for scale, tracker, found in [(8.0, 0, 0.0), (8.0, 2, 0.0), (8.0, 2, 1.0), (3e38, 2, 0.0)]:
        args = torch.tensor(scale), torch.tensor(tracker, dtype=torch.int32), torch.tensor(found)
        card = [to_card(a) for a in args]
        torch._amp_update_scale_(*args, 2.0, 0.5, 3)
        with no_fallback():
            torch._amp_update_scale_(*card, 2.0, 0.5, 3)
        assert [c.item() for c in card] == [a.item() for a in args]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_network_learns_in_half_precision(dtype):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(8, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 32), nn.BatchNorm1d(32),
        nn.ReLU(), nn.Linear(32, 3)).to("openreg")
    x = values(64, 8)
    target = to_card((x[:, 0] > 0).long() + (x[:, 1] > 1).long())
    x = to_card(x)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    scaler = torch.amp.GradScaler("openreg", init_scale=2.0**30, enabled=dtype == torch.float16)
    losses, scales = [], []
    with no_fallback():
        for _ in range(60):
            optimizer.zero_grad()
            with torch.autocast("openreg", dtype):
                loss = nn.functional.cross_entropy(model(x), target)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
            scales.append(scaler.get_scale())
    assert losses[-1] < losses[0] / 3
    if dtype == torch.float16:
        assert scales[-1] < 2.0**30  # the first steps overflowed and were skipped


def test_attention_under_autocast():
    q, k, v = (to_card(values(2, 4, 5, 8, seed=s)).requires_grad_() for s in range(3))
    with no_fallback(), torch.autocast("openreg", torch.bfloat16):
        out = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        assert out.dtype == torch.bfloat16
        out.float().square().sum().backward()
    want = nn.functional.scaled_dot_product_attention(
        *(t.detach().cpu() for t in (q, k, v)), is_causal=True)
    torch.testing.assert_close(out.detach().cpu().float(), want, rtol=3e-2, atol=3e-2)
    assert q.grad.dtype == torch.float32


def test_scale_on_another_device():
    grad, found = torch.ones(3, device="openreg"), torch.zeros(1, device="openreg")
    with pytest.raises(RuntimeError, match="same device"):
        torch._amp_foreach_non_finite_check_and_unscale_([grad], found, torch.tensor(0.5))
