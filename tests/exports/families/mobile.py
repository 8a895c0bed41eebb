"""MobileNetV3 (Howard et al., 2019) and EfficientNet (Tan and Le, 2019): inverted residuals that squeeze and excite."""

from __future__ import annotations

from torch import Tensor, nn

from tests.exports.case import IMAGE_AXES, Case, image


class Excite(nn.Module):
    def __init__(self, width: int, inner: int, activation: nn.Module, gate: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, inner, 1), activation, nn.Conv2d(inner, width, 1), gate
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * self.layers(x)


class Inverted(nn.Module):
    def __init__(
        self, inputs: int, inner: int, outputs: int, kernel: int, stride: int, activation: type, excite: nn.Module
    ) -> None:
        super().__init__()
        self.residual = stride == 1 and inputs == outputs
        self.layers = nn.Sequential(
            *(nn.Conv2d(inputs, inner, 1, bias=False), nn.BatchNorm2d(inner), activation()),
            nn.Conv2d(inner, inner, kernel, stride, kernel // 2, groups=inner, bias=False),
            *(nn.BatchNorm2d(inner), activation(), excite),
            *(nn.Conv2d(inner, outputs, 1, bias=False), nn.BatchNorm2d(outputs)),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.residual else self.layers(x)


def mobilenet_v3() -> Case:
    rows = [(16, 16, 16, 3, 2, nn.ReLU), (16, 72, 24, 3, 2, nn.ReLU), (24, 88, 24, 3, 1, nn.ReLU)]
    rows += [(24, 96, 40, 5, 2, nn.Hardswish), (40, 240, 40, 5, 1, nn.Hardswish)]
    module = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16, eps=1e-3), nn.Hardswish()),
        *(Inverted(*row, Excite(row[1], row[1] // 4, nn.ReLU(), nn.Hardsigmoid())) for row in rows),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(40, 64), nn.Hardswish(), nn.Dropout(0.2)),
        nn.Linear(64, 10),
    )
    return Case(Named(module), image, IMAGE_AXES, ((2, 64), (1, 41)))


def efficientnet() -> Case:
    rows = [(32, 32, 16, 3, 1), (16, 96, 24, 3, 2), (24, 144, 24, 3, 1), (24, 144, 40, 5, 2), (40, 240, 40, 5, 1)]
    module = nn.Sequential(
        *(nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.SiLU()),
        *(Inverted(*row, nn.SiLU, Excite(row[1], row[0] // 4, nn.SiLU(), nn.Sigmoid())) for row in rows),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(1), nn.Linear(40, 10)),
    )
    return Case(Named(module), image, IMAGE_AXES, ((2, 64), (3, 50)))


class Named(nn.Module):
    """Layers whose input is called `image`."""

    def __init__(self, layers: nn.Module) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, image: Tensor) -> Tensor:
        return self.layers(image)
