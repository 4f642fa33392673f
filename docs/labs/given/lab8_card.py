# SPDX-License-Identifier: MIT
"""Given: a card inside this process, by way of libopenreg."""
import ctypes
import struct

VRAM = 1  # OPENREG_BO_VRAM


class Fault(Exception):
    """The card refused a packet. code: enum openreg_fault_code"""

    def __init__(self, code: int, operand: int, text: str) -> None:
        super().__init__(text)
        self.code, self.operand = code, operand


class Memory:
    """Bytes of the card's memory. address: of byte 0, for packets; view: for the CPU"""

    def __init__(self, card: "Card", size: int) -> None:
        self.card, self.handle, at = card, ctypes.c_void_p(), ctypes.c_void_p()
        card.call("openreg_bo_alloc", card.device, ctypes.c_uint64(size), VRAM,
                  ctypes.byref(self.handle))
        card.call("openreg_bo_map", self.handle, ctypes.byref(at))
        self.address = card.library.openreg_bo_address(self.handle)
        self.view = memoryview((ctypes.c_char * size).from_address(at.value)).cast("B")

    def free(self) -> None:
        self.view.release()
        self.card.library.openreg_bo_free(self.handle)


class Card:
    def __init__(self) -> None:
        self.library = ctypes.CDLL("libopenreg.so.1")
        self.library.openreg_last_error.restype = ctypes.c_char_p
        self.library.openreg_bo_address.restype = ctypes.c_uint64
        self.library.openreg_queue_submit.restype = ctypes.c_int64
        self.device, self.queue = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("openreg_device_open", 0, ctypes.byref(self.device))
        self.call("openreg_queue_create", self.device, None, ctypes.byref(self.queue))

    def call(self, name: str, *arguments) -> int:
        result = getattr(self.library, name)(*arguments)
        if result < 0:
            raise OSError(-result, f"{name}: {self.library.openreg_last_error().decode()}")
        return result

    def alloc(self, size: int) -> Memory:
        return Memory(self, max(size, 1))

    def run(self, packet: bytes) -> None:
        """Runs one packet and waits. Its second byte is its length. May raise Fault."""
        at = ctypes.c_void_p()
        self.call("openreg_queue_begin", self.queue, packet[1], ctypes.byref(at), None)
        ctypes.memmove(at, packet, len(packet))
        number = self.call("openreg_queue_submit", self.queue)
        if self.library.openreg_queue_wait(self.queue, ctypes.c_uint64(number),
                                           ctypes.c_int64(60 * 10**9)):
            raise self.fault()

    def fault(self) -> Exception:
        summary, text = ctypes.create_string_buffer(256), ctypes.create_string_buffer(320)
        if self.library.openreg_queue_fault(self.queue, summary) != 1:
            return OSError(self.library.openreg_last_error().decode())
        self.library.openreg_fault_text(summary, text, ctypes.c_size_t(320))
        self.call("openreg_queue_reset", self.queue)
        code, operand = struct.unpack_from("<II", summary.raw)
        return Fault(code, operand, text.value.decode())
