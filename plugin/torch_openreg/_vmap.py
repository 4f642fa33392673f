# SPDX-License-Identifier: BSD-3-Clause
"""vmap of the fused attention: the mapped dimension becomes a part of the batch.

vmap cannot loop over these operators itself, because they also return numbers.
"""

import torch

_NAME = "aten::_scaled_dot_product_fused_attention_overrideable"


def _spread(t, dim, n):
    """Moves the mapped dimension to the front. Expands a tensor that is not mapped."""
    return t.expand(n, *t.shape) if dim is None else t.movedim(dim, 0)


def _merge(t, dim, n):
    return None if t is None else _spread(t, dim, n).flatten(0, 1)


def _merge_bias(t, dim, n, batch):
    """Returns a mask or a bias with four dimensions and the batch's size."""
    if t is None:
        return None
    wide = _spread(t, dim, n)
    while wide.dim() < 5:
        wide = wide.unsqueeze(1)
    return wide.expand(n, batch, *wide.shape[2:]).flatten(0, 1)


def _split(t, n):
    return None if t is None else t.unflatten(0, (n, t.shape[0] // n))


def _split_bias(grad, bias, dim, n):
    """Returns the gradient of the argument of _merge_bias()."""
    if grad is None:
        return None
    shape = _spread(bias, dim, n).shape
    wide = _split(grad, n)
    ones = (1,) * (wide.dim() - len(shape))
    return wide.sum_to_size(shape[0], *ones, *shape[1:]).reshape(shape)


def _forward(info, dims, query, key, value, bias=None, *rest, **kwargs):
    n = info.batch_size
    q, k, v = (_merge(t, d, n) for t, d in zip((query, key, value), dims))
    b = None if bias is None else _merge_bias(bias, dims[3], n, q.shape[0] // n)
    op = torch.ops.aten._scaled_dot_product_fused_attention_overrideable
    out, log_sum, *others = op(q, k, v, b, *rest, **kwargs)
    return (_split(out, n), _split(log_sum, n), *others), (0, 0, *[None] * len(others))


def _backward(
    info, dims, grad, query, key, value, bias, wanted, out, log_sum, *rest, **kwargs
):
    n = info.batch_size
    q, k, v, o, s, g = (
        _merge(t, dims[i], n)
        for t, i in zip((query, key, value, out, log_sum, grad), (1, 2, 3, 6, 7, 0))
    )
    b = _merge_bias(bias, dims[4], n, q.shape[0] // n)
    op = torch.ops.aten._scaled_dot_product_fused_attention_overrideable_backward
    dq, dk, dv, db = op(g, q, k, v, b, wanted, o, s, *rest, **kwargs)
    grads = _split(dq, n), _split(dk, n), _split(dv, n), _split_bias(db, bias, dims[4], n)
    return grads, tuple(None if t is None else 0 for t in grads)


def install() -> None:
    torch.library.register_vmap(_NAME, _forward)
    torch.library.register_vmap(_NAME + "_backward", _backward)
