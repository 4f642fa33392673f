# SPDX-License-Identifier: BSD-3-Clause
"""Random numbers: a seed and an offset for each device.

The card computes them with Philox 4x32-10; the seed is the key. Every operator that draws
takes four streams, beginning at the offset. A number depends on its element's row-major
place in its tensor. So the same seed and the same sequence of operators give the same
numbers, whatever strides the tensors have. Uniform numbers and integers have the same bits
on every host.
"""

from collections.abc import Iterable

import torch

from . import _C
from ._device import DeviceLike, _get_device_index, device_count

# Not the current device: torch.manual_seed() may run long before a card is used.
_DEFAULT_DEVICE = "openreg"


def _get_generator(device: DeviceLike) -> torch.Generator:
    """Returns the default generator of a device. AOTAutograd uses it to draw the same random
    numbers again when it recomputes a part of a graph."""
    _C.check_available()
    return _C.default_generator(_get_device_index(device))


def manual_seed(seed: int) -> None:
    """Seeds the current device and sets its offset to 0.

    Opens no card, and does nothing without a card.
    """
    if device_count() > 0 and not _C.in_bad_fork():
        _C.default_generator(_C.current_device()).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds all devices with the same seed, as torch.manual_seed() does."""
    if not _C.in_bad_fork():
        for index in range(device_count()):
            _C.default_generator(index).manual_seed(int(seed))


def seed() -> None:
    """Seeds the current device with a number that differs in every run."""
    _get_generator(None).seed()


def seed_all() -> None:
    """Seeds all devices with the same number, which differs in every run."""
    value = torch.Generator().seed()
    manual_seed_all(value)


def initial_seed() -> int:
    """Returns the seed of the current device."""
    return _get_generator(None).initial_seed()


def get_rng_state(device: DeviceLike = _DEFAULT_DEVICE) -> torch.Tensor:
    """Returns the seed and the offset of a device, in 16 bytes."""
    return _get_generator(device).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state(
    new_state: torch.Tensor, device: DeviceLike = _DEFAULT_DEVICE
) -> None:
    """Sets the seed and the offset of a device to a state of get_rng_state()."""
    _get_generator(device).set_state(new_state)


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def _default_generators() -> tuple[torch.Generator, ...]:
    return tuple(_C.default_generator(index) for index in range(device_count()))
