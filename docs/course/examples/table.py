# SPDX-License-Identifier: BSD-3-Clause
"""Prints the dispatcher's kernels of an operator, and why core chose them."""

import torch

for name in ("aten::mul.Tensor", "aten::_linalg_eigh", "aten::reshape"):
    print(name)
    table = torch._C._dispatch_dump_table(name).splitlines()
    entries = dict(line.split(": ", 1) for line in table)
    for key in ("AutocastPrivateUse1", "AutogradPrivateUse1", "PrivateUse1"):
        kind = entries[key].split()[0] if entries[key].startswith("fallthrough") else ""
        print(f"  {key:<20} {kind:<12} [{entries[key].rpartition('[')[2]}")
