"""BERT (Devlin et al., 2018): attention that a mask of tokens limits."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.exports.case import Arguments, Case


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))
        self.norms = nn.ModuleList([nn.LayerNorm(width, eps=1e-12), nn.LayerNorm(width, eps=1e-12)])
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part(x).view(batch, length, self.heads, -1).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = self.norms[0](x + self.output(y.transpose(1, 2).reshape(batch, length, width)))
        return self.norms[1](x + self.layers(x))


class Bert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.kinds, self.places = nn.Embedding(100, 32), nn.Embedding(2, 32), nn.Embedding(64, 32)
        self.norm = nn.LayerNorm(32, eps=1e-12)
        self.layers = nn.ModuleList(Layer(32, 4) for _ in range(3))
        self.pooler = nn.Linear(32, 32)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> tuple[Tensor, Tensor]:
        places = torch.arange(input_ids.shape[1])[None]
        x = self.norm(self.words(input_ids) + self.places(places) + self.kinds(token_type_ids))
        mask = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        for layer in self.layers:
            x = layer(x, mask)
        return x, torch.tanh(self.pooler(x[:, 0]))


def bert() -> Case:
    def arguments(batch: int, length: int) -> Arguments:
        lengths = torch.randint(1, length + 1, (batch, 1))
        return {
            "input_ids": torch.randint(0, 100, (batch, length)),
            "attention_mask": (torch.arange(length)[None] < lengths).long(),
            "token_type_ids": torch.randint(0, 2, (batch, length)),
        }

    names = ["input_ids", "attention_mask", "token_type_ids"]
    return Case(Bert(), arguments, {name: {0: "batch", 1: "length"} for name in names}, ((2, 12), (3, 31)))
