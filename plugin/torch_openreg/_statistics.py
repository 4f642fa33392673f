# SPDX-License-Identifier: BSD-3-Clause
"""Statistics: operators on the card, operators that fell back to the CPU, and queues."""

from . import _C
from ._device import DeviceLike, _get_device_index, device_count


def fallbacks() -> dict[str, int]:
    """Returns the operators that ran on the CPU for lack of a kernel, with their counts."""
    return dict(_C.fallback_counts())


def reset_fallbacks() -> None:
    _C.reset_fallback_counts()


def check_findings() -> list[dict]:
    """
    Returns what a card that checks programs (OPENREG_CHECK, docs/sanitizers.md) has found in
    this process. Waits for the cards.
    """
    for index in range(device_count()):
        _C.synchronize(index)
    return _C.check_findings()


_compile_fallbacks: dict[str, int] = {}


def count_compile_fallback(what: str, reason: str) -> None:
    key = f"{what}: {reason}"
    _compile_fallbacks[key] = _compile_fallbacks.get(key, 0) + 1


class _WholeOperators:
    """The operators that compiled graphs run as they are. The graphs count their runs."""

    runs = 0


_whole: dict[tuple[str, ...], _WholeOperators] = {}


def whole(names: list[str]) -> _WholeOperators:
    return _whole.setdefault(tuple(names), _WholeOperators())


def compile_fallbacks() -> dict[str, int]:
    """
    Returns what torch.compile could not make a program of, and compiled code runs as operators
    on the card, with the number of runs. A loop has its operators and the reason. Operators
    that compiled code runs whole, such as sort, have their name. Matrix products and
    convolutions, which are packets of their own, are not listed.
    """
    found = dict(_compile_fallbacks)
    for names, graph in _whole.items():
        for name in names if graph.runs else ():
            found[name] = found.get(name, 0) + graph.runs
    return found


def reset_compile_fallbacks() -> None:
    _compile_fallbacks.clear()
    for graph in _whole.values():
        graph.runs = 0


def set_fallback(mode: str) -> str:
    """Sets the mode: "count", "warn" (once an operator) or "error". Returns the previous
    mode."""
    before = _C.fallback_mode()
    _C.set_fallback_mode(mode)
    return before


def fall_back(namespace: str) -> list[str]:
    """
    Makes all operators of a package's namespace run on the CPU, counted and with gradients,
    except those with a kernel for openreg. Some packages need it: their operators check the
    device of their tensors, and know only the CPU and CUDA. Returns the names of the
    operators that this call has changed.
    """
    return _C.fall_back(namespace)


def op_counts() -> dict[str, int]:
    """Returns the operators that ran on the card, with their counts."""
    return dict(_C.op_counts())


def reset_op_counts() -> None:
    _C.reset_op_counts()


def queue_stats(device: DeviceLike = None) -> dict[str, int]:
    """
    Returns totals over the device's streams: packets, doorbells, interrupts, DMA and others.
    Pads are packets that fill the end of a ring and do nothing. Notes are packets that tell a
    card that checks (OPENREG_CHECK) about blocks and waits; those of a graph count once.
    packets includes both.
    """
    return _C.queue_stats(_get_device_index(device))


def stats() -> dict[str, int]:
    """Returns ops, fallbacks, and the sums of queue_stats() over all devices."""
    total = {
        "ops": sum(op_counts().values()),
        "fallbacks": sum(fallbacks().values()),
    }
    for index in range(device_count()):
        for name, value in queue_stats(index).items():
            total[name] = total.get(name, 0) + value
    return total
