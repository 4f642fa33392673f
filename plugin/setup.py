# SPDX-License-Identifier: BSD-3-Clause
"""Builds the extension with CMake, for pip. pkg-config must find openreg."""

import pathlib
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


class CMakeBuild(build_ext):
    def build_extension(self, ext: Extension) -> None:
        source = pathlib.Path(__file__).resolve().parent
        build = pathlib.Path(self.build_temp).resolve()
        prefix = pathlib.Path(self.get_ext_fullpath(ext.name)).resolve().parent.parent
        subprocess.run(
            [
                "cmake",
                *("-S", source, "-B", build),
                f"-DCMAKE_INSTALL_PREFIX={prefix}",
                f"-DPython_EXECUTABLE={sys.executable}",
                "-DOPENREG_DIST_INFO=OFF",
            ],
            check=True,
        )
        subprocess.run(["cmake", "--build", build, "--parallel"], check=True)
        subprocess.run(["cmake", "--install", build], check=True)


setup(
    ext_modules=[Extension("torch_openreg._C", sources=[])],
    cmdclass={"build_ext": CMakeBuild},
)
