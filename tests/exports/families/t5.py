"""T5 (Raffel et al., 2019): distances between words fall into buckets, whose biases are learnt."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from tests.exports.case import Arguments, Case

WIDTH, HEADS, WORDS, BUCKETS, FARTHEST = 32, 4, 50, 16, 40


class RMSNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(WIDTH) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def bucket(apart: Tensor, both: bool) -> Tensor:
    count, first = BUCKETS, torch.zeros_like(apart)
    if both:
        count //= 2
        first = (apart > 0).long() * count
        apart = apart.abs()
    else:
        apart = -torch.min(apart, torch.zeros_like(apart))
    exact = count // 2
    far = exact + (torch.log(apart.float() / exact) / math.log(FARTHEST / exact) * (count - exact)).long()
    far = torch.min(far, torch.full_like(far, count - 1))
    return first + torch.where(apart < exact, apart, far)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x: Tensor, memory: Tensor, bias: Tensor) -> Tensor:
        q = self.query(x).unflatten(-1, (HEADS, -1))
        k, v = (part(memory).unflatten(-1, (HEADS, -1)) for part in (self.key, self.value))
        weights = torch.softmax(torch.einsum("bqhd,bkhd->bhqk", q, k) + bias, dim=-1)
        return self.output(torch.einsum("bhqk,bkhd->bqhd", weights, v).flatten(2))


class Layer(nn.Module):
    def __init__(self, crossed: bool) -> None:
        super().__init__()
        self.attention, self.crossed = Attention(), Attention() if crossed else None
        self.norms = nn.ModuleList(RMSNorm() for _ in range(3))
        self.gate, self.inner = (nn.Linear(WIDTH, 64, bias=False) for _ in range(2))
        self.outer = nn.Linear(64, WIDTH, bias=False)

    def forward(self, x: Tensor, bias: Tensor, memory: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        y = self.norms[0](x)
        x = x + self.attention(y, y, bias)
        if self.crossed is not None:
            x = x + self.crossed(self.norms[1](x), memory, mask)
        y = self.norms[2](x)
        return x + self.outer(nn.functional.gelu(self.gate(y), approximate="tanh") * self.inner(y))


class Stack(nn.Module):
    def __init__(self, decoder: bool) -> None:
        super().__init__()
        self.decoder = decoder
        self.biases = nn.Embedding(BUCKETS, HEADS)
        self.layers = nn.ModuleList(Layer(decoder) for _ in range(2))
        self.norm = RMSNorm()

    def forward(self, x: Tensor, mask: Tensor, memory: Tensor | None = None) -> Tensor:
        places = torch.arange(x.shape[1])
        apart = places[None, :] - places[:, None]
        bias = self.biases(bucket(apart, not self.decoder)).permute(2, 0, 1)[None]
        bias = bias.masked_fill(apart > 0, float("-inf")) if self.decoder else bias + mask
        for layer in self.layers:
            x = layer(x, bias, memory, mask)
        return self.norm(x)


class T5(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.encoder, self.decoder = Stack(decoder=False), Stack(decoder=True)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, decoder_input_ids: Tensor) -> Tensor:
        mask = (1.0 - attention_mask.float())[:, None, None] * torch.finfo(torch.float32).min
        memory = self.encoder(self.words(input_ids), mask)
        return self.head(self.decoder(self.words(decoder_input_ids), mask, memory))


def t5() -> Case:
    def arguments(batch: int, length: int) -> Arguments:
        lengths = torch.randint(1, length + 1, (batch, 1))
        return {
            "input_ids": torch.randint(0, WORDS, (batch, length)),
            "attention_mask": (torch.arange(length)[None] < lengths).long(),
            "decoder_input_ids": torch.randint(0, WORDS, (batch, length // 2)),
        }

    axes = {name: {0: "batch", 1: "length"} for name in ("input_ids", "attention_mask")}
    axes["decoder_input_ids"] = {0: "batch", 1: "written"}
    return Case(T5(), arguments, axes, ((2, 14), (3, 60)))
