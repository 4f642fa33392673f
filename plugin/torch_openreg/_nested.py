# SPDX-License-Identifier: BSD-3-Clause
"""Nested tensors of the strided layout, which the card has not: core makes one of CPU
data without a call that reaches the backend, and autograd aborts on it."""

import functools
import inspect
from typing import Any

import torch


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
                    "layout. Make them with layout=torch.jagged, or keep them on the CPU."
                )
        return of_core(*args, **kwargs)

    return make


def install() -> None:
    for name in ("nested_tensor", "as_nested_tensor"):
        setattr(torch.nested, name, _refuse_strided(getattr(torch.nested, name)))
