# SPDX-License-Identifier: BSD-3-Clause
"""torch.compile: a step of whole models has the loss and the gradients of eager mode."""

import models
import pytest
import torch
import torch.nn.functional as F
from compiled import assert_model_like_eager, fresh, ints, randn  # noqa: F401
from torch import nn

pytestmark = [
    pytest.mark.native,
    pytest.mark.usefixtures("fresh"),
    pytest.mark.filterwarnings("ignore:Torchinductor does not support:UserWarning"),
]

ACTIVATIONS = (
    nn.CELU, nn.ELU, nn.GELU, nn.GLU, nn.Hardshrink, nn.Hardsigmoid, nn.Hardswish, nn.Hardtanh,
    nn.LeakyReLU, nn.LogSigmoid, nn.Mish, nn.PReLU, nn.ReLU, nn.ReLU6, nn.SELU, nn.Sigmoid,
    nn.SiLU, nn.Softplus, nn.Softshrink, nn.Softsign, nn.Tanh, nn.Tanhshrink, nn.Softmax,
    nn.LogSoftmax, nn.Softmin,
)
NORMS = {
    "layer": (lambda: nn.LayerNorm(8), (4, 6, 8)),
    "rms": (lambda: nn.RMSNorm(8), (4, 6, 8)),
    "group": (lambda: nn.GroupNorm(2, 8), (4, 8, 5, 5)),
    "batch": (lambda: nn.BatchNorm2d(8), (4, 8, 5, 5)),
    "batch_of_rows": (lambda: nn.BatchNorm1d(8), (6, 8)),
    "instance": (lambda: nn.InstanceNorm2d(8, affine=True), (4, 8, 5, 5)),
    "local_response": (lambda: nn.LocalResponseNorm(3), (2, 8, 5, 5)),
}


def square(model, x):
    return (model(x) ** 2).mean()


LONG = {"resnet18", "unet", "bert"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long if name in LONG else ())
        for name in models.CASES
    ],
)
def test_models(name):
    case = models.CASES[name]()
    torch.manual_seed(0)
    assert_model_like_eager(case.make(), case.inputs, case.loss_of)


def test_the_linear_layer_with_every_activation():
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.inputs = nn.Linear(6, 8)
            self.layers = nn.ModuleList(
                nn.Linear(4 if kind is nn.GLU else 8, 8) for kind in ACTIVATIONS
            )
            softmax = (nn.Softmax, nn.LogSoftmax, nn.Softmin)
            self.activations = nn.ModuleList(
                kind(dim=-1) if kind in softmax else kind() for kind in ACTIVATIONS
            )

        def forward(self, x):
            x = self.inputs(x)
            for layer, activation in zip(self.layers, self.activations):
                x = layer(activation(x)) * 2
            return x

    torch.manual_seed(0)
    assert_model_like_eager(Network(), (randn(5, 6),), square)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", NORMS)
def test_norms(name, training):
    make, shape = NORMS[name]
    model = nn.Sequential(nn.Conv2d(8, 8, 1) if len(shape) == 4 else nn.Linear(8, 8), make())
    model.train(training)
    assert_model_like_eager(model, (randn(*shape),), square, tolerance=1e-4)


class Vision(nn.Module):
    """A vision transformer: patches, a class token, torch's encoder layers."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 4, 4)
        self.token = nn.Parameter(randn(1, 1, 16))
        self.places = nn.Parameter(randn(1, 17, 16, seed=1))
        layer = nn.TransformerEncoderLayer(
            16, 4, 32, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.encoder(x)[:, 0])


def vision_transformer():
    return Vision(), (randn(2, 3, 16, 16), ints(5, 2)), models.picture_loss


def torchvision_transformer():
    from torchvision.models import VisionTransformer

    model = VisionTransformer(16, 4, 2, 2, 16, 32, num_classes=5)
    nn.init.normal_(model.heads.head.weight)
    return model, (randn(2, 3, 16, 16), ints(5, 2)), models.picture_loss


def mobile_network():
    from torchvision.models import mobilenet_v3_small

    # Not training: its deepest layers see two points a channel, whose variance is noise.
    model = mobilenet_v3_small(num_classes=5).eval()
    return model, (randn(2, 3, 32, 32), ints(5, 2)), models.picture_loss


def autoencoder():
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, 2, 1), nn.LeakyReLU(), nn.Conv2d(4, 8, 3, 2, 1), nn.LeakyReLU(),
        nn.ConvTranspose2d(8, 4, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(4, 1, 4, 2, 1),
        nn.Sigmoid(),
    )
    x = randn(2, 1, 8, 8).sigmoid()
    return model, (x,), lambda m, x: F.binary_cross_entropy(m(x), x)


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(20, 4, mode="sum") for _ in range(3))
        self.bottom, self.top = nn.Linear(5, 4), nn.Linear(10, 1)

    def forward(self, x, places):
        parts = [self.bottom(x).relu()] + [t(p) for t, p in zip(self.tables, places)]
        z = torch.stack(parts, 1)
        pairs = (z @ z.transpose(1, 2))[:, *torch.triu_indices(4, 4, 1).unbind()]
        return self.top(torch.cat([parts[0], pairs], 1))


def recommender():
    def loss_of(model, x, places):
        return F.binary_cross_entropy_with_logits(model(x, places), torch.ones_like(x[:, :1]))

    return Recommender(), (randn(6, 5), ints(20, 3, 6, 2)), loss_of


MORE = (vision_transformer, autoencoder, recommender,
        pytest.param(torchvision_transformer, marks=pytest.mark.long),
        pytest.param(mobile_network, marks=pytest.mark.long))


@pytest.mark.parametrize("make", MORE)
def test_more_models(make):
    torch.manual_seed(0)
    model, inputs, loss_of = make()
    assert_model_like_eager(model, inputs, loss_of, tolerance=1e-4)
