# SPDX-License-Identifier: BSD-3-Clause
"""Refuses nested tensors of the strided layout, which the card lacks. Core creates one from
CPU data without a call to the backend, and autograd then aborts the process.

Core's attention of jagged tensors needs them. Here it runs on padded sequences instead."""

import functools
import inspect
from typing import Any

import torch
from torch.nested._internal import nested_tensor, ops, sdpa


def _refuse_strided(of_core: Any) -> Any:
    signature = inspect.signature(of_core)

    @functools.wraps(of_core)
    def make(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        device = given.get("device")
        if given.get("layout") is not torch.jagged and device is not None:
            if torch.device(device).type == "openreg":
                raise NotImplementedError(
                    f"{of_core.__name__}: openreg has no nested tensors of the strided "
                    "layout. Create them with layout=torch.jagged, or keep them on the CPU."
                )
        return of_core(*args, **kwargs)

    return make


def _rows_of_sequences(t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows of t.values() for each padded sequence, and which of them are no padding."""
    offsets = t.offsets()
    lengths = offsets.diff()
    places = torch.arange(int(lengths.max().item()), device=offsets.device)
    rows = offsets[:-1, None] + places
    return rows.clamp(max=max(t.values().size(0) - 1, 0)), places < lengths[:, None]


def _attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float,
    scale: float | None,
) -> torch.Tensor:
    """Attention of [batch, heads, sequence, channels], where the sequences are jagged."""
    queries, keys, values = (t.transpose(1, 2) for t in (query, key, value))
    query_rows, queried = _rows_of_sequences(queries)
    key_rows, attended = _rows_of_sequences(keys)
    none = ~attended.any(1, keepdim=True)
    q, k, v = (
        t.values()[rows].transpose(1, 2)
        for t, rows in ((queries, query_rows), (keys, key_rows), (values, key_rows))
    )
    # Without a key, the result is 0.
    mask = (attended | none)[:, None, None]
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask, dropout_p, scale=scale)
    out = out.transpose(1, 2).masked_fill(none[:, :, None, None], 0)
    return nested_tensor.nested_view_from_values_offsets_lengths(
        out[queried],
        queries.offsets(),
        queries.lengths(),
        min_seqlen=queries._maybe_min_seqlen,
        max_seqlen=queries._maybe_max_seqlen,
    ).transpose(1, 2)


def _attention_on_card(of_core: Any) -> Any:
    signature = inspect.signature(of_core)

    @functools.wraps(of_core)
    def attention(*args: Any, **kwargs: Any) -> Any:
        call = signature.bind(*args, **kwargs)
        call.apply_defaults()
        given = call.arguments
        tensors = [given[name] for name in ("query", "key", "value")]
        served = all(
            t.is_nested and t.device.type == "openreg" and t.dim() == 4 and t._ragged_idx == 2
            for t in tensors
        )
        # Core raises for the other calls, as on the CPU.
        if not served or given["is_causal"] or given["attn_mask"] is not None:
            return of_core(*args, **kwargs)
        q, k, v, _ = sdpa._autocast(*tensors, None)
        sdpa._validate_sdpa_input(q, k, v)
        return _attend(q, k, v, given["dropout_p"], given["scale"])

    return attention


def install() -> None:
    ops.jagged_scaled_dot_product_attention = _attention_on_card(
        ops.jagged_scaled_dot_product_attention
    )
    for name in ("nested_tensor", "as_nested_tensor"):
        setattr(torch.nested, name, _refuse_strided(getattr(torch.nested, name)))
