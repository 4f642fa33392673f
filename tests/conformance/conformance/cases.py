# SPDX-License-Identifier: MIT
"""A case is one computation that runs both on the CPU and on the device. Its method
run(device, seed) returns a tree of results. With wide, a dtype, all inputs of this dtype
become float64."""

import contextlib
import dataclasses
from typing import Any, Callable

import torch
from torch.utils._pytree import tree_leaves, tree_map

from .inputs import Call, rounded

# The original function, which judge.other_seeds() does not patch: the weights of a module
# must not depend on the seed of its run.
_seed_of_weights = torch.manual_seed


def random_like(t: torch.Tensor, seed: int, narrow=None) -> torch.Tensor:
    """Random numbers that are the same on every device and for every floating dtype."""
    generator = torch.Generator().manual_seed(seed)
    dtype = torch.complex128 if t.is_complex() else torch.float64
    values = torch.randn(t.shape, generator=generator, dtype=dtype)
    # Half types hold multiples of 1/16 exactly, so that all dtypes get the same numbers.
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
        """The part of the result that is compared with a result in float64."""
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
        """Makes the device the default for a factory function without device=."""
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
    """An in-place operator: it must return its first argument, with the result in it."""

    def run(self, device, seed, wide=None):
        call = self.call.on(device, wide)
        torch.manual_seed(seed)
        result = self.op(call.input, *call.args, **call.kwargs)
        return [call.process(result), result is call.input, call.input]


@dataclasses.dataclass
class Out(Forward):
    """An operator with out=. form describes out= before the call: "same" (the right size),
    "strided" or "empty". The reference is the CPU's result without out=, since some CPU
    operators do not fill out=. The CPU still runs with out=, and may refuse it."""

    form: str = "same"

    def run(self, device, seed, wide=None):
        like, result, all_stay = self._run(device, seed, wide)
        if torch.device(device).type == "cpu":
            return [like, True]
        return [result, all_stay]

    def cpu_with_out(self, seed):
        """The CPU's result with out=, and whether out= kept its memory."""
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
        if result is None:  # the operators *_copy return None with out=
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
        for p in module.parameters():
            if not torch.nn.parameter.is_lazy(p):
                p.data = rounded(p.data, self.dtype)
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
    matrices: bool = False  # the optimizer takes only 2-D parameters
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
        if self.closure:  # no state: rounding decides the step count of a line search
            return params
        return [params, tree_map(self._plain, [optimizer.state[p] for p in params])]

    def _step(self, optimizer, params, seed: int):
        if self.closure:
            optimizer.step(lambda: self._quadratic_loss(params, seed))
            return
        for i, p in enumerate(params):
            grad = random_like(p.detach(), seed + i)
            p.grad = grad.to_sparse() if self.sparse else grad
        optimizer.step()

    def _quadratic_loss(self, params, seed: int) -> float:
        """A loss with a minimum, or with a maximum for maximize, and its gradients. A line
        search needs gradients that belong to the loss."""
        sign, loss = -1 if self.kwargs.get("maximize") else 1, 0.0
        for i, p in enumerate(params):
            away = p.detach() - random_like(p, seed + i)
            p.grad = sign * away * torch.linspace(1, 2, p.numel()).view(p.shape).to(away)
            loss += (p.grad * away).sum().item() / 2
        return loss

    @staticmethod
    def _plain(value: Any):
        """A number as a float. A step count may be an int, or a tensor on either device."""
        if isinstance(value, torch.Tensor) and value.dim() == 0:
            return float(value.item())
        if isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        return value

    def text(self):
        return f"{self.desc} {self.kwargs}"
