# SPDX-License-Identifier: BSD-3-Clause
"""Typical models in a small size, without dropout: the card would draw other numbers than
the CPU."""

from typing import Callable, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

WORDS, LENGTH, WIDTH, HEADS = 50, 12, 16, 4


class Case(NamedTuple):
    make: Callable[[], nn.Module]
    loss_of: Callable[..., torch.Tensor]
    inputs: tuple[torch.Tensor, ...]
    sgd_rate: float = 0.1
    adam_rate: float = 0.01


def words(batch: int = 2) -> torch.Tensor:
    return torch.randint(WORDS, (batch, LENGTH), generator=torch.Generator().manual_seed(1))


class Tagger(nn.Module):
    def __init__(self, kind: type) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.cells = kind(WIDTH, WIDTH, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * WIDTH, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.cells(self.embedding(x))[0])


def tagger(kind: type) -> Case:
    def loss_of(model, x):
        return F.cross_entropy(model(x).flatten(0, 1), (x % 5).flatten())

    return Case(lambda: Tagger(kind), loss_of, (words(),), sgd_rate=1.0)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.before(x)).unflatten(-1, (3, HEADS, -1)).unbind(-3)
        y = F.scaled_dot_product_attention(
            *(t.transpose(1, 2) for t in (q, k, v)), is_causal=True
        )
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.narrow(F.gelu(self.wide(self.between(x)), approximate="tanh"))


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(Block(), Block(), nn.LayerNorm(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = torch.arange(x.shape[1], device=x.device)
        return self.blocks(self.words(x) + self.places(places)) @ self.words.weight.t()


def decoder() -> Case:
    def loss_of(model, x):
        return F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())

    return Case(Decoder, loss_of, (words(),))


def encoder_and_decoder() -> Case:
    """torch's own Transformer, with a mask over the decoder."""
    x, y = (torch.randn(2, n, WIDTH, generator=torch.Generator().manual_seed(n)) for n in (6, 5))
    mask = nn.Transformer.generate_square_subsequent_mask(5)

    def make():
        return nn.Transformer(WIDTH, HEADS, 1, 1, 2 * WIDTH, dropout=0.0, batch_first=True)

    def loss_of(model, x, y, mask):
        return F.mse_loss(model(x, y, tgt_mask=mask), torch.cos(y))

    return Case(make, loss_of, (x, y, mask))


SIZES = {"vocab_size": WORDS, "hidden_size": WIDTH, "num_hidden_layers": 2}


def make_gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(
        GPT2Config(vocab_size=WORDS, n_positions=LENGTH, n_embd=WIDTH, n_layer=2, n_head=HEADS,
                   resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    )


def make_bert():
    from transformers import BertConfig, BertForMaskedLM

    return BertForMaskedLM(
        BertConfig(**SIZES, num_attention_heads=HEADS, intermediate_size=2 * WIDTH,
                   max_position_embeddings=LENGTH, hidden_dropout_prob=0.0,
                   attention_probs_dropout_prob=0.0)
    )


def make_llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(**SIZES, num_attention_heads=HEADS, num_key_value_heads=2,
                    intermediate_size=2 * WIDTH, max_position_embeddings=LENGTH)
    )


def language(make: Callable[[], nn.Module]) -> Case:
    def loss_of(model, x, mask):
        return model(input_ids=x, attention_mask=mask, labels=x).loss

    mask = torch.ones(2, LENGTH, dtype=torch.int64)
    mask[1, LENGTH - 3 :] = 0
    return Case(make, loss_of, (words(), mask))


def picture_loss(model, x, labels):
    return F.cross_entropy(model(x), labels)


def pictures(height: int, width: int) -> torch.Tensor:
    return torch.rand(2, 3, height, width, generator=torch.Generator().manual_seed(2))


def resnet18() -> Case:
    from torchvision.models import resnet18

    # A lower rate than the other models: the network is deep. At their AdamW rate, the
    # CPU's third losses in f32 and in f64 differ by 2.5e-3.
    return Case(
        lambda: resnet18(num_classes=5), picture_loss, (pictures(40, 40), torch.tensor([1, 3])),
        sgd_rate=0.01, adam_rate=1e-4,
    )


class UNet(nn.Module):
    """A U-Net with one level and its skip connection."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.below = self.floor(3, 8), self.floor(8, 16)
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.right, self.head = self.floor(16, 8), nn.Conv2d(8, 5, 1)

    @staticmethod
    def floor(inputs: int, outputs: int) -> nn.Sequential:
        # No bias: before BatchNorm its gradient consists of rounding errors, of which Adam
        # makes full steps. The running mean would keep these.
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1), nn.GroupNorm(2, outputs), nn.SiLU(),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left = self.left(x)
        up = self.up(self.below(F.max_pool2d(left, 2)))
        return self.head(self.right(torch.cat([left, up], 1)))


def unet() -> Case:
    x = pictures(16, 16)
    return Case(UNet, picture_loss, (x, (x.sum(1) * 1.6).long()))


CASES = {
    "lstm": lambda: tagger(nn.LSTM),
    "gru": lambda: tagger(nn.GRU),
    "blocks": decoder,
    "encoder and decoder": encoder_and_decoder,
    "gpt2": lambda: language(make_gpt2),
    "bert": lambda: language(make_bert),
    "llama": lambda: language(make_llama),
    "resnet18": resnet18,
    "unet": unet,
}
