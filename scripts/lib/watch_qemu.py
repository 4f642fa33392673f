# SPDX-License-Identifier: MIT
"""Records when the threads of QEMU run on the host's processors, for scripts/host-trace.
Finds each QEMU by its log DIRECTORY/qemu.PID, and ends when it is killed.

usage: watch_qemu.py DIRECTORY
"""

import os
import pathlib
import sys
import time

EVERY = 0.01


def threads(pid):
    """The time that each thread has run so far, and its name."""
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            ran = int((task / "schedstat").read_text().split()[0])
            yield int(task.name), ran, (task / "comm").read_text().strip()
        except (OSError, ValueError, IndexError):
            pass  # the thread has ended


def main():
    where = pathlib.Path(sys.argv[1])
    before = {}
    with (where / "threads").open("w", encoding="utf-8", errors="replace") as file:
        while True:
            for log in where.glob("qemu.*"):
                now = time.time_ns()
                try:
                    found = list(threads(log.suffix[1:]))
                except OSError:
                    continue  # this QEMU has ended
                for thread, ran, name in found:
                    last, at = before.get(thread, (ran, now))
                    if ran != last or thread not in before:
                        file.write(f"{log.suffix[1:]} {thread} {at} {now} {ran - last} {name}\n")
                    before[thread] = ran, now
            file.flush()
            time.sleep(EVERY)


try:
    main()
except (KeyboardInterrupt, BrokenPipeError):
    os._exit(0)
