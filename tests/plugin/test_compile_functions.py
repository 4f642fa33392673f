# SPDX-License-Identifier: BSD-3-Clause
"""torch.compile: functions have the results and the gradients of eager mode on the card."""

import pytest
import torch
import torch.nn.functional as F
from compiled import DEV, assert_like_eager, fresh, ints, on_card, randn  # noqa: F401
from marks import unchecked_among
from torch import nn

pytestmark = [pytest.mark.native, pytest.mark.usefixtures("fresh")]

HEADS = (randn(2, 4, 6, 8), randn(2, 4, 6, 8, seed=1), randn(2, 4, 6, 8, seed=2))
GROUPED = (HEADS[0], *(t[:, :2].contiguous() for t in HEADS[1:]))
MASK = randn(6, 6) > -1
ROWS, LABELS = randn(8, 5), ints(5, 8)
ONE, TWO = randn(8, 5, seed=1), randn(8, 5, seed=2)

ATTENTION = {
    "plain": (F.scaled_dot_product_attention, HEADS),
    "causal": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), HEADS),
    "mask": (lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), (*HEADS, MASK)),
    "bias": (
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m, scale=0.3),
        (*HEADS, randn(2, 1, 6, 6)),
    ),
    "grouped": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        GROUPED,
    ),
    "transposed": (
        lambda q, k, v: F.scaled_dot_product_attention(
            *(t.transpose(1, 2) for t in (q, k, v)), is_causal=True
        ).transpose(1, 2) * 2,
        tuple(t.transpose(1, 2).contiguous() for t in HEADS),
    ),
    "by_hand": (
        lambda q, k, v: (q @ k.transpose(-1, -2) / 8**0.5).tril().softmax(-1) @ v,
        HEADS,
    ),
    "by_hand_with_mask": (
        lambda q, k, v, m: (q @ k.mT / 8**0.5).masked_fill(~m, float("-inf")).softmax(-1) @ v,
        (*HEADS, MASK | torch.eye(6, dtype=torch.bool)),
    ),
}

LOSSES = {
    "l1": (F.l1_loss, (ROWS, ONE)),
    "mse": (F.mse_loss, (ROWS, ONE)),
    "smooth_l1": (F.smooth_l1_loss, (ROWS, ONE)),
    "huber": (F.huber_loss, (ROWS, ONE)),
    "cross_entropy": (F.cross_entropy, (ROWS, LABELS)),
    "cross_entropy_smooth": (
        lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1, ignore_index=2),
        (ROWS, LABELS),
    ),
    "cross_entropy_of_shares": (lambda x, y: F.cross_entropy(x, y.softmax(1)), (ROWS, ONE)),
    "cross_entropy_of_pixels": (F.cross_entropy, (randn(2, 5, 3, 4), ints(5, 2, 3, 4))),
    "nll": (lambda x, y: F.nll_loss(x.log_softmax(1), y, reduction="sum"), (ROWS, LABELS)),
    "kl_div": (
        lambda x, y: F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"),
        (ROWS, ONE),
    ),
    "binary": (lambda x, y: F.binary_cross_entropy(x.sigmoid(), y.sigmoid()), (ROWS, ONE)),
    "binary_with_logits": (
        lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid()),
        (ROWS, ONE),
    ),
    "poisson": (lambda x, y: F.poisson_nll_loss(x, y.abs()), (ROWS, ONE)),
    "gaussian": (lambda x, y, v: F.gaussian_nll_loss(x, y, v.abs() + 1), (ROWS, ONE, TWO)),
    "hinge_embedding": (lambda x, y: F.hinge_embedding_loss(x, y.sign()), (ROWS, ONE)),
    "margin_ranking": (
        lambda x, y, z: F.margin_ranking_loss(x, y, z.sign(), margin=0.5),
        (ROWS, ONE, TWO),
    ),
    "soft_margin": (lambda x, y: F.soft_margin_loss(x, y.detach().sign()), (ROWS, ONE)),
    "multi_margin": (F.multi_margin_loss, (ROWS, LABELS)),
    "multilabel_margin": (F.multilabel_margin_loss, (ROWS, ints(5, 8, 5, low=-1))),
    "multilabel_soft_margin": (
        lambda x, y: F.multilabel_soft_margin_loss(x, (y > 0).float()),
        (ROWS, ONE),
    ),
    "cosine_embedding": (
        lambda x, y, z: F.cosine_embedding_loss(x, y, z[:, 0].sign()),
        (ROWS, ONE, TWO),
    ),
    "triplet": (F.triplet_margin_loss, (ROWS, ONE, TWO)),
    "ctc": (
        lambda x, y: F.ctc_loss(x.log_softmax(2), y, (6, 5), (3, 2)),
        (randn(6, 2, 5), ints(5, 2, 3, low=1)),
    ),
}

TENSORS = {
    "embedding": (lambda w, i: F.embedding(i, w) * 2, (randn(9, 4), ints(9, 3, 5))),
    "embedding_padded": (
        lambda w, i: F.embedding(i, w, padding_idx=0).sin(),
        (randn(9, 4), ints(9, 3, 5)),
    ),
    "gather": (lambda x, i: x.gather(1, i).exp(), (ROWS, ints(5, 8, 2))),
    "index_select": (lambda x, i: x.index_select(0, i) + 1, (ROWS, ints(8, 3))),
    "index": (lambda x, i: x[i] * x[:, None, 0][i], (ROWS, ints(8, 3))),
    "index_put": (
        lambda x, i, y: (x + 1).index_put((i,), y, accumulate=True) * 2,
        (ROWS, ints(8, 3), randn(3, 5)),
    ),
    "scatter_add": (
        lambda x, i, y: (x * 2).scatter_add(1, i, y).relu(),
        (ROWS, ints(5, 8, 2), randn(8, 2)),
    ),
    "scatter": (lambda x, i: torch.zeros_like(x).scatter(1, i, x.sin()), (ROWS, ints(5, 8, 5))),
    "masked_fill": (lambda x: x.masked_fill(x > 0, -3.0).exp(), (ROWS,)),
    "cat": (lambda x, y: torch.cat([x * 2, y.exp(), x]).relu(), (ROWS, ONE)),
    "stack": (lambda x, y: torch.stack([x * 2, y.exp()], 1).sum(0), (ROWS, ONE)),
    "pad": (lambda x: F.pad(x.sin(), (1, 2, 0, 3), value=2.0) * x.sum(), (ROWS,)),
    "pad_modes": (
        lambda x: F.pad(x, (1, 2), "reflect").exp() + F.pad(x, (2, 1), "replicate")
        + F.pad(x, (0, 3), "circular"),
        (randn(2, 3, 6),),
    ),
    "cumsum": (lambda x: (x * 2).cumsum(1).sin(), (ROWS,)),
    "cumprod": (lambda x: (x + 2).cumprod(0), (ROWS,)),
    "logcumsumexp": (lambda x: (x * 2).logcumsumexp(1), (ROWS,)),
    "sort": (lambda x: (x * 2).sort(1, descending=True), (ROWS,)),
    "topk": (lambda x: (x * 2).topk(3, 1)[0].exp(), (ROWS,)),
    "where": (lambda x, y: torch.where(x > y, x.exp(), y * 2), (ROWS, ONE)),
    "clamp": (lambda x, y: x.clamp(-0.5, 0.5) + y.clamp(min=x.detach()), (ROWS, ONE)),
    "split": (lambda x: torch.cat([t * i for i, t in enumerate(x.split(3))]), (ROWS,)),
    "chunk": (lambda x: x.chunk(2, 1)[0].sigmoid() + x.chunk(2, 1)[1], (randn(4, 6),)),
    "unfold": (lambda x: x.unfold(1, 3, 1).sum(-1), (ROWS,)),
    "roll": (lambda x: (x * 2).roll(3, 1).roll((1, 2), (0, 1)) + x, (ROWS,)),
    "flip": (lambda x: (x * 2).flip(0, 1) + x, (ROWS,)),
    "repeat": (lambda x: x.repeat(2, 3) * x.repeat_interleave(2, 0).repeat(1, 3), (ROWS,)),
    "tile_and_expand": (lambda x: x.tile(1, 2) + x[:, :1].expand(-1, 10), (ROWS,)),
    "triangles": (lambda x: x.tril(1) + x.triu(-1) * 2, (randn(6, 6),)),
    "diagonal": (lambda x: x.diagonal() * 2 + torch.diag_embed(x.sum(1)).sum(0), (randn(6, 6),)),
    "einsum": (lambda x, y: torch.einsum("bi,bj->ij", x, y).tanh(), (ROWS, ONE)),
    "outer": (lambda x, y: torch.outer(x, y).relu() * 2, (randn(5), randn(6))),
    "bmm": (lambda x, y: torch.bmm(x * 2, y).sigmoid(), (randn(2, 3, 4), randn(2, 4, 5))),
    "addmm": (
        lambda c, x, y: torch.addmm(c, x, y, beta=0.5, alpha=2),
        (randn(5), ROWS, randn(5, 5)),
    ),
    "norms": (lambda x: x.norm() + x.norm(dim=1).sum() + x.norm(p=1), (ROWS,)),
    "statistics": (lambda x: x.std(1) + x.var(1, unbiased=False) + x.mean(1), (ROWS,)),
    "amax": (lambda x: x.amax(1) - x.amin(0).sum() + x.max(), (ROWS,)),
    "products": (lambda x: x.prod(1) + x.prod(), (ROWS,)),
    "logsumexp": (lambda x: (x * 2).logsumexp(1), (ROWS,)),
    "softmax_of_two": (lambda x: (x * 2).softmax(0) + x.log_softmax(1), (ROWS,)),
    "any_all": (lambda x: ((x > 2).any(1), (x < 2).all(0)), (ROWS,)),
    "arg": (lambda x: (x.argmax(1), (x * 2).argmin(0), x.argmax()), (ROWS,)),
    "median": (lambda x: (x * 2).median(1), (ROWS,)),
    "bucketize": (
        lambda x: torch.bucketize(x * 2, torch.tensor([-1.0, 0, 1], device=x.device)),
        (ROWS,),
    ),
    "one_hot": (lambda i: F.one_hot(i, 5).float() * 2, (LABELS,)),
    "arange_eye": (
        lambda x: x @ torch.eye(5, device=x.device) + torch.arange(5.0, device=x.device),
        (ROWS,),
    ),
    "linspace": (lambda x: x * torch.linspace(0, 1, 5, device=x.device), (ROWS,)),
    "meshgrid": (lambda x: sum(torch.meshgrid(x, x * 2, indexing="ij")), (randn(4),)),
    "cdist": (lambda x, y: torch.cdist(x, y).exp(), (ROWS, ONE)),
    "cosine": (F.cosine_similarity, (ROWS, ONE)),
    "normalize": (F.normalize, (ROWS,)),
    "lerp": (
        lambda x, y: torch.lerp(x, y, 0.3) + torch.addcmul(x, x, y) + torch.addcdiv(x, y, x.exp()),
        (ROWS, ONE),
    ),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x * 2, 2).sin(), (randn(2, 8, 3, 3),)),
    "max_pool": (lambda x: F.max_pool2d(x.relu(), 3, 2, 1), (randn(2, 3, 8, 8),)),
    "avg_pool": (lambda x: F.avg_pool2d(x.relu(), 3, 2, 1), (randn(2, 3, 8, 8),)),
    "adaptive_pool": (lambda x: F.adaptive_avg_pool2d(x.relu(), (3, 2)), (randn(2, 3, 8, 8),)),
    "bilinear": (
        lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear") * 2,
        (randn(2, 3, 4, 4),),
    ),
    "nearest": (lambda x: F.interpolate(x.sin(), (7, 5)), (randn(2, 3, 4, 4),)),
    "grid_sample": (
        lambda x, g: F.grid_sample(x, g.tanh(), align_corners=False),
        (randn(2, 3, 4, 4), randn(2, 5, 5, 2)),
    ),
    "convolutions": (
        lambda x, w, v: F.conv2d(F.conv1d(x, w, padding=1)[:, :, None], v).relu(),
        (randn(2, 3, 8), randn(4, 3, 3), randn(2, 4, 1, 3)),
    ),
    "special": (
        lambda x: x.sigmoid() + x.erf() + torch.lgamma(x.abs() + 1) + torch.digamma(x.abs() + 1),
        (ROWS,),
    ),
    "trigonometry": (
        lambda x: x.atan2(x.cos()) + x.sinh() + (x / 9).asin() + x.hypot(x + 1),
        (ROWS,),
    ),
    "remainders": (lambda x: x % 0.7 + torch.fmod(x, 0.3) + x.detach() // 0.4, (ROWS,)),
    "integers": (lambda i: (i // 3, i % 3, i << 2, i ^ 5, i.float().sqrt(), ~i), (ints(99, 40),)),
    "doubles": (lambda x: (x.exp() / 3).sum(0), (randn(8, 5, dtype=torch.float64),)),
    "complex": (lambda x: torch.view_as_real(torch.polar(x.abs(), x) * 2j).sum(-1), (ROWS,)),
    "casts": (lambda x: x.half().float() + x.long() + x.bool() + x.bfloat16() * 2, (ROWS,)),
    "dropout": (
        lambda x: F.dropout(x * 2, 0.4) + F.dropout2d(x[None, :, :, None], 0.5)[0, :, :, 0],
        (ROWS,),
    ),
    "random": (
        lambda x: x * torch.rand_like(x) + torch.randn(5, device=x.device) + x.sigmoid().bernoulli(),
        (ROWS,),
    ),
}

ALL = {f"{kind}_{name}": case
       for kind, table in (("attention", ATTENTION), ("loss", LOSSES), ("", TENSORS))
       for name, case in table.items()}


@pytest.mark.filterwarnings("ignore:Torchinductor does not support:UserWarning")
# torch's circular padding copies all of torch.empty() before it writes the rest.
@pytest.mark.parametrize("name", unchecked_among(ALL, {"_pad_modes"}))
def test_functions(name):
    function, args = ALL[name]
    assert_like_eager(function, args)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses_with_each_reduction(reduction):
    names = ("l1_loss", "mse_loss", "smooth_l1_loss", "huber_loss")

    def function(x, y):
        return [getattr(F, name)(x, y, reduction=reduction) for name in names]

    assert_like_eager(function, (ROWS, ONE))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves(dtype):
    """With the option, programs round after each operator, as eager mode does."""
    args = randn(8, 5, dtype=dtype), randn(5, dtype=dtype, seed=1)
    assert_like_eager(
        lambda x, y: ((x * y + x).sigmoid() * y).sum(1), args,
        options={"emulate_precision_casts": True},
    )


def test_a_step_of_lstm_cells():
    cell = nn.LSTMCell(5, 4).to(DEV)

    def function(x):
        state = (torch.zeros(8, 4, device=x.device), torch.zeros(8, 4, device=x.device))
        for _ in range(3):
            state = cell(x, state)
        return state

    assert_like_eager(function, (ROWS,))


MUTATIONS = {
    "add": lambda x, y: x.add_(y).mul_(2) + 1,
    "of_a_row": lambda x, y: x[1].mul_(3) + y[0],
    "of_a_column": lambda x, y: x[:, ::2].copy_(y[:, ::2] * 2).sum() + x,
    "transposed": lambda x, y: x.t().add_(1) * y.t(),
    "by_index": lambda x, y: x.__setitem__(slice(1, 3), y[1:3]) or x * 2,
    "by_mask": lambda x, y: x.__setitem__(y > 0, 0.0) or x * 2,
    "fill": lambda x, y: x.fill_(2) + y.zero_(),
    "relu": lambda x, y: F.relu(x, inplace=True) + y.sigmoid_(),
    "both_ways": lambda x, y: (x.copy_(y * 2), y.copy_(x + 1)),
    "result_is_input": lambda x, y: (x.add_(y), x, y.view(-1)),
    "masked_fill": lambda x, y: x.masked_fill_(y > 0, 1.5).t(),
    "index_add": lambda x, y: x.index_add_(0, torch.tensor([1, 1], device=x.device), y[:2]),
    "twice": lambda x, y: [x.add_(y).mul_(x).sub_(y) for _ in range(3)][-1] * 2,
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_changes_of_arguments(name):
    assert_like_eager(MUTATIONS[name], (ROWS, ONE), grad=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool])
def test_numbers_on_the_cpu(dtype):

    def function(x, s):
        return (s * x + 1).sum(0) + torch.fmax(s, x).sum(0) + x * s

    compiled = torch.compile(function)
    for value in (0, 1, 3):
        s = torch.tensor(value).to(dtype)
        (x,) = on_card((ROWS,), grad=False)
        torch.testing.assert_close(compiled(x, s), function(x, s))
