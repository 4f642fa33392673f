# SPDX-License-Identifier: BSD-3-Clause
"""An operator refuses an out= on another device, or of a dtype to which its result cannot
be cast, in the same cases as on the CPU."""

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

DEVICE = "openreg"
# Without equal(), which returns a bool and has no out=.
OPS = [
    op
    for op in op_db
    if op.supports_out and torch.float32 in op.dtypes and op.name != "equal"
]
names = pytest.mark.parametrize("op", OPS, ids=lambda op: f"{op.name}.{op.variant_test_name}")


def first_sample(op):
    return next(iter(op.sample_inputs("cpu", torch.float32)), None)


def call(op, sample, device, make_out):
    """The error that the operator raises, if any."""
    there = [
        tree_map_only(torch.Tensor, lambda t: t.to(device), x)
        for x in (sample.input, sample.args, sample.kwargs)
    ]
    if "device" in there[2]:
        there[2]["device"] = device
    with torch.no_grad():
        found, spec = tree_flatten(op(there[0], *there[1], **there[2]))
        out = tree_unflatten([make_out(t) for t in found], spec)
        try:
            op(there[0], *there[1], **there[2], out=out)
            torch.openreg.synchronize()
        except Exception as error:  # noqa: BLE001 - the result
            return error
    return None


@names
def test_out_on_another_device(op):
    sample = first_sample(op)
    if sample is None or "device" in sample.kwargs:
        return
    on_cpu = call(op, sample, "cpu", lambda t: torch.zeros_like(t, device=DEVICE))
    on_card = call(op, sample, DEVICE, lambda t: torch.zeros_like(t, device="cpu"))
    assert on_cpu is None or on_card is not None


@names
def test_out_of_a_narrower_dtype(op):
    sample = first_sample(op)
    if sample is None:
        return

    def narrow(t):
        kind = torch.int64 if t.is_floating_point() or t.is_complex() else torch.bool
        return torch.zeros_like(t, dtype=kind)

    on_cpu = call(op, sample, "cpu", narrow)
    on_card = call(op, sample, DEVICE, narrow)
    assert (on_cpu is None) == (on_card is None), (on_cpu, on_card)
