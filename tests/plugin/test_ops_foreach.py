# SPDX-License-Identifier: BSD-3-Clause
"""Core's own samples of operators on lists of tensors. Core runs the operator once for each
tensor of a list."""

import pytest
import torch
from ops import as_list, no_fallback, to_card, to_cpu
from torch.testing._internal import common_methods_invocations as invocations

SAMPLES = 24  # per operator, evenly spaced

OPS = [
    op
    for kind in ("unary", "binary", "pointwise", "reduce", "other")
    for op in getattr(invocations, f"foreach_{kind}_op_db")
]


def is_complex(value):
    if isinstance(value, (list, tuple)):
        return any(is_complex(v) for v in value)
    return value.is_complex() if torch.is_tensor(value) else isinstance(value, complex)


def samples(op):
    """The samples without complex scalars, which would make complex results."""
    options = {"allow_higher_dtype_scalars": False, "disable_fastpath": False}
    found = [
        s
        for s in op.sample_inputs("cpu", torch.float32, noncontiguous=False, **options)
        if not is_complex(s.args) and not is_complex(list(s.kwargs.values()))
    ]
    return found[:: max(1, len(found) // SAMPLES)]


def arguments(sample, move):
    """Copies of the sample's tensors, since operators may change them, with the keywords
    that the operators take."""
    keywords = {k: move(v) for k, v in sample.kwargs.items() if k in ("alpha", "value", "weight")}
    tensors = [move(t.detach().clone()) for t in sample.input]
    return (tensors, *(move(a) for a in sample.args)), keywords


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_lists_of_tensors(op):
    forms = [f for f in (op.get_op(), op.get_inplace()) if f is not None]
    assert forms and samples(op)
    # Sums of up to 30 products of up to 81; their order differs from CPU to CPU.
    atol = 1e-4 if op.name == "_foreach_mm" else 1e-5
    for sample in samples(op):
        for form in forms:
            args, keywords = arguments(sample, lambda v: v)
            try:
                want = form(*args, **keywords)
            except RuntimeError as error:
                args, keywords = arguments(sample, to_card)
                with pytest.raises(RuntimeError):
                    form(*args, **keywords)
                continue
            want = args[0] if want is None else want
            args, keywords = arguments(sample, to_card)
            with no_fallback():
                got = form(*args, **keywords)
            got = args[0] if got is None else got
            torch.testing.assert_close(
                as_list(to_cpu(got)), as_list(want), equal_nan=True, rtol=1e-5, atol=atol
            )
