# SPDX-License-Identifier: MIT
"""Tests the backend with a sample of entries that is small enough for every test run."""

import os

from tool import run_tool

NATIVE = os.getenv("OPENREG_TRANSPORT") == "sim"
# On an emulated processor, the import of the lists alone takes minutes.
COUNT, JOBS, LIMIT = (60, 2, 180) if NATIVE else (6, 1, 900)


def test_sample(tmp_path):
    limits = "--jobs", JOBS, "--timeout", LIMIT
    print(run_tool(tmp_path, "--sample", COUNT, *limits).stdout)
