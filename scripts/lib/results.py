# SPDX-License-Identifier: MIT
"""Writes figures, JSON objects one a line, to a file with the command, the machine and the
date. A part ("where") that was measured again replaces the old part.

usage: results.py FILE COMMAND < LINES
"""

import datetime
import importlib.metadata
import json
import os
import pathlib
import platform
import re
import sys


# The greatest of these that the processor has decides which kernels the card runs.
ISA = ["avx2", "avx512f", "avx512_bf16", "amx_tile"]


def machine():
    text = pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii")
    flags = re.search(r"^flags\s*: (.*)$", text, re.MULTILINE)[1].split()
    return {
        "guest": ", ".join(sorted(os.listdir("/usr/lib/modules"))),
        "isa": next((isa for isa in reversed(ISA) if isa in flags), "SSE"),
        "processor": re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)[1],
        "processors": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "torch": importlib.metadata.version("torch"),
    }


def text(parts):
    """The file, with one figure a line."""
    out = []
    for where, part in sorted(parts.items()):
        lines = [f'  "{key}": {json.dumps(value, sort_keys=True)}'
                 for key, value in sorted(part.items()) if key != "figures"]
        figures = ",\n".join("   " + json.dumps(figure, sort_keys=True)
                             for figure in part["figures"])
        lines.append(f'  "figures": [\n{figures}\n  ]')
        out.append(f' "{where}": {{\n' + ",\n".join(lines) + "\n }")
    return "{\n" + ",\n".join(out) + "\n}\n"


def main():
    path, command = pathlib.Path(sys.argv[1]), sys.argv[2]
    parts = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    today = datetime.date.today().isoformat()
    figures = {}
    for line in sys.stdin:
        figure = json.loads(line)
        figures.setdefault(figure.pop("where"), []).append(figure)
    for where, found in figures.items():
        parts[where] = {"command": command, "date": today, "machine": machine(),
                        "figures": found}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text(parts), encoding="utf-8")


main()
