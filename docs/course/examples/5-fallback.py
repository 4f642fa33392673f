# SPDX-License-Identifier: BSD-3-Clause
"""An operator that the card has not: right, counted, and forbidden on demand."""

import torch

x = torch.tensor([[2.0, 0.0], [0.0, 4.0]]).to("openreg")

print(torch.linalg.inv_ex(x).inverse)
print(torch.openreg.fallbacks())

torch.openreg.reset_fallbacks()
x + x
print(torch.openreg.fallbacks())

torch.openreg.set_fallback("error")
try:
    torch.linalg.inv_ex(x)
except NotImplementedError as error:
    print("NotImplementedError:", error)
