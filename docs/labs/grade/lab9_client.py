# SPDX-License-Identifier: MIT
"""Runs in the guest: uses /dev/lab9 while the card lies or goes away.
usage: lab9_client.py PCI packet-VALUE|silent|gone|unplug LAB_SLEEP_SECONDS"""
import ctypes
import errno
import json
import mmap
import os
import signal
import struct
import sys
import threading
import time

from regs import C

FIRST, SECOND, GO = "/tmp/lab9.first", "/tmp/lab9.second", "/tmp/lab9.go"
FILL, U8, PAGE_SEGMENT, LAB_CARD, LAB_DOORBELL = 2, 6, 3, 3, 1
CAPABILITIES, VENDOR = 0x34, 9  # of the configuration space
IRQ, STALL, GONE = 4, 10, 11  # numbers of x-inject-irq and so on
NOP = struct.pack("<BBHIQ", 0, 1, 0, 0, 0).ljust(64, b"\0")
PCI, WHAT = sys.argv[1:3]
SLEEP_SECONDS = int(sys.argv[3])


def lie(number: int, value: int) -> None:
    fd = os.open(f"/sys/bus/pci/devices/{PCI}/config", os.O_RDWR)
    at = os.pread(fd, 1, CAPABILITIES)[0]
    while os.pread(fd, 1, at)[0] != VENDOR:
        at = os.pread(fd, 1, at + 1)[0]
    os.pwrite(fd, struct.pack("<I", number), at + 4)
    os.pwrite(fd, struct.pack("<I", value), at + 8)
    os.close(fd)


def fill(value: int) -> bytes:
    """A FILL of one byte"""
    address = 0x9f << 55 | LAB_CARD << 51 | PAGE_SEGMENT << 38
    packet = struct.pack("<BBHIQ", FILL, 1, 0, 0, 0) + struct.pack("<BBBB4xQ", 0, 1, 1, 0, 0)
    return (packet + struct.pack("<QB7x", address, U8) + struct.pack("<Q", value)).ljust(64, b"\0")


def error_of(call) -> str:
    try:
        call()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "none"


class Writer(threading.Thread):
    """Writes a NOP, and so sleeps until it has completed."""

    def __init__(self, fd: int) -> None:
        super().__init__(daemon=True)
        self.fd, self.error, self.early = fd, "no return", False
        self.start()

    def run(self) -> None:
        begin = time.monotonic()
        self.error = error_of(lambda: os.write(self.fd, NOP))
        self.early = time.monotonic() - begin < SLEEP_SECONDS

    def sleeps(self) -> None:
        """Waits until the thread sleeps in the driver. An OSError if it has returned."""
        path, calm = f"/proc/self/task/{self.native_id}/stat", 0
        while self.is_alive() and calm < 3:
            with open(path, encoding="ascii") as file:
                calm = calm + 1 if file.read().rpartition(")")[2].split()[0] in "SD" else 0
            time.sleep(0.05)
        if not self.is_alive():
            raise OSError(f"the thread does not wait for its packet: {self.error}")

    def end(self) -> dict:
        self.join(2 * SLEEP_SECONDS)
        return {"error": self.error, "early": self.early}


def open_page() -> tuple[int, mmap.mmap]:
    fd = os.open("/dev/lab9", os.O_RDWR)
    return fd, mmap.mmap(fd, 4096)


def touch(page: mmap.mmap) -> str:
    """What a process gets that reads the page"""
    child = os.fork()
    if not child:
        os._exit(page[0] & 0)
    status = os.waitpid(child, 0)[1]
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "its contents"


def packet(fd: int, page: mmap.mmap, value: int) -> str:
    error = error_of(lambda: os.write(fd, fill(value)))
    return "done" if error == "none" and page[0] == value else f"{error}, the page has {page[0]}"


def ring() -> None:
    fd = os.open(f"/sys/bus/pci/devices/{PCI}/resource{C['BAR_DOORBELL']}", os.O_RDWR)
    page = mmap.mmap(fd, 4096, offset=LAB_DOORBELL * C["DOORBELL_STRIDE"])
    ctypes.c_uint32.from_buffer(page).value = 1


def silent() -> dict:
    """The packet completes while the thread sleeps."""
    fd, _ = open_page()
    lie(STALL, 1)
    writer = Writer(fd)
    writer.sleeps()
    lie(IRQ, 1)
    lie(STALL, 0)
    ring()
    return writer.end()


def gone() -> dict:
    fd, _ = open_page()
    lie(STALL, 1)
    writer = Writer(fd)
    writer.sleeps()
    lie(GONE, 1)
    seen = writer.end()
    command = struct.pack("<HHIII6Q", 0, 0, 0, 0, 0, *[0] * 6)
    with open("/sys/kernel/debug/lab/admin", "wb", buffering=0) as file:
        seen["admin"] = error_of(lambda: file.write(command))
    return seen


def store(path: str, seen: dict) -> None:
    with open(path + ".new", "w", encoding="ascii") as file:
        json.dump(seen, file)
    os.rename(path + ".new", path)


def unplug() -> None:
    fd, page = open_page()
    page[0]
    lie(STALL, 1)
    writer = Writer(fd)
    writer.sleeps()
    lie(GONE, 1)
    with open(f"/sys/bus/pci/devices/{PCI}/remove", "w", encoding="ascii") as file:
        file.write("1")
    store(FIRST, {"thread": writer.end()["error"], "page": touch(page),
                  "write": error_of(lambda: os.write(fd, NOP)),
                  "mmap": error_of(lambda: mmap.mmap(fd, 4096))})
    with open(GO, encoding="ascii") as file:
        file.read()
    again, new = open_page()
    packets = [packet(again, new, 17)]
    os.close(fd)
    store(SECOND, {"packets": [*packets, packet(again, new, 18)]})


def main() -> None:
    if WHAT.startswith("packet-"):
        fd, page = open_page()
        os.write(fd, fill(int(WHAT.partition("-")[2])))
        print(json.dumps({"page": page[0]}))
    elif WHAT == "unplug":
        unplug()
    else:
        print(json.dumps({"silent": silent, "gone": gone}[WHAT]()))
    sys.stdout.flush()
    os._exit(0)  # a thread may still sleep in the driver


try:
    main()
except OSError as failure:
    if WHAT == "unplug":
        store(FIRST, {"failed": str(failure)})
    print(json.dumps({"failed": str(failure)}), flush=True)
    os._exit(1)
