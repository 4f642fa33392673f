# SPDX-License-Identifier: MIT
"""The checks of an entry: their names, and the cases of each. The cases are made when
the check starts."""

import torch
from torch.utils._pytree import tree_map

from .cases import Backward, Forward, InPlace, Module, Optimizer, Out
from .compare import GROWS, UNINITIALIZED
from .inputs import Call, spread_evenly
from .keys import split_key

# Arguments that stay on the CPU: tensor_split reads its tensor of sections there.
READ_ON_CPU = {"tensor_split": lambda tensor: not tensor.is_floating_point()}
FEW = 6  # samples for "empty" (two cases each) and "out" (three cases each)


class OpChecks:
    """forward, strided, empty, backward, out, inplace, errors."""

    def __init__(self, op, dtype: torch.dtype, most: int) -> None:
        self.info, self.dtype, self.most = op, dtype, most
        self.supported = dtype in op.dtypes
        self.keep = READ_ON_CPU.get(op.name)

    def names(self) -> list:
        # The CPU does not support this dtype, so the device may refuse it.
        if not self.supported:
            return ["forward"]
        names = ["forward", "strided", "empty"]
        if self.dtype in self.info.supported_backward_dtypes("cpu"):
            names.append("backward")
        if self.info.supports_out:
            names.append("out")
        if self.info.inplace_variant is not None:
            names.append("inplace")
        # Bad arguments do not depend on the dtype: check them once.
        if self.info.error_inputs_func and self.dtype == torch.float32:
            names.append("errors")
        return names

    def form_only(self, name: str) -> bool:
        grown = name == "empty" and self.info.name in GROWS
        return grown or self.info.name in UNINITIALIZED

    def cases(self, name: str) -> list:
        return getattr(self, "_" + name)()

    def _calls(self, requires_grad: bool = False) -> list:
        torch.manual_seed(0)
        samples = self.info.sample_inputs("cpu", self.dtype, requires_grad)
        most = self.most if self.supported else 1
        return spread_evenly([Call.of(s, self.keep) for s in samples], most)

    def _forward(self) -> list:
        return [Forward(self.info, call) for call in self._calls()]

    def _strided(self) -> list:
        return [Forward(self.info, call.noncontiguous()) for call in self._calls()]

    def _empty(self) -> list:
        calls = spread_evenly(self._calls(), FEW)
        return [Forward(self.info, c.emptied(d)) for c in calls for d in (0, -1)]

    def _backward(self) -> list:
        return [Backward(self.info, call) for call in self._calls(True)]

    def _out(self) -> list:
        calls = spread_evenly(self._calls(), FEW)
        forms = ("same", "strided", "empty")
        return [Out(self.info, call, form) for call in calls for form in forms]

    def _inplace(self) -> list:
        op = self.info.inplace_variant
        calls = [c for c in self._calls() if not c.broadcasts_input]
        return [InPlace(op, c) for c in calls if isinstance(c.input, torch.Tensor)]

    def _errors(self) -> list:
        torch.manual_seed(0)
        errors = self.info.error_inputs("cpu")
        calls = [Call.of(error.sample_input, self.keep) for error in errors]
        return [Forward(self.info, call) for call in spread_evenly(calls, self.most)]


class ModuleChecks:
    def __init__(self, info, dtype: torch.dtype, most: int) -> None:
        self.info, self.dtype, self.most = info, dtype, most
        self.supported = dtype in info.dtypes

    def form_only(self, name: str) -> bool:
        return False

    def names(self) -> list:
        return ["forward", "backward"] if self.supported else ["forward"]

    def cases(self, name: str) -> list:
        cases = []
        for training in (True, False)[: 1 + self.info.train_and_eval_differ]:
            torch.manual_seed(0)
            inputs = self.info.module_inputs_func(
                self.info, "cpu", self.dtype, name == "backward", training
            )
            most = self.most if self.supported else 1
            chosen = spread_evenly(list(inputs), most)
            cases += [self._case(i, training, name == "backward") for i in chosen]
        return cases

    def _case(self, given, training: bool, backward: bool) -> Module:
        constructor, forward = given.constructor_input, given.forward_input

        def make():
            args = tree_map(_fresh, constructor.args)
            return self.info.module_cls(*args, **tree_map(_fresh, constructor.kwargs))

        call = Call(None, forward.args, forward.kwargs, lambda result: result)
        return Module(make, call, training, backward, self.dtype, given.desc)


class OptimizerChecks:
    def __init__(self, info, dtype: torch.dtype, most: int) -> None:
        self.info, self.dtype, self.most = info, dtype, most
        self.supported = True

    def form_only(self, name: str) -> bool:
        return False

    def names(self) -> list:
        names = ["loop"]
        if "foreach" in self.info.supported_impls:
            names.append("foreach")
        if "fused" in self.info.supported_impls:
            names.append("fused")
        return names

    def cases(self, name: str) -> list:
        inputs = self.info.optim_inputs_func(device="cpu")
        return [self._case(i, name) for i in spread_evenly(inputs, self.most)]

    def _case(self, given, name: str) -> Optimizer:
        reference = dict(given.kwargs)
        for flag in ("foreach", "fused"):
            if flag in self.info.supported_impls:
                reference[flag] = False
        kwargs = dict(reference)
        if name != "loop":
            kwargs[name] = True
        return Optimizer(
            self.info.optim_cls,
            kwargs,
            reference,
            self.dtype,
            self.info.step_requires_closure,
            self.info.only_supports_sparse_grads,
            self.info.optim_cls is getattr(torch.optim, "Muon", None),
            given.desc,
        )


def _fresh(value):
    """A copy of a tensor: a module may keep and change its constructor's arguments."""
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


KINDS = {"op": OpChecks, "module": ModuleChecks, "optim": OptimizerChecks}


def checks_of(lists, key: str, most: int):
    db, name, dtype = split_key(key)
    return KINDS[db](lists[db][name], getattr(torch, dtype), most)
