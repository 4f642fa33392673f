# SPDX-License-Identifier: BSD-3-Clause
"""Copies between cards for nn.DataParallel. torch.nn.parallel.comm calls these functions
in torch._C. Core builds them only for CUDA."""

import contextlib
from collections.abc import Sequence
from typing import Any, Optional

import torch
from torch import Tensor


def _device(index: Optional[int]) -> torch.device:
    if index is not None and index < 0:
        return torch.device("cpu")
    return torch.device("openreg", torch.openreg.current_device() if index is None else index)


def _broadcast(tensor: Tensor, devices: Sequence[int]) -> list[Tensor]:
    return [tensor.to(_device(index), non_blocking=True) for index in devices]


def _broadcast_out(tensor: Tensor, out: Sequence[Tensor]) -> list[Tensor]:
    return [to.copy_(tensor, non_blocking=True) for to in out]


def _broadcast_coalesced(
    tensors: Sequence[Tensor], devices: Sequence[int], buffer_size: int
) -> list[list[Tensor]]:
    return [[t.to(_device(index), non_blocking=True) for t in tensors] for index in devices]


def _on(streams: Optional[Sequence[Optional[torch.Stream]]], i: int) -> Any:
    return (streams[i] if streams else None) or contextlib.nullcontext()


def _scatter(
    tensor: Tensor,
    devices: Sequence[int],
    chunk_sizes: Optional[Sequence[int]],
    dim: int,
    streams: Optional[Sequence[Optional[torch.Stream]]],
) -> list[Tensor]:
    if chunk_sizes is None:
        chunks = tensor.chunk(len(devices), dim)
    else:
        chunks = tensor.split_with_sizes(chunk_sizes, dim)
    moved = []
    for i, chunk in enumerate(chunks):
        with _on(streams, i):
            moved.append(chunk.to(_device(devices[i]), non_blocking=True))
    return moved


def _scatter_out(
    tensor: Tensor,
    out: Sequence[Tensor],
    dim: int,
    streams: Optional[Sequence[Optional[torch.Stream]]],
) -> list[Tensor]:
    chunks = tensor.split_with_sizes([to.size(dim) for to in out], dim)
    for i, to in enumerate(out):
        with _on(streams, i):
            to.copy_(chunks[i], non_blocking=True)
    return list(out)


def _gather(tensors: Sequence[Tensor], dim: int, destination: Optional[int]) -> Tensor:
    to = _device(destination)
    return torch.cat([t.to(to, non_blocking=to.type != "cpu") for t in tensors], dim)


def _gather_out(tensors: Sequence[Tensor], out: Tensor, dim: int) -> Tensor:
    return torch.cat([t.to(out.device) for t in tensors], dim, out=out)


def install() -> None:
    for function in (
        _broadcast,
        _broadcast_out,
        _broadcast_coalesced,
        _scatter,
        _scatter_out,
        _gather,
        _gather_out,
    ):
        if not hasattr(torch._C, function.__name__):
            setattr(torch._C, function.__name__, function)
