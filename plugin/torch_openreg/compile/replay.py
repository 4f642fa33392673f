# SPDX-License-Identifier: BSD-3-Clause
"""
mode="reduce-overhead": compiled code keeps the packets of a call, and runs them again.

A replay puts the addresses of the inputs and of new results into the packets, so that inputs
may move and results live as long as the program keeps them. It draws new random numbers.
"""

import logging
from typing import Any, Callable

import torch

from .. import _C

log = logging.getLogger(__name__)

_SIZES = 16  # the most plans of a graph, one for each set of sizes
_FEWEST = 3  # the fewest packets of a plan: a call of fewer takes as long without
_WARM = "the graph has run once"
_PLAIN = "the graph cannot be replayed"


class Replayed:
    """Calls the function, or from its third call on replays its packets."""

    def __init__(self, call: Callable, card: int, numbers: bool) -> None:
        self.call = call
        self.card = card
        self.numbers = numbers  # the function takes numbers
        self.plans: dict[tuple, Any] = {}

    def __call__(self, args: list) -> Any:
        key = ()
        if self.numbers:
            key = tuple(a for a in args if not isinstance(a, torch.Tensor))
        plan = self.plans.get(key)
        if plan is None:
            self.plans[key] = _WARM if len(self.plans) < _SIZES else _PLAIN
            return self.call(args)
        if plan is _WARM:
            plan = self.plans[key] = self._capture(args)
        if plan is _PLAIN:
            return self.call(args)
        plan, results = plan
        found = plan.run(args)
        if found is None:  # tensors of another layout, or another stream
            return self.call(args)
        if results is not None:
            found = [result(args, found) for result in results]
        args.clear()
        return found

    def _capture(self, args: list) -> Any:
        plan = _C.Plan()
        try:
            # The capture computes nothing. Memory of their own tells its tensors apart.
            inputs = [_like(a) for a in args]
            plan.begin(self.card)
            results = self.call(list(inputs))
            new, found = _results(inputs, results)
            plan.end([i for i in inputs if isinstance(i, torch.Tensor)], new)
        except Exception as error:
            plan.abandon()
            log.info("a compiled graph will not be replayed: %s", error)
            return _PLAIN
        if plan.packets() < _FEWEST:
            return _PLAIN
        return plan, None if len(new) == len(results) else found


def _like(arg: Any) -> Any:
    if isinstance(arg, (bool, int, float)):
        return arg
    if not isinstance(arg, torch.Tensor) or arg.device.type != "openreg":
        raise TypeError(f"{type(arg).__name__} among its arguments")
    return torch.empty_strided(arg.size(), arg.stride(), dtype=arg.dtype, device=arg.device)


def _results(inputs: list, results: Any) -> tuple[list, list[Callable]]:
    """Returns the new tensors, and what makes each result from the arguments and those."""
    places = {id(t): i for i, t in enumerate(inputs) if isinstance(t, torch.Tensor)}
    memory = {
        t.untyped_storage().data_ptr(): i
        for i, t in enumerate(inputs)
        if isinstance(t, torch.Tensor) and t.numel()
    }
    new: list[torch.Tensor] = []
    found: list[Callable] = []
    for t in results:
        if not isinstance(t, torch.Tensor):
            found.append(lambda args, made, t=t: t)
        elif id(t) in places:
            found.append(lambda args, made, i=places[id(t)]: args[i])
        elif (i := memory.get(t.untyped_storage().data_ptr())) is not None and t.numel():
            found.append(_view(t, i, inputs[i].storage_offset()))
        else:
            found.append(lambda args, made, i=len(new): made[i])
            new.append(t)
    return new, found


def _view(t: torch.Tensor, place: int, begin: int) -> Callable:
    size, stride, offset = t.size(), t.stride(), t.storage_offset() - begin
    return lambda args, made: args[place].as_strided(
        size, stride, args[place].storage_offset() + offset
    )
