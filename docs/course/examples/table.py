# SPDX-License-Identifier: BSD-3-Clause
"""Which kernel the dispatcher has for an operator, and why."""

import torch

for name in ("aten::mul.Tensor", "aten::linalg_inv_ex", "aten::reshape"):
    print(name)
    for line in torch._C._dispatch_dump_table(name).splitlines():
        key, _, rest = line.partition(": ")
        if key in ("PrivateUse1", "AutogradPrivateUse1", "AutocastPrivateUse1"):
            through = "fallthrough" if rest.startswith("fallthrough") else ""
            print(f"  {key:<20} {through:<12} [{rest.rpartition('[')[2]}")
