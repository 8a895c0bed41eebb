"""GPT-2 (Radford et al., 2019) with the keys and values of what came before."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.exports.case import Arguments, Case

WIDTH, HEADS, LAYERS, WORDS = 32, 4, 2, 60


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.projections = nn.Linear(WIDTH, 3 * WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)
        self.inner, self.outer = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        batch, length, _ = x.shape
        parts = self.projections(self.norms[0](x)).split(WIDTH, dim=2)
        q, k, v = (part.view(batch, length, HEADS, -1).transpose(1, 2) for part in parts)
        present = torch.stack([torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)])
        total = present.shape[3]
        visible = torch.ones(total, total, dtype=torch.bool).tril()[total - length :]
        scores = q @ present[0].transpose(-1, -2) / (WIDTH // HEADS) ** 0.5
        scores = torch.where(visible, scores, torch.finfo(x.dtype).min)
        y = scores.softmax(-1) @ present[1]
        x = x + self.output(y.transpose(1, 2).reshape(batch, length, WIDTH))
        y = nn.functional.gelu(self.inner(self.norms[1](x)), approximate="tanh")
        return x + self.outer(y), present


class GPT2(nn.Module):
    """Returns the scores of the next word, and for each layer the keys and values (2, batch, heads, total, width)."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(64, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, input_ids: Tensor, past: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        before = past[0].shape[3]
        x = self.words(input_ids) + self.places(torch.arange(before, before + input_ids.shape[1]))
        presents = []
        for block, known in zip(self.blocks, past):
            x, present = block(x, known)
            presents.append(present)
        return nn.functional.linear(self.norm(x), self.words.weight), presents


def arguments(batch: int, length: int, before: int = 5) -> Arguments:
    past = [torch.randn(2, batch, HEADS, before, WIDTH // HEADS) for _ in range(LAYERS)]
    return {"input_ids": torch.randint(0, WORDS, (batch, length)), "past": past}


def gpt2() -> Case:
    axes = {"input_ids": {0: "batch", 1: "length"}, "past": {1: "batch", 3: "before"}}
    return Case(GPT2(), arguments, axes, ((2, 4), (1, 9)))
