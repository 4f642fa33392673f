# SPDX-License-Identifier: BSD-3-Clause
"""Refuses nested tensors of the strided layout, which the card lacks. Core creates one from
CPU data without a call to the backend, and autograd then aborts the process."""

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
                    "layout. Create them with layout=torch.jagged, or keep them on the CPU."
                )
        return of_core(*args, **kwargs)

    return make


def install() -> None:
    for name in ("nested_tensor", "as_nested_tensor"):
        setattr(torch.nested, name, _refuse_strided(getattr(torch.nested, name)))
