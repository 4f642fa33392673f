# SPDX-License-Identifier: BSD-3-Clause
"""The directory in which CMake finds the backend for C++ programs."""

import pathlib

#: A value for CMAKE_PREFIX_PATH. The directory contains torch_openreg-config.cmake.
cmake_prefix_path = str(pathlib.Path(__file__).parent / "share" / "cmake")
