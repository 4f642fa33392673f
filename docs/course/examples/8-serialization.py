# SPDX-License-Identifier: BSD-3-Clause
"""Save on one device, load on another."""

import copy
import io

import torch

base = torch.arange(6.0).to("openreg:1")
saved = {"base": base, "view": base[2:], "cpu": torch.ones(2)}
file = io.BytesIO()
torch.save(saved, file)


def load(where=None):
    file.seek(0)
    return torch.load(file, map_location=where)


same = load()
print("as saved:", same["view"].device, same["cpu"].device)
same["base"][3] = -1
print("views still share:", same["view"].tolist())
print("moved:", load("openreg:0")["view"].device, load("cpu")["view"].device)

with_dtype = copy.deepcopy(base.to(torch.bfloat16).t())
print("a deep copy:", with_dtype.device, with_dtype.dtype)

state = torch.openreg.get_rng_state(1)
torch.openreg.set_rng_state(state, 0)
print("a generator's state:", state.device, state.numel(), "bytes")

try:
    load("openreg:9")
except RuntimeError as error:
    print("RuntimeError:", str(error).split(".")[0])
