# SPDX-License-Identifier: MIT
"""(p) Linear layers with packed weights, against plain weights and the CPU.

usage: packed.py [--table]
"""

import sys

from fair import fair_environment

fair_environment()

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

from common import DEVICES, figure, least  # noqa: E402

SHAPES = ((1024, 1024), (4096, 1024))
ROWS = (1, 4, 16, 64)
TYPES = {"bf16": torch.bfloat16, "f32": torch.float32}
TRIES = 15
RUNS = 20  # of a try


def layer(out, inner, dtype, rows):
    w = {"cpu": torch.randn(out, inner).to(dtype)}
    x = {"cpu": torch.randn(rows, inner).to(dtype)}
    w["plain"] = w["cpu"].to("openreg")
    w["packed"] = torch.openreg.format_cast(w["plain"], "packed")
    x["plain"] = x["packed"] = x["cpu"].to("openreg")
    ways = {
        name: (lambda name=name: F.linear(x[name], w[name]), DEVICES[name == "cpu"])
        for name in w
    }
    with torch.no_grad():
        for run, _ in ways.values():
            run()
        return least(ways, TRIES, RUNS)


table = "--table" in sys.argv
if table:
    print("| layer | rows | type | plain, us | packed, us | CPU, us | plain / packed | CPU / packed |")
    print("|---|---|---|---|---|---|---|---|")
for out, inner in SHAPES:
    for label, dtype in TYPES.items():
        for rows in ROWS:
            took = layer(out, inner, dtype, rows)
            what = f"linear {out}x{inner} {label}, {rows} rows"
            if table:
                plain, packed, cpu = (took[n] * 1e6 for n in ("plain", "packed", "cpu"))
                print(
                    f"| {out}x{inner} | {rows} | {label} | {plain:.0f} | {packed:.0f} | "
                    f"{cpu:.0f} | {plain / packed:.2f} | {cpu / packed:.2f} |",
                    flush=True,
                )
                continue
            for name, seconds in took.items():
                figure("p", f"{what}, in process, {name}", seconds * 1e6, "us")
