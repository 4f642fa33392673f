# SPDX-License-Identifier: BSD-3-Clause
"""Builds the wheel, for pip.

In the openreg checkout the wheel brings libopenreg and the in-process card, which
are built with meson. Elsewhere it takes the libopenreg that pkg-config finds.
It is for the torch of the Python that runs pip, which is not named as something to
fetch: the package index has another one.

CXX names the compiler, as everywhere with CMake. TORCH_OPENREG_BUILD names a directory
for the plugin's objects; in the same one, a compiler cache knows them again.
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


def show_the_system() -> None:
    """pip hides what the system has in Python, torch and meson, from what it builds."""
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
    """libopenreg and libopenreg-sim, installed below build; the prefix."""
    prefix, card = build / "prefix", build / "card"
    where = (f"--prefix={prefix}", "--libdir=lib")
    meson(TREE / "qemu-device" / "card", card, "-Dtests=false")
    run("ninja", "-C", str(card))
    # It looks for libopenreg-sim beside itself.
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
        show_the_system()
        options, env = [], {}
        if (TREE / "libopenreg" / "meson.build").exists():
            prefix = build_libraries(build)
            env["PKG_CONFIG_PATH"] = str(prefix / "lib" / "pkgconfig")
            options.append("-DOPENREG_RPATH=$ORIGIN")
            self.bring(prefix / "lib", package / "lib")
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
    def bring(source: pathlib.Path, target: pathlib.Path) -> None:
        """The libraries under their sonames, which is what is looked for."""
        target.mkdir(parents=True, exist_ok=True)
        for name in ("libopenreg.so.1", "libopenreg-sim.so.1"):
            shutil.copy(source / name, target / name)


# The checkout stays clean.
BUILD = tempfile.mkdtemp(prefix="torch-openreg-")
atexit.register(shutil.rmtree, BUILD, ignore_errors=True)

setup(
    options={"build": {"build_base": BUILD}},
    ext_modules=[Extension("torch_openreg._C", sources=[])],
    cmdclass={"build_ext": CMakeBuild},
)
