# SPDX-License-Identifier: MIT
"""Quantizes a Llama of transformers with torchao, on the card and on the CPU, and compares the
tokens. Prints the operators that ran on the CPU for the card.
usage: PYTHONPATH=CHECKOUT llama.py"""

import copy
import sys

import torch
from torchao.quantization import (
    Int8DynamicActivationInt8WeightConfig,
    Int8WeightOnlyConfig,
    IntxWeightOnlyConfig,
    quantize_,
)
from torchao.quantization.granularity import PerGroup
from transformers import LlamaConfig, LlamaForCausalLM

TOKENS = 64
CONFIGS = {
    "int8 weights": Int8WeightOnlyConfig(version=2),
    "int8 weights and activations": Int8DynamicActivationInt8WeightConfig(version=2),
    "int4 weights": IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32)),
}
# Only for these must the tokens be equal: the others round activations, where one bit moves a
# number to the next integer.
EQUAL = {"int8 weights"}


def llama(dtype):
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=1024, intermediate_size=2816, num_hidden_layers=8,
        num_attention_heads=16, num_key_value_heads=8, vocab_size=8192,
    )
    return LlamaForCausalLM(config).to(dtype).eval()


def generate(model, config, device):
    model = copy.deepcopy(model).to(device)
    quantize_(model, config)
    prompt = torch.arange(1, 9, device=device).view(1, -1)
    out = model.generate(prompt, max_new_tokens=TOKENS, min_new_tokens=TOKENS, do_sample=False,
                         pad_token_id=0)
    return out.cpu()[0, 8:]


def main():
    status = 0
    model = llama(torch.float32)
    for name, config in CONFIGS.items():
        torch.openreg.reset_fallbacks()
        card = generate(model, config, "openreg")
        fallbacks = torch.openreg.fallbacks()
        cpu = generate(model, config, "cpu")
        same = int((card == cpu).sum())
        print(f"{name}: {same} of {TOKENS} tokens are those of the CPU; on the CPU ran: {fallbacks}")
        if name in EQUAL and same != TOKENS:
            status = 1
    return status


sys.exit(main())
