# SPDX-License-Identifier: MIT
"""Runs the cases of one check on the CPU and on the device, and gives the verdict."""

import contextlib
from unittest import mock

import torch
from torch.utils._pytree import tree_leaves, tree_map

from .cases import Backward, Forward, Out
from .compare import TIES, Comparer, Mismatch, same_but_for_ties, same_sums_of_ties
from .device import synchronize
from .inputs import nudged
from .status import gravest

SEED = 1234
# For these dtypes the CPU computes a reference in float64 as well.
FLOAT8 = (
    torch.float8_e4m3fn,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2,
    torch.float8_e5m2fnuz,
)
NARROW = (torch.float32, torch.float16, torch.bfloat16, *FLOAT8)


def describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:2000]


@contextlib.contextmanager
def other_seeds(by: int):
    """Changes every seed, also the seeds that operators of the list set themselves."""
    seed = torch.manual_seed
    with mock.patch.object(torch, "manual_seed", lambda number: seed(number + by)):
        yield


def broadcast_to(result, like) -> list:
    """The result's tensors, broadcast to the sizes of those of like. A tensor of
    like without elements stands for an empty result."""
    wanted = []
    leaves, others = tree_leaves(result), tree_leaves(like)
    if len(leaves) != len(others):
        raise Mismatch(f"{len(others)} results instead of {len(leaves)}")
    for t, other in zip(leaves, others):
        if isinstance(t, torch.Tensor) and isinstance(other, torch.Tensor):
            if not other.numel():
                t = t.new_empty(other.shape)
            elif t.shape != other.shape:
                t = _expand(t, other.shape)
        wanted.append(t)
    return wanted


def _expand(t: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    try:
        return t.expand(shape)
    except RuntimeError as error:
        raise Mismatch(str(error)) from None


def _in_double(leaf):
    floating = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
    return leaf.detach().double() if floating else leaf


class Outcome:
    """The result of a run, or the error that it raised."""

    def __init__(self, case, device, wide=None) -> None:
        self.result = self.error = None
        try:
            self.result = case.run(device, SEED, wide)
        except Exception as error:  # noqa: BLE001
            self.error = error.with_traceback(None)


class Judge:
    """Calls on_side("cpu") or on_side("device") before it runs a case there, so that a
    crash can be attributed to the right side."""

    def __init__(self, device: str, probe, on_side) -> None:
        self.device, self.probe, self.on_side = device, probe, on_side

    def check(self, cases: list, comparer: Comparer, form_only: bool) -> dict:
        self.on_side("cpu")
        references = [Outcome(case, "cpu") for case in cases]
        record = {"cases": len(cases), "bad": 0, "fallbacks": {}, "notes": []}
        statuses = []
        for case, reference in zip(cases, references):
            self.on_side("device")
            outcome, fell_back = self._on_device(case)
            self.on_side("cpu")
            status, error = self._verdict(
                case, reference, outcome, comparer, form_only, record["notes"]
            )
            if status == "right":
                status = self._where(fell_back)
            for name, count in (fell_back or {}).items():
                total = record["fallbacks"].get(name, 0)
                record["fallbacks"][name] = total + count
            statuses.append(status)
            self._note(record, status, statuses, case, error)
        record["status"] = gravest(statuses)
        record["notes"] = sorted(set(record["notes"]))
        return record

    def errors(self, cases: list) -> dict:
        """Bad arguments: lists the cases that the CPU refuses and the device accepts, or
        refuses with another type of error. Results are not compared."""
        different = []
        for case in cases:
            self.on_side("cpu")
            want = Outcome(case, "cpu").error
            if want is None:
                continue
            self.on_side("device")
            got = Outcome(case, self.device).error
            if got is None:
                different.append(f"accepts {case.text()}; the CPU: {describe(want)}")
            elif not isinstance(got, type(want)):
                different.append(f"{describe(got)}; the CPU: {describe(want)}")
        return {
            "status": "refused",
            "cases": len(cases),
            "bad": len(different),
            "fallbacks": {},
            "notes": [],
            "different": [text[:600] for text in different],
        }

    def _on_device(self, case):
        self.probe.reset()
        outcome = Outcome(case, self.device)
        if outcome.error is None:
            try:
                synchronize()
            except Exception as error:  # noqa: BLE001
                outcome.error = error.with_traceback(None)
        return outcome, self.probe.read()

    @staticmethod
    def _where(fell_back) -> str:
        if fell_back is None:
            return "unknown"
        return "fallback" if fell_back else "native"

    @staticmethod
    def _note(record: dict, status: str, before: list, case, error: str) -> None:
        if status not in ("wrong", "missing"):
            return
        record["bad"] += 1
        if status == gravest(before) and before.count(status) == 1:
            record["error"], record["case"] = error, case.text()

    def _verdict(self, case, reference, outcome, comparer, form_only, notes):
        if reference.error is not None:
            if outcome.error is None:
                return "extra", ""
            return "refused", ""
        if outcome.error is not None:
            return "missing", describe(outcome.error)
        try:
            comparer.form(outcome.result, reference.result)
            if not form_only:
                comparer.values(outcome.result, reference.result)
        except Mismatch as mismatch:
            why = self._excuse(case, reference, outcome, comparer)
            if not why:
                return "wrong", str(mismatch)
            notes.append(why)
        return "right", ""

    def _excuse(self, case, reference, outcome, comparer) -> str:
        """Why a result is right although it differs from the CPU's; "" if it is wrong."""
        if self._equals_cpu_with_out(case, outcome, comparer):
            return "out=: equals the CPU's out=, which differs from its result without out="
        try:
            comparer.form(outcome.result, reference.result)
        except Mismatch:
            return self._excuse_of_sizes(case, reference, outcome, comparer)
        if self._is_random(case, reference, comparer):
            return "random: only its form was compared"
        if self._is_of_ties(case, reference, outcome):
            return "ties: other indices of the same values"
        return self._excuse_of_rounding(case, reference, outcome, comparer)

    @staticmethod
    def _is_of_ties(case, reference, outcome) -> bool:
        if not isinstance(case, Forward) or case.call.kwargs.get("stable"):
            return False
        if getattr(case.op, "name", "").split(".")[-1] not in TIES:
            return False
        source = case.call.input
        same = same_sums_of_ties if type(case) is Backward else same_but_for_ties
        return isinstance(source, torch.Tensor) and same(
            outcome.result, reference.result, source
        )

    @staticmethod
    def _excuse_of_rounding(case, reference, outcome, comparer) -> str:
        if comparer.dtype not in NARROW:
            return ""
        wide, exact = comparer.dtype, Outcome(case, "cpu", comparer.dtype)
        if exact.error is not None:  # the operator may not take float64
            if comparer.dtype in FLOAT8:
                return ""
            wide, exact = None, reference
        rounded = []
        for seed in range(8):
            with nudged(comparer.dtype, seed):
                rounded.append(Outcome(case, "cpu", wide))
        if any(r.error is not None for r in rounded):
            return ""
        results = [
            case.judged(r.result) for r in (outcome, reference, exact, *rounded)
        ]
        results[2] = tree_map(_in_double, results[2])
        if wide and comparer.no_worse_than(*results[:3]):
            return "as near to the result in float64 as the CPU is"
        if comparer.no_worse_than(*results):
            return "as near to the CPU's result as the rounding of the inputs is"
        return ""

    def _is_random(self, case, reference, comparer) -> bool:
        """True if the CPU's result changes with the seed. Tries several seeds, since two
        seeds may draw the same few numbers."""
        for by in (1, 2, 3, 4):
            with other_seeds(by):
                again = Outcome(case, "cpu")
            if again.error is None and not self._agree(comparer, again, reference):
                return True
        return False

    @staticmethod
    def _equals_cpu_with_out(case, outcome, comparer) -> bool:
        if not isinstance(case, Out):
            return False
        try:
            on_cpu = case.cpu_with_out(SEED)
            comparer.form(outcome.result, on_cpu)
            comparer.values(outcome.result, on_cpu)
        except Exception:  # noqa: BLE001
            return False
        return True

    @staticmethod
    def _excuse_of_sizes(case, reference, outcome, comparer) -> str:
        """For empty inputs, some shortcuts of the CPU return other sizes than the operator's
        meta function. Then the meta device's sizes count. If the result has elements, the
        CPU's values are broadcast to them."""
        call = getattr(case, "call", None)
        if call is None or all(t.numel() for t in call.tensors()):
            return ""
        meta = Outcome(case, "meta")
        if meta.error is not None:
            return ""
        try:
            comparer.form(outcome.result, meta.result)
            want = broadcast_to(reference.result, outcome.result)
            comparer.values(outcome.result, want)
        except Mismatch:
            return ""
        return "empty: the sizes equal the meta device's; the CPU's differ"

    @staticmethod
    def _agree(comparer, one, other) -> bool:
        host = Comparer("cpu", comparer.dtype, comparer.override)
        try:
            host.form(one.result, other.result)
            host.values(one.result, other.result)
        except Mismatch:
            return False
        return True
