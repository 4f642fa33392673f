# SPDX-License-Identifier: BSD-3-Clause
"""python3 -m torch_openreg.collect_env prints the cards, and then the output of
torch.utils.collect_env. A backend cannot add lines to the latter."""

import os

import torch
from torch.utils import collect_env

from . import __version__

_VARIABLES = ("OPENREG_", "TORCH_OPENREG_", "ACCELERATE_TORCH_DEVICE")


def get_openreg_info() -> str:
    lines = [f"torch_openreg version: {__version__}"]
    try:
        torch.openreg.init()
    except RuntimeError as error:
        lines.append(f"openreg cards: none that can be used: {error}")
    else:
        count = torch.openreg.device_count()
        lines.append(f"openreg cards: {count}")
        for index in range(count):
            card = torch.openreg.get_device_properties(index)
            free, total = torch.openreg.mem_get_info(index)
            lines.append(
                f"openreg:{index}: card {card.card} at {card.pci} ({card.path}), "
                f"{card.driver}, ISA {card.isa_major}.{card.isa_minor}, "
                f"{total >> 20} MiB of which {free >> 20} are free, "
                f"{card.workers} workers"
            )
    lines += [
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name.startswith(_VARIABLES)
    ]
    return "\n".join(lines)


def main() -> None:
    print(get_openreg_info())
    print()
    print(collect_env.get_pretty_env_info())


if __name__ == "__main__":
    main()
