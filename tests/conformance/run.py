#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Starts the package beside this file from anywhere: run.py --help."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from conformance.main import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
