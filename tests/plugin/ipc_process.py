# SPDX-License-Identifier: BSD-3-Clause
"""What the scenes of two processes have in common."""

import contextlib
import multiprocessing
import os
import signal
import time
import traceback

import torch

DEV = "openreg"
PATIENCE = 300  # s
context = multiprocessing.get_context("fork")


class Other:
    """A forked process that runs work(inbox, outbox)."""

    def __init__(self, work):
        self.inbox, self.outbox = context.Queue(), context.Queue()
        self.may_end = context.Event()
        self.process = context.Process(target=self._run, args=(work,), daemon=True)
        self.process.start()

    def _run(self, work):
        try:
            work(self.inbox, self.outbox)
        except BaseException:
            self.outbox.put(("failed", traceback.format_exc()))
        self.may_end.wait(PATIENCE)  # its messages live as long as it does

    def put(self, *objects):
        for obj in objects:
            self.inbox.put(obj)

    def get(self):
        got = self.outbox.get(timeout=PATIENCE)
        assert not (isinstance(got, tuple) and got and got[0] == "failed"), got[1]
        return got

    def end(self):
        self.may_end.set()
        self.process.join(PATIENCE)
        assert self.process.exitcode == 0, self.process.exitcode

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.join(PATIENCE)


@contextlib.contextmanager
def raises(kind, *words):
    try:
        yield
    except kind as error:
        for word in words:
            assert word in str(error), str(error)
    else:
        raise AssertionError(f"no {kind.__name__}")


def echo(inbox, outbox):
    """Adds 1 to each tensor that comes, in place, and says what it was."""
    while (x := inbox.get()) is not None:
        outbox.put(x.detach().clone().cpu())
        with torch.no_grad():
            x.add_(1)
        torch.openreg.synchronize()
        outbox.put("added")


def reserved_memory():
    torch.openreg.synchronize()
    torch.openreg.ipc_collect()
    torch.openreg.empty_cache()
    return torch.openreg.memory_reserved()


def used_memory():
    """What this process has reserved, and what all processes use of the card."""
    return reserved_memory(), torch.openreg.device_memory_used()


def drops_to(reserved, used):
    """The driver frees closed memory, and what a killed process held, in its own time."""
    deadline = time.monotonic() + PATIENCE
    now = used_memory()
    while now[0] > reserved or now[1] > used:
        assert time.monotonic() < deadline, (now, reserved, used)
        time.sleep(0.01)
        now = used_memory()
