# SPDX-License-Identifier: BSD-3-Clause
"""A model as a file that runs without its Python code."""

import tempfile

import torch
from torch import nn

model = nn.Sequential(nn.Linear(8, 4), nn.GELU()).to("openreg")
x = torch.ones(2, 8, device="openreg")
program = torch.export.export(model, (x,))

with tempfile.NamedTemporaryFile(suffix=".pt2") as file:
    torch.export.save(program, file.name)
    loaded = torch.export.load(file.name).module()
print("same:", torch.equal(loaded(x), model(x)), "on", loaded(x).device)
print("compiled:", torch.allclose(torch.compile(loaded)(x), model(x)))

try:
    torch._inductor.aoti_compile_and_package(program)
except Exception as error:
    print(error)
