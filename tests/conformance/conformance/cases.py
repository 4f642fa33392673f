# SPDX-License-Identifier: MIT
"""A case is one thing to do both on the CPU and on the device. run(device, seed) does
it and returns a tree of results; with wide it computes in float64."""

import contextlib
import dataclasses
from typing import Any, Callable

import torch
from torch.utils._pytree import tree_leaves, tree_map

from .inputs import Call, rounded

# To make a module is not to run it: other seeds leave this one.
_seed_of_weights = torch.manual_seed


def random_like(t: torch.Tensor, seed: int, narrow=None) -> torch.Tensor:
    """The same numbers wherever t is, and whatever its floating type."""
    generator = torch.Generator().manual_seed(seed)
    dtype = torch.complex128 if t.is_complex() else torch.float64
    values = torch.randn(t.shape, generator=generator, dtype=dtype)
    # Half types hold these exactly, so that all types mean the same numbers.
    values = (values * 16).round() / 16 if not t.is_complex() else values
    values = rounded(values, narrow or t.dtype)
    return values.to(t.dtype).to(t.device)


def gradients(outputs, inputs: list) -> list:
    outs = [t for t in tree_leaves(outputs) if _differentiable(t)]
    if not outs or not inputs:
        return []
    weights = [random_like(t, i) for i, t in enumerate(outs)]
    return list(torch.autograd.grad(outs, inputs, weights, allow_unused=True))


def _differentiable(t) -> bool:
    return isinstance(t, torch.Tensor) and t.requires_grad


class Case:
    def run(self, device, seed: int, wide=None):
        raise NotImplementedError

    def judged(self, result):
        """The part that is held against a result in float64."""
        return result

    def text(self) -> str:
        raise NotImplementedError


@dataclasses.dataclass
class Forward(Case):
    op: Callable
    call: Call

    def run(self, device, seed, wide=None):
        call = self.call.on(device, wide)
        torch.manual_seed(seed)
        with self.default_device(call, device):
            result = self.op(call.input, *call.args, **call.kwargs)
        return self.results(call, result)

    @staticmethod
    def default_device(call: Call, device):
        """What is made from numbers alone is made there, if nothing says where."""
        if call.tensors() or "device" in call.kwargs:
            return contextlib.nullcontext()
        return torch.device(device)

    def results(self, call: Call, result):
        return call.process(result)

    def text(self):
        return self.call.text()


class Backward(Forward):
    def results(self, call, result):
        inputs = [t for t in call.tensors() if t.requires_grad]
        return gradients(call.process(result), list(dict.fromkeys(inputs)))


class InPlace(Forward):
    """The first argument itself must be what is returned, and hold the result."""

    def run(self, device, seed, wide=None):
        call = self.call.on(device, wide)
        torch.manual_seed(seed)
        result = self.op(call.input, *call.args, **call.kwargs)
        return [call.process(result), result is call.input, call.input]


@dataclasses.dataclass
class Out(Forward):
    """form: "same", "strided" or "empty", as out= is before. What the CPU should leave
    in out= is what it returns without: it may refuse out=, but does not always fill it."""

    form: str = "same"

    def run(self, device, seed, wide=None):
        like, result, all_stay = self._run(device, seed, wide)
        if torch.device(device).type == "cpu":
            return [like, True]
        return [result, all_stay]

    def left_by_the_cpu(self, seed):
        return list(self._run("cpu", seed)[1:])

    def _run(self, device, seed, wide=None) -> tuple:
        call = self.call.on(device, wide)
        torch.manual_seed(seed)
        with torch.no_grad(), self.default_device(call, device):
            like = self.op(call.input, *call.args, **call.kwargs)
        out = tree_map(self._make, like)
        before = [t.data_ptr() for t in tree_leaves(out)]
        torch.manual_seed(seed)
        result = self.op(call.input, *call.args, **call.kwargs, out=out)
        if result is None:  # copies of views return nothing
            result = out
        stays = [
            self.form == "empty" or t.data_ptr() == p
            for t, p in zip(tree_leaves(out), before)
        ]
        stays += [r is o for r, o in zip(tree_leaves(result), tree_leaves(out))]
        return call.process(like), call.process(result), all(stays)

    def _make(self, t):
        if self.form == "empty":
            return t.new_empty(0)
        if self.form == "strided" and t.dim() > 0:
            wide = torch.zeros(*t.shape[:-1], 2 * t.size(-1), dtype=t.dtype)
            return wide.to(t.device)[..., ::2]
        return torch.zeros(t.shape, dtype=t.dtype).to(t.device)

    def text(self):
        return f"out= {self.form}, {self.call.text()}"


@dataclasses.dataclass
class Module(Case):
    make: Callable  # builds the module; the same one after the same seed
    call: Call  # of forward(): args and kwargs
    training: bool
    backward: bool
    dtype: torch.dtype
    desc: str = ""

    def run(self, device, seed, wide=None):
        _seed_of_weights(seed)
        module = self.make().to(wide and torch.float64 or self.dtype)
        module = module.train(self.training).to(device)
        call = self.call.on(device, wide)
        torch.manual_seed(seed)
        result = module(*call.args, **call.kwargs)
        if not self.backward:
            return result
        inputs = [t for t in call.tensors() if t.requires_grad]
        inputs += [p for p in module.parameters() if p.requires_grad]
        return gradients(result, list(dict.fromkeys(inputs)))

    def text(self):
        mode = "train" if self.training else "eval"
        return f"{mode} {self.desc} {self.call.text()}"


@dataclasses.dataclass
class Optimizer(Case):
    make: Callable  # from a list of parameters and kwargs
    kwargs: dict
    reference: dict  # kwargs of the CPU: the plain loop
    dtype: torch.dtype
    closure: bool
    sparse: bool
    matrices: bool = False  # it takes no other parameters
    desc: str = ""
    steps: int = 3

    def run(self, device, seed, wide=None):
        dtype = wide and torch.float64 or self.dtype
        shapes = [(5, 3)]
        if not self.sparse:
            shapes += [(4, 6)] if self.matrices else [(7,), (2, 2, 2)]
        params = [
            torch.nn.Parameter(
                random_like(torch.empty(s, dtype=dtype), i, self.dtype).to(device)
            )
            for i, s in enumerate(shapes)
        ]
        on_cpu = torch.device(device).type == "cpu"
        optimizer = self.make(params, **(self.reference if on_cpu else self.kwargs))
        for step in range(self.steps):
            self._step(optimizer, params, 100 * (step + 1))
        if self.closure:  # how many steps a search took, rounding decides
            return params
        return [params, tree_map(self._plain, [optimizer.state[p] for p in params])]

    def _step(self, optimizer, params, seed: int):
        def gradients_are_there():
            for i, p in enumerate(params):
                grad = random_like(p.detach(), seed + i)
                p.grad = grad.to_sparse() if self.sparse else grad

        if self.closure:
            optimizer.step(lambda: self._to_the_end(params, seed))
        else:
            gradients_are_there()
            optimizer.step()

    def _to_the_end(self, params, seed: int) -> float:
        """A valley or a hill: a search along a line wants the gradient of the loss."""
        sign, loss = -1 if self.kwargs.get("maximize") else 1, 0.0
        for i, p in enumerate(params):
            away = p.detach() - random_like(p, seed + i)
            p.grad = sign * away * torch.linspace(1, 2, p.numel()).view(p.shape).to(away)
            loss += (p.grad * away).sum().item() / 2
        return loss

    @staticmethod
    def _plain(value: Any):
        """A step count is a tensor here and there, on the CPU or on the device."""
        if isinstance(value, torch.Tensor) and value.dim() == 0:
            return float(value.item())
        if isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        return value

    def text(self):
        return f"{self.desc} {self.kwargs}"
