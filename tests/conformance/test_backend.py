# SPDX-License-Identifier: MIT
"""The backend itself, in a sample small enough for every run of the tests."""

from test_conformance import run_tool

COUNT = 60


def test_sample(tmp_path):
    print(run_tool(tmp_path, "--sample", COUNT, "--jobs", 2).stdout)
