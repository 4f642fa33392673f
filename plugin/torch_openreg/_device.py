# SPDX-License-Identifier: BSD-3-Clause
"""Cards: their number, the current card, and their properties."""

import contextlib
import dataclasses
import functools
import pathlib
import time
import uuid
from typing import Any, Union

import torch

from . import _C

DeviceLike = Union[torch.device, str, int, None]


def _get_device_index(device: DeviceLike, optional: bool = True) -> int:
    """Returns the index of a device, of an "openreg:N" string or of a number. None is the
    current device."""
    if device is None:
        if not optional:
            raise ValueError("a device is needed: 0, 'openreg:0' or torch.device")
        return _C.current_device()
    if isinstance(device, int):
        index = device
    else:
        device = torch.device(device)
        if device.type != "openreg":
            raise ValueError(f"expected an openreg device, got {device}")
        index = _C.current_device() if device.index is None else device.index
    if index < 0:
        raise ValueError(f"device index {index} is negative; this machine has {_cards()}")
    _C.check_index(index)
    return index


def _cards() -> str:
    count = _C.device_count()
    return f"{count} card{'' if count == 1 else 's'}. See torch.openreg.device_count()."


def device_count() -> int:
    return _C.device_count()


def is_available() -> bool:
    """Returns True if a card exists and can be opened. Never raises."""
    return _C.is_available()


def is_initialized() -> bool:
    """Returns True after init(), set_device() or the first use of a card."""
    return _C.is_initialized()


def init() -> None:
    """Raises if no card can be used; the error gives the reason and the remedy.

    A child that is forked after init() cannot use cards.
    """
    _C.init()


_lazy_init = init


def _is_in_bad_fork() -> bool:
    return _C.in_bad_fork()


def current_device() -> int:
    _C.check_available()
    return _C.current_device()


def set_device(device: DeviceLike) -> None:
    _C.set_device(_get_device_index(device, optional=False))


def _exchange_device(index: int) -> int:
    return _C.exchange_device(index)


def _maybe_exchange_device(index: int) -> int:
    return _C.exchange_device(index)


class device:
    """Context manager: sets the current device. None or -1 changes nothing."""

    def __init__(self, device: DeviceLike) -> None:
        nothing = device is None or isinstance(device, int) and device < 0
        self.idx = -1 if nothing else _get_device_index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            self.prev_idx = _C.exchange_device(self.idx)

    def __exit__(self, *_: Any) -> None:
        if self.idx >= 0:
            _C.exchange_device(self.prev_idx)


class device_of(device):
    """Context manager: sets the current device to a tensor's, if it is on openreg."""

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__(tensor.device if tensor.device.type == "openreg" else None)


@dataclasses.dataclass(frozen=True)
class DeviceProperties:
    name: str
    path: str  # device node
    pci: str  # PCI address
    driver: str
    isa_major: int
    isa_minor: int
    card: int  # card field of device addresses
    total_memory: int  # bytes
    workers: int  # threads of the compute engine
    slice_us: int  # longest time between scheduling decisions
    max_queues: int
    max_segments: int
    max_ring_slots: int
    packets: list[str]
    dtypes: list[str]
    uuid: uuid.UUID  # the same in every process, as long as the card keeps its slot

    @property
    def multi_processor_count(self) -> int:
        """The number that torch.compile asks of every device."""
        return self.workers


def get_device_properties(device: DeviceLike = None) -> DeviceProperties:
    found = _C.properties(_get_device_index(device))
    return DeviceProperties(**found, uuid=_uuid(found["pci"]))


@functools.cache
def _uuid(pci: str) -> uuid.UUID:
    machine = ""
    with contextlib.suppress(OSError):
        machine = pathlib.Path("/etc/machine-id").read_text().strip()
    return uuid.uuid5(uuid.NAMESPACE_OID, f"openreg {machine} {pci}")


def get_device_name(device: DeviceLike = None) -> str:
    p = get_device_properties(device)
    return f"{p.name} card {p.card} at {p.pci}"


def get_device_capability(device: DeviceLike = None) -> tuple[int, int]:
    """Returns the major and minor version of the card's instruction set."""
    p = get_device_properties(device)
    return p.isa_major, p.isa_minor


def can_device_access_peer(device: DeviceLike, peer: DeviceLike) -> bool:
    """Returns True only for the same card: operators use the memory of their own card, and
    a copy to another card goes through host memory. Symmetric memory and windows of
    torch.distributed reach other cards without it."""
    return _get_device_index(device) == _get_device_index(peer)


def synchronize(device: DeviceLike = None) -> None:
    """Waits for all streams of the device. Raises if one has faulted."""
    _C.init()
    _C.synchronize(_get_device_index(device))


def reset(device: DeviceLike = None) -> None:
    """Makes faulted streams usable again. Drops their unfinished work."""
    _C.reset(_get_device_index(device))


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Returns True if the card has bf16, which it computes in f32. Every card has it."""
    return device_count() > 0 and "bf16" in get_device_properties().dtypes


def is_tf32_supported() -> bool:
    """Returns False: the card has no tf32, and computes f32 in f32."""
    return False


def get_arch_list() -> list[str]:
    """Returns the instruction sets that this build can use, named by major version."""
    return ["isa_1"] if is_available() else []


def utilization(device: DeviceLike = None) -> int:
    """Samples the next 50 ms. Returns the percentage of time in which the device has work
    of this process."""
    index = _get_device_index(device)
    found = 0
    for _ in range(50):
        found += _C.busy(index)
        time.sleep(0.001)
    return 2 * found


def device_memory_used(device: DeviceLike = None) -> int:
    """Returns the bytes of the card's memory that all processes together use."""
    free, total = _C.memory_info(_get_device_index(device))
    return total - free


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.float16, torch.bfloat16]


def ipc_collect() -> None:
    """Frees memory that was shared with other processes, if no stream uses it any more.
    Every allocation does the same."""
    if is_initialized():
        _C.collect_shared()


_SYNC_DEBUG_MODES = ("default", "warn", "error")


def set_sync_debug_mode(debug_mode: Union[int, str]) -> None:
    """Chooses what happens when an operator, such as item(), makes the thread wait for the
    card: "default" (0) nothing, "warn" (1) a warning, "error" (2) an error."""
    modes = dict(enumerate(_SYNC_DEBUG_MODES))
    modes.update({name: name for name in _SYNC_DEBUG_MODES})
    if debug_mode not in modes:
        raise RuntimeError(
            f"the sync debug mode is 'default', 'warn' or 'error', or 0 to 2; not {debug_mode!r}"
        )
    _C.set_sync_debug_mode(_SYNC_DEBUG_MODES.index(modes[debug_mode]))


def get_sync_debug_mode() -> int:
    return _C.sync_debug_mode()
