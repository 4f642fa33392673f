# SPDX-License-Identifier: BSD-3-Clause
"""Where CMake finds the backend for C++ programs."""

import pathlib

#: For CMAKE_PREFIX_PATH: it has torch_openreg-config.cmake.
cmake_prefix_path = str(pathlib.Path(__file__).parent / "share" / "cmake")
