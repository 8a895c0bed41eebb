"""U-Net (Ronneberger et al., 2015), and the one of diffusion models (Ho et al., 2020)."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.exports.attention import SelfAttention
from tests.exports.case import IMAGE_AXES, Arguments, Case, image


def double(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        *(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)),
        *(nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)),
    )


class UNet(nn.Module):
    """`bilinear` resizes on the way up, otherwise a transposed convolution does; what is too small is padded."""

    def __init__(self, bilinear: bool) -> None:
        super().__init__()
        self.bilinear = bilinear
        widths = [8, 16, 32]
        self.first = double(3, 8)
        self.down = nn.ModuleList(double(a, b) for a, b in pairwise(widths))
        self.larger = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairwise(widths))
        self.up = nn.ModuleList(double(a + (b if bilinear else a), a) for a, b in pairwise(widths))
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, image: Tensor) -> Tensor:
        levels = [self.first(image)]
        for layer in self.down:
            levels.append(layer(functional.max_pool2d(levels[-1], 2)))
        x = levels[-1]
        for level, larger, up in reversed(list(zip(levels[:-1], self.larger, self.up))):
            if self.bilinear:
                x = functional.interpolate(x, size=level.shape[-2:], mode="bilinear", align_corners=True)
            else:
                x = larger(x)
                rows, columns = level.shape[2] - x.shape[2], level.shape[3] - x.shape[3]
                x = functional.pad(x, [columns // 2, columns - columns // 2, rows // 2, rows - rows // 2])
            x = up(torch.cat([level, x], dim=1))
        return self.head(x)


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(4, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1))
        self.time = nn.Linear(32, outputs)
        self.second = nn.Sequential(nn.GroupNorm(4, outputs), nn.SiLU(), nn.Conv2d(outputs, outputs, 3, padding=1))
        self.shortcut = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        y = self.first(x) + self.time(functional.silu(time))[:, :, None, None]
        return self.shortcut(x) + self.second(y)


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(4, width)
        self.attention = SelfAttention(width, 4)

    def forward(self, x: Tensor) -> Tensor:
        batch, width, rows, columns = x.shape
        tokens = self.norm(x).reshape(batch, width, rows * columns).transpose(1, 2)
        return x + self.attention(tokens).transpose(1, 2).reshape(batch, width, rows, columns)


class Denoiser(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 32))
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.down = nn.ModuleList([Residual(16, 16), Residual(16, 32)])
        self.smaller = nn.ModuleList([nn.Conv2d(width, width, 3, 2, 1) for width in (16, 32)])
        self.middle = nn.ModuleList([Residual(32, 32), Attention(32), Residual(32, 32)])
        self.up = nn.ModuleList([Residual(64, 16), Residual(32, 16)])
        self.last = nn.Sequential(nn.GroupNorm(4, 16), nn.SiLU(), nn.Conv2d(16, 3, 3, padding=1))

    def forward(self, image: Tensor, step: Tensor) -> Tensor:
        frequencies = torch.exp(torch.arange(8, dtype=torch.float32) * (-math.log(10000.0) / 8))
        angles = step.float()[:, None] * frequencies
        time = self.time(torch.cat([angles.sin(), angles.cos()], dim=-1))
        x = self.first(image)
        levels = []
        for residual, smaller in zip(self.down, self.smaller):
            x = residual(x, time)
            levels.append(x)
            x = smaller(x)
        x = self.middle[2](self.middle[1](self.middle[0](x, time)), time)
        for residual in self.up:
            x = functional.interpolate(x, scale_factor=2.0, mode="nearest")
            x = residual(torch.cat([x, levels.pop()], dim=1), time)
        return self.last(x)


def unet() -> Case:
    return Case(UNet(bilinear=False), image, IMAGE_AXES, ((2, 32), (1, 45)))


def unet_bilinear() -> Case:
    return Case(UNet(bilinear=True), image, IMAGE_AXES, ((2, 32), (1, 45)))


def denoiser() -> Case:
    def arguments(batch: int, size: int) -> Arguments:
        return image(batch, size) | {"step": torch.randint(0, 1000, (batch,))}

    return Case(Denoiser(), arguments, IMAGE_AXES | {"step": {0: "batch"}}, ((2, 32), (1, 48)))
