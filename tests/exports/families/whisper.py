"""Whisper (Radford et al., 2022): an encoder of spectrograms and a decoder that attends to what it made."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.exports.case import Arguments, Case

WIDTH, HEADS, MELS, WORDS = 32, 4, 20, 50


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.value, self.output = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.key = nn.Linear(WIDTH, WIDTH, bias=False)

    def heads(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], x.shape[1], HEADS, -1).permute(0, 2, 1, 3)

    def forward(self, x: Tensor, memory: Tensor, causal: bool = False) -> Tensor:
        q, k, v = self.heads(self.query(x)), self.heads(self.key(memory)), self.heads(self.value(memory))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return self.output(y.permute(0, 2, 1, 3).flatten(2))


class Block(nn.Module):
    def __init__(self, crossed: bool) -> None:
        super().__init__()
        self.attention, self.crossed = Attention(), Attention() if crossed else None
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))
        self.layers = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        y = self.norms[0](x)
        x = x + self.attention(y, y, causal=self.crossed is not None)
        if self.crossed is not None:
            x = x + self.crossed(self.norms[1](x), memory)
        return x + self.layers(self.norms[2](x))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(MELS, WIDTH, 3, padding=1), nn.Conv1d(WIDTH, WIDTH, 3, 2, 1)
        scale = torch.exp(-torch.arange(WIDTH // 2) * 0.5)
        angles = torch.arange(100)[:, None] * scale
        self.register_buffer("places", torch.cat([angles.sin(), angles.cos()], dim=1))
        self.blocks = nn.ModuleList(Block(crossed=False) for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, mel: Tensor) -> Tensor:
        x = functional.gelu(self.second(functional.gelu(self.first(mel)))).permute(0, 2, 1)
        x = x + self.places[: x.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Parameter(torch.randn(64, WIDTH))
        self.blocks = nn.ModuleList(Block(crossed=True) for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, tokens: Tensor, memory: Tensor) -> Tensor:
        x = self.words(tokens) + self.places[: tokens.shape[-1]]
        for block in self.blocks:
            x = block(x, memory)
        return self.norm(x) @ self.words.weight.T


def encoder() -> Case:
    def arguments(batch: int, frames: int) -> Arguments:
        return {"mel": torch.randn(batch, MELS, frames)}

    return Case(Encoder(), arguments, {"mel": {0: "batch", 2: "frames"}}, ((2, 40), (1, 75)))


def decoder() -> Case:
    def arguments(batch: int, length: int) -> Arguments:
        return {"tokens": torch.randint(0, WORDS, (batch, length)), "memory": torch.randn(batch, length + 10, WIDTH)}

    axes = {"tokens": {0: "batch", 1: "length"}, "memory": {0: "batch", 1: "frames"}}
    return Case(Decoder(), arguments, axes, ((2, 6), (3, 15)))
