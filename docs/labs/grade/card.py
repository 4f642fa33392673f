# SPDX-License-Identifier: MIT
"""What a driver has given to the card: its rings and pages, read from outside."""
import struct
from dataclasses import dataclass

from regs import C

COMMAND = struct.Struct("<HHIII6Q")  # struct openreg_admin_cmd


def command(opcode: int, ctx: int = 0, number: int = 0, *arg: int) -> bytes:
    return COMMAND.pack(opcode, 0, ctx, number, 0, *arg, *[0] * (6 - len(arg)))


def memory(monitor, address: int, size: int) -> bytes:
    return struct.pack(f"<{size // 8}Q", *monitor.read(address, size // 8, 8))


@dataclass
class Queue:
    """Bus addresses, as in the command QUEUE_CREATE"""
    ring: int
    user_page: int
    card_page: int
    kernel_page: int
    slots: int
    doorbell: int
    vector: int


class Card:
    """The card of a machine, through QEMU's monitor"""

    def __init__(self, machine) -> None:
        self.machine, self.monitor = machine, machine.monitor

    def reg(self, name: str, size: int = 4) -> int:
        return self.machine.register(C["REG_" + name], size)

    def vram(self, offset: int) -> int:
        """Eight bytes of VRAM"""
        return self.monitor.read(self.machine.bars[C["BAR_VRAM"]][0] + offset, 1, 8)[0]

    def commands(self) -> list[tuple]:
        """What is in the slots of the admin ring"""
        base, slots = self.reg("ADMIN_BASE", 8), self.reg("ADMIN_SLOTS")
        if not base or not 2 <= slots <= 4096:
            return []
        data = memory(self.monitor, base, COMMAND.size * slots)
        return list(COMMAND.iter_unpack(data))

    def queue(self) -> Queue | None:
        """The queue that a command in the ring has made. Ask before the ring is full."""
        found = None
        for opcode, _, _, _, _, *arg in self.commands():
            if opcode == C["ADMIN_QUEUE_CREATE"]:
                found = Queue(*arg[:4], arg[4] & 0xffffffff, arg[4] >> 32 & 0xffff, arg[4] >> 48)
        return found

    def word(self, address: int) -> int:
        return self.monitor.read(address, 1, 8)[0]

    def page(self, queue: Queue) -> dict[str, int]:
        """The counters of the card page"""
        head, completed, both = self.monitor.read(queue.card_page, 3, 8)
        wakes, interrupts = self.monitor.read(queue.card_page + 128, 2, 8)
        return {"head": head, "completed": completed, "asleep": both & 0xffffffff,
                "state": both >> 32, "wakes": wakes, "interrupts": interrupts}
