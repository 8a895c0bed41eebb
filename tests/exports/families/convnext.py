"""ConvNeXt (Liu et al., 2022): layer normalization over channels, first and last."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.exports.case import IMAGE_AXES, Case, image


class ChannelsFirst(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.layers = nn.Sequential(
            nn.LayerNorm(width, eps=1e-6), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.scale = nn.Parameter(torch.full((width, 1, 1), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        y = self.depthwise(x).permute(0, 2, 3, 1)
        return x + self.scale * self.layers(y).permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Conv2d(3, 24, 4, 4), ChannelsFirst(24, eps=1e-6), Block(24), Block(24)),
            *(ChannelsFirst(24, eps=1e-6), nn.Conv2d(24, 48, 2, 2), Block(48), Block(48)),
        )
        self.norm = nn.LayerNorm(48, eps=1e-6)
        self.head = nn.Linear(48, 10)

    def forward(self, image: Tensor) -> Tensor:
        return self.head(self.norm(self.layers(image).mean([-2, -1])))


def convnext() -> Case:
    return Case(ConvNeXt(), image, IMAGE_AXES, ((2, 64), (1, 88)))
