"""ViT (Dosovitskiy et al., 2020) and Swin (Liu et al., 2021)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.exports.attention import Layer
from tests.exports.case import IMAGE_AXES, Case, image


class ViT(nn.Module):
    """Positions are learnt for 4 by 4 patches, and resized for any other number of them."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 8, 8)
        self.first = nn.Parameter(torch.randn(1, 1, 32))
        self.positions = nn.Parameter(torch.randn(1, 32, 4, 4))
        self.layers = nn.Sequential(Layer(32, 4, nn.GELU()), Layer(32, 4, nn.GELU()), nn.LayerNorm(32))
        self.head = nn.Linear(32, 10)

    def forward(self, image: Tensor) -> Tensor:
        x = self.patches(image)
        x = x + functional.interpolate(self.positions, x.shape[-2:], mode="bicubic", align_corners=False)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x.flatten(2).transpose(1, 2)], dim=1)
        return self.head(self.layers(x)[:, 0])


WINDOW = 4


class WindowAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.projections = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.biases = nn.Parameter(torch.randn((2 * WINDOW - 1) ** 2, heads))
        places = torch.stack(torch.meshgrid(torch.arange(WINDOW), torch.arange(WINDOW), indexing="ij")).flatten(1)
        apart = places[:, :, None] - places[:, None, :] + WINDOW - 1
        self.register_buffer("index", (apart[0] * (2 * WINDOW - 1) + apart[1]).flatten())

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.projections(x).reshape(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = (q * (width // self.heads) ** -0.5) @ k.transpose(-2, -1)
        scores = scores + self.biases[self.index].reshape(length, length, -1).permute(2, 0, 1)
        if mask is not None:
            windows = mask.shape[0]
            scores = scores.reshape(-1, windows, self.heads, length, length) + mask[None, :, None]
            scores = scores.reshape(-1, self.heads, length, length)
        return self.output((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width))


class SwinBlock(nn.Module):
    def __init__(self, width: int, heads: int, shift: int) -> None:
        super().__init__()
        self.shift = shift
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.attention = WindowAttention(width, heads)
        self.layers = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def windows(self, x: Tensor) -> Tensor:
        batch, rows, columns, width = x.shape
        x = x.reshape(batch, rows // WINDOW, WINDOW, columns // WINDOW, WINDOW, width)
        return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, WINDOW * WINDOW, width)

    def mask(self, rows: int, columns: int) -> Tensor:
        areas = torch.zeros(1, rows, columns, 1)
        for number, down in enumerate((slice(-WINDOW), slice(-WINDOW, -self.shift), slice(-self.shift, None))):
            for other, right in enumerate((slice(-WINDOW), slice(-WINDOW, -self.shift), slice(-self.shift, None))):
                areas[:, down, right] = 3.0 * number + other
        areas = self.windows(areas)[:, :, 0]
        return torch.where(areas[:, None, :] != areas[:, :, None], -100.0, 0.0)

    def forward(self, x: Tensor) -> Tensor:
        batch, rows, columns, width = x.shape
        y = functional.pad(self.norms[0](x), (0, 0, 0, -columns % WINDOW, 0, -rows % WINDOW))
        tall, wide = y.shape[1], y.shape[2]
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), (1, 2))
        y = self.attention(self.windows(y), self.mask(tall, wide) if self.shift else None)
        y = y.reshape(batch, tall // WINDOW, wide // WINDOW, WINDOW, WINDOW, width).permute(0, 1, 3, 2, 4, 5)
        y = y.reshape(batch, tall, wide, width)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), (1, 2))
        x = x + y[:, :rows, :columns]
        return x + self.layers(self.norms[1](x))


class Merge(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4 * width)
        self.layer = nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.pad(x, (0, 0, 0, x.shape[2] % 2, 0, x.shape[1] % 2))
        parts = [x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]]
        return self.layer(self.norm(torch.cat(parts, -1)))


class Swin(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 24, 4, 4)
        self.blocks = nn.Sequential(
            *(SwinBlock(24, 2, 0), SwinBlock(24, 2, 2), Merge(24), SwinBlock(48, 4, 0), SwinBlock(48, 4, 2))
        )
        self.norm = nn.LayerNorm(48)
        self.head = nn.Linear(48, 10)

    def forward(self, image: Tensor) -> Tensor:
        x = self.blocks(self.patches(image).permute(0, 2, 3, 1))
        return self.head(self.norm(x).mean((1, 2)))


def vit() -> Case:
    return Case(ViT(), image, IMAGE_AXES, ((2, 64), (1, 40)))


def swin() -> Case:
    return Case(Swin(), image, IMAGE_AXES, ((2, 64), (1, 44)))
