"""WaveNet (van den Oord et al., 2016), and a model that begins with a spectrogram."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.exports.case import Arguments, Case


class WaveNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, 16, 1)
        self.dilations = [1, 2, 4, 8, 1, 2, 4, 8]
        self.gates = nn.ModuleList(nn.Conv1d(16, 32, 2, dilation=dilation) for dilation in self.dilations)
        self.residuals, self.skips = (
            nn.ModuleList(nn.Conv1d(16, width, 1) for _ in self.dilations) for width in (16, 24)
        )
        self.head = nn.Sequential(nn.ReLU(), nn.Conv1d(24, 24, 1), nn.ReLU(), nn.Conv1d(24, 20, 1))

    def forward(self, wave: Tensor) -> Tensor:
        x = self.first(wave[:, None])
        total = torch.zeros(())
        for dilation, gate, residual, skip in zip(self.dilations, self.gates, self.residuals, self.skips):
            tanh, sigmoid = gate(functional.pad(x, (dilation, 0))).chunk(2, dim=1)
            y = torch.tanh(tanh) * torch.sigmoid(sigmoid)
            x = x + residual(y)
            total = total + skip(y)
        return self.head(total)


class Spectrum(nn.Module):
    """A short-time Fourier transform, mel bands, and a layer; the bands' logarithms are normalised over time."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(32))
        self.register_buffer("bands", torch.rand(17, 10))
        self.layer = nn.Conv1d(10, 12, 5, padding=2)

    def forward(self, wave: Tensor) -> Tensor:
        spectrum = torch.stft(wave, 32, 16, window=self.window, return_complex=False)
        power = spectrum.pow(2).sum(-1)
        mel = torch.log(torch.clamp(power.transpose(1, 2) @ self.bands, min=1e-5))
        mel = (mel - mel.mean(1, keepdim=True)) / (mel.std(1, keepdim=True) + 1e-3)
        return functional.glu(self.layer(mel.transpose(1, 2)), dim=1)


def arguments(batch: int, length: int) -> Arguments:
    return {"wave": torch.randn(batch, length)}


AXES = {"wave": {0: "batch", 1: "length"}}


def wavenet() -> Case:
    return Case(WaveNet(), arguments, AXES, ((2, 40), (1, 67)))


def spectrum() -> Case:
    return Case(Spectrum(), arguments, AXES, ((2, 160), (1, 301)))
