# SPDX-License-Identifier: MIT
"""A Llama with weights of 16, 8 or 4 bits, and the decoding of its tokens one by one."""

import torch
from torch import nn

GROUP = 64


class Int8(nn.Module):
    """A linear layer with weights of 8 bits, and a scale for each output."""

    def __init__(self, linear: nn.Linear):
        super().__init__()
        weight = linear.weight.detach().float()
        scale = weight.abs().amax(1).clamp(min=1e-8) / 127
        self.weight = nn.Buffer((weight / scale[:, None]).round().to(torch.int8))
        self.scale = nn.Buffer(scale.to(linear.weight.dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch._weight_int8pack_mm(x.reshape(-1, x.shape[-1]), self.weight, self.scale)
        return y.view(*x.shape[:-1], -1)


class Int4(nn.Module):
    """A linear layer with weights of 4 bits; GROUP of them share a scale and a zero."""

    def __init__(self, linear: nn.Linear):
        super().__init__()
        weight = linear.weight.detach().float()
        groups = weight.view(weight.shape[0], -1, GROUP)
        low, high = groups.amin(2), groups.amax(2)
        scale = (high - low).clamp(min=1e-8) / 15
        q = ((groups - low[..., None]) / scale[..., None]).round().to(torch.int32)
        scales = torch.stack([scale.t(), (low + 8 * scale).t()], dim=2)
        self.scales = nn.Buffer(scales.to(linear.weight.dtype).contiguous())
        self.weight = nn.Buffer(self.pack(q.view(weight.shape)))

    def pack(self, q: torch.Tensor) -> torch.Tensor:
        if q.device.type == "cpu":
            return torch._convert_weight_to_int4pack_for_cpu(q, 2)
        pairs = (q[:, ::2] << 4 | q[:, 1::2]).to(torch.uint8)
        return torch._convert_weight_to_int4pack(pairs, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        on_cpu = x.device.type == "cpu"
        mm = torch._weight_int4pack_mm_for_cpu if on_cpu else torch._weight_int4pack_mm
        y = mm(x.reshape(-1, x.shape[-1]), self.weight, GROUP, self.scales)
        return y.view(*x.shape[:-1], -1)


def quantize(module: nn.Module, layer: type[nn.Module]) -> nn.Module:
    """Replaces the linear layers, in place."""
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, layer(child))
        else:
            quantize(child, layer)
    return module


def pack(module: nn.Module) -> nn.Module:
    """Gives the weights of the linear layers the format 'packed', in place."""
    for child in module.modules():
        if isinstance(child, nn.Linear):
            child.weight.data = torch.openreg.format_cast(child.weight.data, "packed")
    return module


def llama(layers: int = 8, width: int = 1024) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=width, intermediate_size=4 * width, num_hidden_layers=layers,
        num_attention_heads=width // 64, num_key_value_heads=width // 128,
    )
    return LlamaForCausalLM(config).to(torch.bfloat16).eval()


class Decoder:
    """Takes the most likely token each time."""

    def __init__(self, model: nn.Module, prompt: torch.Tensor):
        self.model = model
        self.take(model(prompt, use_cache=True))

    def take(self, out) -> None:
        self.cache = out.past_key_values
        self.token = out.logits[:, -1:].argmax(-1)

    def step(self) -> torch.Tensor:
        token = self.token
        self.take(self.model(token, past_key_values=self.cache, use_cache=True))
        return token
