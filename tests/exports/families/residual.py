"""ResNet (He et al., 2015): both kinds of block."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.exports.case import IMAGE_AXES, Case, image


def convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs))


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        width = outputs // 4 if bottleneck else outputs
        layers = [(inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1)]
        if not bottleneck:
            layers = [(inputs, width, 3, stride), (width, outputs, 3, 1)]
        self.layers = nn.ModuleList(convolution(*layer) for layer in layers)
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else convolution(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for layer in self.layers[:-1]:
            y = torch.relu(layer(y))
        return torch.relu(self.layers[-1](y) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, bottleneck: bool) -> None:
        super().__init__()
        self.stem = nn.Sequential(convolution(3, 16, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        widths = [(16, 32, 1), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 96, 2)]
        self.blocks = nn.Sequential(*(Block(*width, bottleneck) for width in widths))
        self.head = nn.Linear(96, 10)

    def forward(self, image: Tensor) -> Tensor:
        x = nn.functional.adaptive_avg_pool2d(self.blocks(self.stem(image)), (1, 1))
        return self.head(torch.flatten(x, 1))


def resnet18() -> Case:
    return Case(ResNet(bottleneck=False), image, IMAGE_AXES, ((2, 64), (3, 45)))


def resnet50() -> Case:
    return Case(ResNet(bottleneck=True), image, IMAGE_AXES, ((2, 64), (1, 96)))
