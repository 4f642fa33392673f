# SPDX-License-Identifier: MIT
"""The constants of uapi/openreg_regs.h and uapi/openreg_isa.h, read from the headers."""
import pathlib
import re

TOP = pathlib.Path(__file__).resolve().parents[3]


def constants() -> dict[str, int]:
    found = {}
    for name in ("openreg_isa.h", "openreg_regs.h"):
        text = (TOP / "uapi" / name).read_text(encoding="utf-8")
        for key, value in re.findall(
                r"(?:#define\s+|^\t)OPENREG_(\w+)(?:\s+|\s*=\s*)\(?(0x[0-9a-f]+|\d+)u?\b(?! <<)",
                text, re.M):
            found[key] = int(value, 0)
    return found


C = constants()
CONTROL_ENABLE, CONTROL_RESET = 1, 2
STATUS_READY, STATUS_FATAL = 1, 2
