# SPDX-License-Identifier: BSD-3-Clause
"""Processes that are the ranks of a job. A test sends them functions."""

import datetime
import multiprocessing
import os
import tempfile
import traceback

import torch
import torch.distributed as dist

DEV = "openreg"
TIMEOUT = 300  # seconds; on an emulated processor the first profile takes over a minute


def card():
    """The card of this rank: in a VM the ranks share the cards."""
    return torch.device(DEV, dist.get_rank() % torch.openreg.device_count())


def start_group(rank, size, path, backend=None, timeout=60, bind=True):
    index = rank % torch.openreg.device_count()
    torch.openreg.set_device(index)
    dist.init_process_group(
        backend,
        store=dist.FileStore(path, size),
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=timeout),
        device_id=torch.device(DEV, index) if bind else None,
    )


def _serve(rank, size, requests, log, env):
    os.environ.update(env)
    # torch and the library write to these.
    os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT), 2)
    while True:
        try:
            function, args, kwargs = requests.recv()
        except EOFError:
            return
        try:
            result = (True, function(*args, **kwargs))
        except BaseException as error:
            result = (False, (type(error).__name__, str(error), traceback.format_exc()))
        requests.send(result)


class Failure(Exception):
    """An exception in a rank."""

    def __init__(self, kind, text, trace):
        super().__init__(f"{kind}: {text}\n{trace}")
        self.kind, self.text = kind, text


class Ranks:
    def __init__(self, size, env=None):
        # One import of torch serves all ranks: it takes a minute on an emulated processor.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch.distributed", __name__])
        self.size = size
        self.directory = tempfile.TemporaryDirectory()
        self.pipes, self.processes = [], []
        for rank in range(size):
            ours, theirs = context.Pipe()
            log = os.path.join(self.directory.name, f"log{rank}")
            process = context.Process(
                target=_serve, args=(rank, size, theirs, log, env or {}), daemon=True
            )
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)
        self.groups = 0
        self.lost = None  # what the first rank that did not answer has to say

    def path(self):
        self.groups += 1
        return os.path.join(self.directory.name, f"store{self.groups}")

    def send(self, rank, function, *args, **kwargs):
        if self.lost:  # its late answer would pass for this function's
            raise RuntimeError(f"earlier, {self.lost}")
        self.pipes[rank].send((function, args, kwargs))

    def outcome(self, rank, timeout=TIMEOUT):
        """(True, the result) or (False, the exception's name, text and traceback)."""
        if not self.pipes[rank].poll(timeout):
            self.lost = f"rank {rank} has not answered:\n{self.log(rank)}"
            raise TimeoutError(self.lost)
        return self.pipes[rank].recv()

    def result(self, rank, timeout=TIMEOUT):
        done, value = self.outcome(rank, timeout)
        if not done:
            raise Failure(*value)
        return value

    def run(self, function, *args, timeout=TIMEOUT, **kwargs):
        """Runs the function in all ranks; returns their results."""
        for rank in range(self.size):
            self.send(rank, function, *args, **kwargs)
        outcomes = [self.outcome(rank, timeout) for rank in range(self.size)]
        for done, value in outcomes:
            if not done:
                raise Failure(*value)
        return [value for _, value in outcomes]

    def failures(self, function, *args, timeout=TIMEOUT, **kwargs):
        """The exceptions of all ranks, each of which must raise one."""
        for rank in range(self.size):
            self.send(rank, function, *args, **kwargs)
        found = []
        for rank in range(self.size):
            done, value = self.outcome(rank, timeout)
            assert not done, f"rank {rank} raised nothing, and returned {value}"
            found.append(Failure(*value))
        return found

    def start(self, **kwargs):
        path = self.path()
        for rank in range(self.size):
            self.send(rank, start_group, rank, self.size, path, **kwargs)
        for rank in range(self.size):
            self.result(rank, timeout=600)  # an emulated processor imports torch meanwhile

    def stop(self):
        self.run(dist.destroy_process_group)

    def log(self, rank):
        with open(os.path.join(self.directory.name, f"log{rank}")) as file:
            return file.read()

    def kill(self, rank):
        self.processes[rank].kill()
        self.processes[rank].join()

    def close(self):
        for pipe in self.pipes:
            pipe.close()
        for process in self.processes:
            process.join(30)
            if process.is_alive():
                process.kill()
                process.join()
        self.directory.cleanup()
