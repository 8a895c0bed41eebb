"""Mixing other than attention: Fourier transforms (FNet, Lee-Thorp et al., 2021); and a pair of towers (CLIP, 2021)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.exports.attention import Layer
from tests.exports.case import IMAGE_AXES, Arguments, Case, image


class FNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(40, 24)
        self.norms = nn.ModuleList(nn.LayerNorm(24) for _ in range(4))
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(24, 48), nn.Mish(), nn.Linear(48, 24)) for _ in range(2))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens)
        for number, layer in enumerate(self.layers):
            mixed = torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2)
            x = self.norms[2 * number](x + torch.view_as_real(mixed)[..., 0])
            x = self.norms[2 * number + 1](x + layer(x))
        return x


class QuickGELU(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(1.702 * x)


class CLIP(nn.Module):
    """How well each text fits each image; a text is the state of its last token, the one with the largest number."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(60, 32), nn.Parameter(torch.randn(32, 32))
        self.text = nn.ModuleList(Layer(32, 4, QuickGELU()) for _ in range(2))
        self.image = nn.Sequential(nn.Conv2d(3, 32, 8, 8), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.projection = nn.Parameter(torch.randn(32, 16))
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, image: Tensor, tokens: Tensor) -> Tensor:
        x = self.words(tokens) + self.places[: tokens.shape[1]]
        mask = torch.full((tokens.shape[1], tokens.shape[1]), float("-inf")).triu(1)
        for layer in self.text:
            x = layer(x, mask)
        x = x[torch.arange(tokens.shape[0]), tokens.argmax(-1)]
        texts = functional.normalize(x @ self.projection, dim=-1)
        images = functional.normalize(self.image(image) @ self.projection, dim=-1)
        return torch.einsum("id,td->it", images, texts) * self.scale.exp()


def fnet() -> Case:
    def arguments(batch: int, length: int) -> Arguments:
        return {"tokens": torch.randint(0, 40, (batch, length))}

    return Case(FNet(), arguments, {"tokens": {0: "batch", 1: "length"}}, ((2, 8), (1, 15)))


def clip() -> Case:
    def arguments(batch: int, length: int) -> Arguments:
        return image(batch, 32) | {"tokens": torch.randint(0, 60, (batch + 1, length))}

    axes = IMAGE_AXES | {"tokens": {0: "texts", 1: "length"}}
    return Case(CLIP(), arguments, axes, ((2, 7), (3, 16)))
