# SPDX-License-Identifier: MIT
"""Runs in the guest: opens /dev/lab7 several times, and prints what each open file sees."""
import ctypes
import json
import mmap
import os
import struct
import sys
import time

RING, USER, CARD, BELL, BUFFER = 0, 1, 2, 3, 16
COPY, U8, SLOTS = 1, 6, 64
SECONDS = 60  # for a packet, which takes far less
WRITE = mmap.PROT_READ | mmap.PROT_WRITE


class Client:
    def __init__(self) -> None:
        self.fd = os.open("/dev/lab7", os.O_RDWR)
        self.ring, self.user, self.bell = (self.map(page) for page in (RING, USER, BELL))
        self.card = self.map(CARD, mmap.PROT_READ)
        self.buffer = self.map(BUFFER)
        # One store each, unlike a slice of a mapping.
        self.tail = ctypes.c_uint64.from_buffer(self.user)
        self.doorbell = ctypes.c_uint32.from_buffer(self.bell)

    def map(self, page: int, how: int = WRITE) -> mmap.mmap:
        return mmap.mmap(self.fd, 4096, mmap.MAP_SHARED, how, offset=page * 4096)

    def field(self, offset: int, size: int) -> int:
        return int.from_bytes(self.card[offset:offset + size], "little")

    def copy(self, target: tuple[int, int], source: tuple[int, int], size: int,
             waits=lambda: None) -> str:
        """Runs a COPY between (segment, offset) and (segment, offset)."""
        packet = struct.pack("<BBHIQ", COPY, 2, 0, 0, 0)
        packet += struct.pack("<BBBB4xQq", 1, 2, 0, 0, 0, size)
        for segment, offset in (target, source):
            packet += struct.pack("<QB7xq", 0x9f << 55 | 3 << 51 | segment << 38 | offset, U8, 1)
        at, last = self.tail.value % SLOTS * 64, self.field(8, 8) + 1
        self.ring[at:at + len(packet)] = packet
        self.tail.value += 2
        waits()
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            self.doorbell.value = 1
            if self.field(8, 8) >= last:
                return "done"
            if self.field(20, 4) != 1:
                return f"state {self.field(20, 4)}"
        return "nothing"

    def close(self) -> None:
        del self.tail, self.doorbell
        for part in (self.ring, self.user, self.bell, self.card, self.buffer):
            part.close()
        os.close(self.fd)


def put(client: Client, data: bytes) -> str:
    client.buffer[:len(data)] = data
    return client.copy((1, 0), (2, 0), len(data))


def get(client: Client, size: int) -> str:
    """What is in VRAM, by way of the buffer"""
    how = client.copy((2, 2048), (1, 0), size)
    return client.buffer[2048:2048 + size].hex() if how == "done" else how


def main() -> None:
    first, second = (bytes.fromhex(word) for word in sys.argv[1:3])
    size, seen = len(first), {}
    if sys.argv[3:] == ["stay"]:
        Client().copy((1, 0), (2, 0), 64, lambda: print("waits", flush=True))
        return
    a, b = Client(), Client()
    seen["put"] = [put(a, first), put(b, second)]
    seen["get"] = [get(a, size), get(b, size)]
    seen["buffers"] = [a.buffer[:size].hex(), b.buffer[:size].hex()]
    seen["fault"] = a.copy((1, 0), (999, 0), 8)
    seen["other"] = get(b, size)
    a.close()
    c = Client()
    seen["old buffer"] = c.buffer[:size].hex()
    seen["old"] = get(c, size)
    c.close()
    b.close()
    for _ in range(40):
        Client().close()
    seen["many"] = "done"
    print(json.dumps(seen))


main()
