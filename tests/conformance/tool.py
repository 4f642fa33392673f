# SPDX-License-Identifier: MIT
"""Starts the tool as a user does. Does not import torch, which takes long."""

import os
import pathlib
import subprocess
import sys

RUN = pathlib.Path(__file__).resolve().parent / "run.py"
MODULE = os.environ.get("CONFORMANCE_MODULE", "torch_openreg")


def run_tool(out, *arguments, module=MODULE, code=0, **env):
    done = subprocess.run(
        [sys.executable, RUN, "--module", module, "--out", out]
        + [str(a) for a in arguments],
        capture_output=True,
        text=True,
        timeout=1800,
        env={**os.environ, **env},
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done
