# SPDX-License-Identifier: MIT
"""What a driver has given to the card: its rings and pages, read from outside."""
import re
import struct
from dataclasses import dataclass

from regs import C

FAULTS = {value: name.removeprefix("FAULT_") for name, value in C.items()
          if name.startswith("FAULT_")}
COMMAND = struct.Struct("<HHIII6Q")  # struct openreg_admin_cmd
MAP = re.compile(r"openreg_map bus 0x(\w+) len 0x(\w+) writable (\d) good 1")


def command(opcode: int, ctx: int = 0, number: int = 0, *arg: int) -> bytes:
    return COMMAND.pack(opcode, 0, ctx, number, 0, *arg, *[0] * (6 - len(arg)))


@dataclass
class Queue:
    """The bus addresses of the command QUEUE_CREATE"""
    ring: int
    user_page: int
    card_page: int
    kernel_page: int
    slots: int


class Card:
    """The card of a machine, through QEMU's monitor"""

    def __init__(self, machine) -> None:
        self.machine, self.monitor = machine, machine.monitor

    def reg(self, name: str, size: int = 4) -> int:
        return self.machine.register(C["REG_" + name], size)

    def vram(self, offset: int) -> int:
        """Eight bytes of VRAM"""
        return self.monitor.read(self.machine.bars[C["BAR_VRAM"]][0] + offset, 1, 8)[0]

    def completion(self, slot: int) -> int:
        """The seq in a slot of the admin completions"""
        return self.word(self.reg("ADMIN_CPL", 8) + 16 * slot) >> 32

    def queue(self, trace: list[str]) -> Queue | None:
        """The queue that was made last, by what the card then maps: its ring and three pages"""
        maps = list(filter(None, map(MAP.search, trace)))
        for four in zip(maps[-4::-1], maps[-3::-1], maps[-2::-1], maps[-1::-1]):
            bus, sizes = ([int(found[i], 16) for found in four] for i in (1, 2))
            if sizes[1:] == [4096] * 3 and [found[3] for found in four] == ["0", "0", "1", "0"]:
                return Queue(*bus, sizes[0] // 64)
        return None

    def word(self, address: int) -> int:
        return self.monitor.read(address, 1, 8)[0]

    def page(self, queue: Queue) -> dict[str, int]:
        """The counters of the card page"""
        head, completed, both = self.monitor.read(queue.card_page, 3, 8)
        wakes, interrupts = self.monitor.read(queue.card_page + 128, 2, 8)
        return {"head": head, "completed": completed, "asleep": both & 0xffffffff,
                "state": both >> 32, "wakes": wakes, "interrupts": interrupts}

    def fault(self, queue: Queue) -> str:
        """Why the queue has faulted, by the card page, or "" """
        if self.page(queue)["state"] != C["QUEUE_FAULTED"]:
            return ""
        code, operand = self.monitor.read(queue.card_page + 64, 2)
        seq, address = self.monitor.read(queue.card_page + 72, 2, 8)
        which = "" if operand == 0xffffffff else f", operand {operand} at 0x{address:x}"
        return (f"; the queue is FAULTED: the card page has fault {code} "
                f"(OPENREG_FAULT_{FAULTS.get(code, '?')}) of packet {seq}{which}")
