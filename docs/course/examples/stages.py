# SPDX-License-Identifier: BSD-3-Clause
"""A softmax, and a multiplication behind it, as one program of three stages."""

import re

import torch
from torch._inductor.utils import run_and_get_code


def weights(x):
    return x.softmax(1) * 2


x = torch.linspace(-1, 1, 64 * 128, device="openreg").reshape(64, 128)
compiled = torch.compile(weights)
result, (code,) = run_and_get_code(compiled, x)
torch.testing.assert_close(result, weights(x))

torch.openreg.synchronize()
before = torch.openreg.queue_stats()["packets"]
compiled(x)
torch.openreg.synchronize()
print("packets:", torch.openreg.queue_stats()["packets"] - before)
print(re.search(r'program\("\w+", """\n(.*?)\n"""', code, re.DOTALL)[1])
