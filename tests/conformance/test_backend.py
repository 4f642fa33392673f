# SPDX-License-Identifier: MIT
"""The backend itself, in a sample small enough for every run of the tests."""

import os

from tool import run_tool

NATIVE = os.getenv("OPENREG_TRANSPORT") == "sim"
# The lists alone take long to import where the processor is emulated.
COUNT, JOBS, LIMIT = (60, 2, 180) if NATIVE else (6, 1, 900)


def test_sample(tmp_path):
    limits = "--jobs", JOBS, "--timeout", LIMIT
    print(run_tool(tmp_path, "--sample", COUNT, *limits).stdout)
