# SPDX-License-Identifier: MIT
"""(h) Tokens of a Llama with weights of 16, 8 and 4 bits, and a product of bytes, on the card
inside the process and on the CPU."""

from fair import fair_environment

fair_environment()

import torch  # noqa: E402

from common import DEVICES, figure, measure  # noqa: E402
from quantized import Decoder, Int4, Int8, llama, quantize  # noqa: E402

WEIGHTS = {"bf16": None, "int8": Int8, "int4": Int4}
TOKENS = 8
N = 1024


@torch.no_grad()
def decode():
    for name, layer in WEIGHTS.items():
        for device in DEVICES:
            model = llama().to(device)
            if layer:
                quantize(model, layer)
            decoder = Decoder(model, torch.arange(1, 9).view(1, -1).to(device))

            def run(decoder=decoder):
                for _ in range(TOKENS):
                    decoder.step()

            run()
            took = measure(run, device, 5) / TOKENS
            figure("h", f"token of a Llama in {name}, in process, {device}", 1e3 * took, "ms")


def bytes_of():
    def random():
        return torch.randint(-128, 128, (N, N), dtype=torch.int8)

    for device in DEVICES:
        a, b = random().to(device), random().to(device)
        torch._int_mm(a, b)
        took = measure(lambda a=a, b=b: torch._int_mm(a, b), device, 15)
        figure("h", f"matmul 1024^3 int8, in process, {device}", 1e3 * took, "ms")


decode()
bytes_of()
