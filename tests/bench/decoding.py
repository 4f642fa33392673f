# SPDX-License-Identifier: MIT
"""(h) Tokens of a Llama with weights of 16, 8 and 4 bits, and a product of bytes, on the card
inside the process and on the CPU. Measures all ways in turns."""

from fair import fair_environment

fair_environment()

import torch  # noqa: E402

from common import DEVICES, figure, least  # noqa: E402
from quantized import Decoder, Int4, Int8, llama, pack, quantize  # noqa: E402

WAYS = {
    "bf16": lambda model: model,
    "packed bf16": pack,
    "int8": lambda model: quantize(model, Int8),
    "int4": lambda model: quantize(model, Int4),
}
TOKENS = 8
N = 1024


def decoder(name, device):
    model = WAYS[name](llama().to(device))
    decoder = Decoder(model, torch.arange(1, 9).view(1, -1).to(device))

    def run():
        for _ in range(TOKENS):
            decoder.step()

    run()
    return run, device


@torch.no_grad()
def decode():
    ways = {
        f"token of a Llama in {name}, in process, {device}": decoder(name, device)
        for name in WAYS for device in DEVICES if (name, device) != ("packed bf16", "cpu")
    }
    for what, took in least(ways, 5, 1).items():
        figure("h", what, 1e3 * took / TOKENS, "ms")


def product(multiply, a, b, device):
    a, b = a.to(device), b.to(device)
    multiply(a, b)
    return lambda: multiply(a, b), device


def products():
    ways = {}
    for device in DEVICES:
        integers = (torch.randint(-128, 128, (N, N), dtype=torch.int8) for _ in range(2))
        floats = (torch.randn(N, N) for _ in range(2))
        what = "matmul 1024^3"
        ways[f"{what} int8, in process, {device}"] = product(torch._int_mm, *integers, device)
        ways[f"{what} f32 beside int8, in process, {device}"] = product(
            torch.mm, *floats, device)
    for what, took in least(ways, 15, 1).items():
        figure("h", what, 1e3 * took, "ms")


decode()
products()
