"""What makes images: a VQ-VAE (van den Oord et al., 2017), and super-resolution by sub-pixels (Shi et al., 2016)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.exports.case import IMAGE_AXES, Case, image


class VQVAE(nn.Module):
    """Returns the image as it comes back and the codes in between."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            *(nn.Conv2d(3, 16, 4, 2, 1), nn.InstanceNorm2d(16, affine=True), nn.ELU()),
            *(nn.Conv2d(16, 8, 3, 2, 1, padding_mode="reflect"), nn.Tanh()),
        )
        self.codes = nn.Embedding(32, 8)
        self.decoder = nn.Sequential(
            *(nn.ConvTranspose2d(8, 16, 3, 2, 1, output_padding=1), nn.PReLU(16)),
            *(nn.ConvTranspose2d(16, 3, 4, 2, 1, groups=1), nn.Sigmoid()),
        )

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        x = self.encoder(image).permute(0, 2, 3, 1)
        codes = torch.cdist(x.flatten(0, 2), self.codes.weight).argmin(-1).view(x.shape[:-1])
        return self.decoder(self.codes(codes).permute(0, 3, 1, 2)), codes


class SuperResolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 5, padding=2, padding_mode="replicate")
        self.second = nn.utils.parametrizations.weight_norm(nn.Conv2d(16, 16, 3, padding=1))
        self.last = nn.Conv2d(16, 3 * 9, 3, padding=1)
        self.shuffle = nn.PixelShuffle(3)

    def forward(self, image: Tensor) -> Tensor:
        x = functional.leaky_relu(self.first(image), 0.2)
        x = functional.softplus(self.second(x) + x)
        return self.shuffle(self.last(x)) + functional.interpolate(image, scale_factor=3.0, mode="bicubic")


def vqvae() -> Case:
    return Case(VQVAE(), image, IMAGE_AXES, ((2, 32), (1, 48)))


def super_resolution() -> Case:
    return Case(SuperResolution(), image, IMAGE_AXES, ((2, 16), (1, 23)))
