# SPDX-License-Identifier: BSD-3-Clause
"""Runs every command of the course, and compares the output with the page."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]


def course():
    spec = importlib.util.spec_from_file_location("build", TOP / "docs/course/build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def all_commands():
    build = course()
    for page in build.chapters():
        for command in build.commands(page.read_text()):
            yield pytest.param(command, id=f"{page.stem}-{command.line}")


@pytest.mark.unchecked("the output counts packets and bytes; one example has a race")
@pytest.mark.parametrize("command", all_commands())
def test_output_of_command(command):
    """Runs the command's Python in this environment, without the page's scripts/sim."""
    env = {
        **os.environ,
        "PYTHONUNBUFFERED": "1",
        "OPENREG_SIM_CARDS": str(command.cards or 1),
        **command.environment,
    }
    done = subprocess.run(
        [sys.executable if word == "python3" else word for word in command.arguments],
        cwd=TOP,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )
    assert command.matches(done.stdout), done.stdout
    assert done.returncode == command.status, done.stdout
