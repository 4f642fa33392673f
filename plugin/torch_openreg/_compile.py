# SPDX-License-Identifier: BSD-3-Clause
"""Registers the code generator of torch.compile before Inductor chooses decompositions."""

import functools

import torch


def install() -> None:
    wrapper = torch._TorchCompileInductorWrapper
    call = wrapper.__call__

    @functools.wraps(call)
    def registered(self, model_, inputs_):
        from .compile.registration import register  # imports Inductor, which takes seconds

        register()
        return call(self, model_, inputs_)

    wrapper.__call__ = registered
