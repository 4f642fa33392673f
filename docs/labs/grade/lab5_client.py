# SPDX-License-Identifier: MIT
"""Runs in the guest: maps pages of /dev/lab, and prints which it gets."""
import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
fd = os.open("/dev/lab", os.O_RDWR)


def good(page: int, count: int = 1, prot: int = 3) -> int | None:
    at = libc.mmap(None, count * 4096, prot, 1, fd, page * 4096)
    return None if at in (None, ctypes.c_void_p(-1).value) else at


print("maps", *[page for page in range(40) if good(page, 1, 1)])
print("two", *[page for page in range(40) if good(page, 2, 1)])
address = good(2, 1, 1)
print("write", int(bool(good(2))), int(address is None or not libc.mprotect(address, 4096, 3)))
