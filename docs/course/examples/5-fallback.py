# SPDX-License-Identifier: BSD-3-Clause
"""An operator that the card lacks: right, counted, and forbidden on demand."""

import torch

x = torch.tensor([[2.0, 0.0], [0.0, 4.0]]).to("openreg")

print(torch.linalg.eigh(x).eigenvalues)
print(torch.openreg.fallbacks())

torch.openreg.reset_fallbacks()
x + x
print(torch.openreg.fallbacks())

torch.openreg.set_fallback("error")
try:
    torch.linalg.eigh(x)
except NotImplementedError as error:
    print("NotImplementedError:", error)
