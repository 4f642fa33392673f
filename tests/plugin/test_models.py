# SPDX-License-Identifier: BSD-3-Clause
"""Models as people write them: two steps of training on the card and nothing of
them on the CPU, with the CPU's losses.

Tiny, and without dropout, which would draw other numbers there.
"""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from ops import no_fallback, to_card

WORDS, LENGTH, WIDTH, HEADS = 50, 12, 16, 4


def made_on_card(make) -> nn.Module:
    """Where it takes no time: an emulated CPU draws half a million normal numbers a second."""
    torch.manual_seed(0)
    with torch.device("openreg"):
        return make()


def losses(model: nn.Module, loss_of) -> list[float]:
    """Of two steps, then in evaluation."""
    model.train()
    # Not Adam: the keys' bias has a gradient of nothing but rounding errors.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    out = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        out.append(loss.item())
    with torch.no_grad():
        out.append(loss_of(model.eval()).item())
    return out


def compare(make, loss_of, *inputs) -> None:
    model, card = made_on_card(make), to_card(inputs)
    want = losses(copy.deepcopy(model).cpu(), lambda model: loss_of(model, *inputs))
    with no_fallback():
        got = losses(model, lambda model: loss_of(model, *card))
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
    assert min(want[1:]) < want[0]


def words(batch: int = 2) -> torch.Tensor:
    return torch.randint(WORDS, (batch, LENGTH), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_recurrent(kind):
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(WORDS, WIDTH)
            self.cells = kind(WIDTH, WIDTH, num_layers=2, batch_first=True, bidirectional=True)
            self.head = nn.Linear(2 * WIDTH, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.cells(self.embedding(x))[0])

    def loss_of(model, x):
        return F.cross_entropy(model(x).flatten(0, 1), (x % 5).flatten())

    compare(Tagger, loss_of, words())


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


def test_a_stack_of_blocks():
    def loss_of(model, x):
        return F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())

    compare(Decoder, loss_of, words())


def test_encoder_and_decoder():
    """torch's own Transformer, with a mask over the decoder."""
    x, y = (torch.randn(2, n, WIDTH, generator=torch.Generator().manual_seed(n)) for n in (6, 5))
    mask = nn.Transformer.generate_square_subsequent_mask(5)

    def make():
        return nn.Transformer(WIDTH, HEADS, 1, 1, 2 * WIDTH, dropout=0.0, batch_first=True)

    def loss_of(model, x, y, mask):
        return F.mse_loss(model(x, y, tgt_mask=mask), torch.cos(y))

    compare(make, loss_of, x, y, mask)


SIZES = {"vocab_size": WORDS, "hidden_size": WIDTH, "num_hidden_layers": 2}


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(
        GPT2Config(vocab_size=WORDS, n_positions=LENGTH, n_embd=WIDTH, n_layer=2, n_head=HEADS,
                   resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    )


def bert():
    from transformers import BertConfig, BertForMaskedLM

    return BertForMaskedLM(
        BertConfig(**SIZES, num_attention_heads=HEADS, intermediate_size=2 * WIDTH,
                   max_position_embeddings=LENGTH, hidden_dropout_prob=0.0,
                   attention_probs_dropout_prob=0.0)
    )


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(**SIZES, num_attention_heads=HEADS, num_key_value_heads=2,
                    intermediate_size=2 * WIDTH, max_position_embeddings=LENGTH)
    )


@pytest.mark.parametrize("make", [gpt2, bert, llama])
def test_transformers(make):
    def loss_of(model, x, mask):
        return model(input_ids=x, attention_mask=mask, labels=x).loss

    mask = torch.ones(2, LENGTH, dtype=torch.int64)
    mask[1, LENGTH - 3 :] = 0
    compare(make, loss_of, words(), mask)


def picture_loss(model, x, labels):
    return F.cross_entropy(model(x), labels)


def pictures(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    return torch.rand(2, 3, size, size, generator=generator), torch.tensor([1, 3])


def resnet18():
    from torchvision.models import resnet18

    return resnet18(num_classes=5)


def test_resnet18():
    compare(resnet18, picture_loss, *pictures(40))


class UNet(nn.Module):
    """One floor down and up again, with the way around it."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.below = self.floor(3, 8), self.floor(8, 16)
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.right, self.head = self.floor(16, 8), nn.Conv2d(8, 5, 1)

    @staticmethod
    def floor(inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1), nn.GroupNorm(2, outputs), nn.SiLU(),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left = self.left(x)
        up = self.up(self.below(F.max_pool2d(left, 2)))
        return self.head(self.right(torch.cat([left, up], 1)))


def test_unet():
    x, _ = pictures(16)
    compare(UNet, picture_loss, x, (x.sum(1) * 1.6).long())


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("make", [Decoder, UNet])
def test_autocast(make, half):
    """Learns in halves, on the card alone, much as the CPU does in f32."""
    x, _ = pictures(16)
    inputs = (x, (x.sum(1) * 1.6).long()) if make is UNet else (words(),)

    def loss_of(model, x, labels=None):
        if labels is not None:
            return picture_loss(model, x, labels)
        return F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())

    def in_half(model):
        with torch.autocast("openreg", dtype=half):
            return loss_of(model, *card)

    model, card = made_on_card(make), to_card(inputs)
    want = losses(copy.deepcopy(model).cpu(), lambda model: loss_of(model, *inputs))
    with no_fallback():
        got = losses(model, in_half)
    torch.testing.assert_close(got, want, rtol=0.03, atol=0.01)


def test_adamw():
    """Without a bias whose gradient is nothing but rounding."""
    x, labels = torch.rand(6, 8, generator=torch.Generator().manual_seed(3)), torch.arange(6) % 4

    def train(device):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).to(device)
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
        out = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            out.append(loss.item())
        return out

    want = train("cpu")
    with no_fallback():
        got = train("openreg")
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
