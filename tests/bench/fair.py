# SPDX-License-Identifier: MIT
"""Gives torch's CPU and the card in the process the same number of threads."""

import os

# The CPU's idle threads sleep. OpenBLAS's would poll for some 30 ms after a product, and
# OpenMP's longer, on processors that the card needs. 4 is the shortest time of OpenBLAS:
# 2^4 cycles.
QUIET = {"OMP_WAIT_POLICY": "PASSIVE", "OPENBLAS_THREAD_TIMEOUT": "4"}


def workers() -> int:
    """Returns the number of threads of the in-process card, with libopenreg's rule."""
    given = os.environ.get("OPENREG_SIM_WORKERS")
    return int(given) if given else min(8, len(os.sched_getaffinity(0)))


def fair_environment() -> None:
    """Sets the environment. Call it before torch is imported."""
    os.environ.update(QUIET)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OPENREG_SIM_WORKERS"):
        os.environ[name] = str(workers())
