# SPDX-License-Identifier: BSD-3-Clause
"""Builds the wheel, for pip.

In the openreg checkout the wheel contains libopenreg and the in-process card, which meson
builds. Elsewhere the wheel uses the libopenreg that pkg-config finds. The wheel works with
the torch of the Python that runs pip. torch is not listed as a requirement of the build: the
package index has a different one.

CXX names the compiler, as always with CMake. TORCH_OPENREG_BUILD names a directory for the
plugin's objects. Use the same directory again, so that a compiler cache recognizes them.
"""

import atexit
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCE = pathlib.Path(__file__).resolve().parent
TREE = SOURCE.parent
PACKAGES = "meson ninja-build cmake pkg-config libdrm-dev libdnnl-dev libsleef-dev"


def use_system_packages() -> None:
    """Makes the system's Python packages visible: pip hides torch and meson from a build."""
    look = (sys.executable, "-c", "import torch.utils.cpp_extension")
    if subprocess.run(look, capture_output=True).returncode == 0:
        return
    for name in ("PYTHONPATH", "PYTHONNOUSERSITE"):
        os.environ.pop(name, None)
    if subprocess.run(look, capture_output=True).returncode != 0:
        sys.exit("torch is missing: on Debian, apt install python3-torch libtorch-dev")


def run(*command, **env: str) -> None:
    try:
        subprocess.run(command, check=True, env={**os.environ, **env})
    except FileNotFoundError:
        sys.exit(f"{command[0]} is missing: on Debian, apt install {PACKAGES}")
    except subprocess.CalledProcessError as error:
        sys.exit(
            f"{command[0]} failed with status {error.returncode}. If something is "
            f"missing: on Debian, apt install {PACKAGES}"
        )


def meson(source: pathlib.Path, build: pathlib.Path, *options: str) -> None:
    run("meson", "setup", str(build), str(source), *options)


def build_libraries(build: pathlib.Path) -> pathlib.Path:
    """Builds libopenreg and libopenreg-sim, and installs them below build. Returns the
    prefix."""
    prefix, card = build / "prefix", build / "card"
    where = (f"--prefix={prefix}", "--libdir=lib")
    meson(TREE / "qemu-device" / "card", card, "-Dtests=false")
    run("ninja", "-C", str(card))
    # libopenreg searches for libopenreg-sim in its own directory.
    beside = "-Dc_link_args=-Wl,-rpath,$ORIGIN"
    meson(TREE / "libopenreg", build / "lib", *where, beside)
    meson(TREE / "libopenreg" / "sim", build / "sim", *where, f"-Dcard={card}")
    for name in ("lib", "sim"):
        run("meson", "install", "-C", str(build / name), "--quiet")
    return prefix


class CMakeBuild(build_ext):
    def build_extension(self, ext: Extension) -> None:
        build = pathlib.Path(self.build_temp).resolve()
        package = pathlib.Path(self.get_ext_fullpath(ext.name)).resolve().parent
        plugin = os.environ.get("TORCH_OPENREG_BUILD", str(build / "plugin"))
        use_system_packages()
        options, env = [], {}
        if (TREE / "libopenreg" / "meson.build").exists():
            prefix = build_libraries(build)
            env["PKG_CONFIG_PATH"] = str(prefix / "lib" / "pkgconfig")
            options.append("-DOPENREG_RPATH=$ORIGIN")
            self.copy_libraries(prefix / "lib", package / "lib")
        run(
            "cmake",
            *("-S", str(SOURCE), "-B", plugin),
            f"-DCMAKE_INSTALL_PREFIX={package.parent}",
            f"-DPython_EXECUTABLE={sys.executable}",
            "-DOPENREG_DIST_INFO=OFF",
            *options,
            **env,
        )
        run("cmake", "--build", plugin, "--parallel")
        run("cmake", "--install", plugin)

    @staticmethod
    def copy_libraries(source: pathlib.Path, target: pathlib.Path) -> None:
        """Copies the libraries under their sonames: the loader searches for these names."""
        target.mkdir(parents=True, exist_ok=True)
        names = ("libopenreg.so.1", "libopenreg-comm.so.1", "libopenreg-sim.so.1")
        for name in names:
            shutil.copy(source / name, target / name)


# Build outside of the checkout.
BUILD = tempfile.mkdtemp(prefix="torch-openreg-")
atexit.register(shutil.rmtree, BUILD, ignore_errors=True)

setup(
    options={"build": {"build_base": BUILD}},
    ext_modules=[Extension("torch_openreg._C", sources=[])],
    cmdclass={"build_ext": CMakeBuild},
)
