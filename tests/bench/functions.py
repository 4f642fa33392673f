# SPDX-License-Identifier: MIT
"""Functions of two tensors, for inprocess.py and compiled.py."""

import torch


def eight(x, y):
    z = x.mul(y)
    for _ in range(2):
        z = z.add(y).sub(x)
    return z.mul(x).abs().sqrt()


def normal(x, y):
    return torch.nn.functional.gelu(torch.nn.functional.layer_norm(x * 2 + y, x.shape[-1:]))


def softmax(x, y):
    e = (x - x.amax(1, keepdim=True)).exp()
    return e / e.sum(1, keepdim=True)


def layer_norm(x, y):
    d = x - x.mean(1, keepdim=True)
    return d * (d.square().mean(1, keepdim=True) + 1e-5).rsqrt()
