"""Llama (Touvron et al., 2023) with rotary positions and shared keys, and a mixture of experts (Jiang et al., 2024)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.exports.case import Arguments, Case

WIDTH, HEADS, GROUPS, SIZE, WORDS = 32, 4, 2, 8, 50


class RMSNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(WIDTH) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x[..., : SIZE // 2], x[..., SIZE // 2 :]
    return x * cos + torch.cat([-second, first], dim=-1) * sin


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.output = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.key, self.value = (nn.Linear(WIDTH, GROUPS * SIZE, bias=False) for _ in range(2))

    def forward(self, x: Tensor, angles: tuple[Tensor, Tensor], mask: Tensor, past: list[Tensor]) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = (part(x).view(batch, length, -1, SIZE).transpose(1, 2) for part in (self.query, self.key, self.value))
        k, v = torch.cat([past[0], rotated(k, *angles)], dim=2), torch.cat([past[1], v], dim=2)
        past[:] = [k, v]
        k, v = (
            x[:, :, None].expand(-1, -1, HEADS // GROUPS, -1, -1).reshape(batch, HEADS, x.shape[2], SIZE)
            for x in (k, v)
        )
        y = functional.scaled_dot_product_attention(rotated(q, *angles), k, v, attn_mask=mask)
        return self.output(y.transpose(1, 2).reshape(batch, length, WIDTH))


class Dense(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.inner = (nn.Linear(WIDTH, 48, bias=False) for _ in range(2))
        self.outer = nn.Linear(48, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(functional.silu(self.gate(x)) * self.inner(x))


class Mixture(nn.Module):
    """The two best of four experts, each given only the words that chose it."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, 4, bias=False)
        self.experts = nn.ModuleList(Dense() for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        words = x.reshape(-1, WIDTH)
        weights, chosen = torch.topk(self.router(words).softmax(-1), 2, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        total = torch.zeros_like(words)
        for number, expert in enumerate(self.experts):
            places, which = torch.where(chosen == number)
            total = total.index_add(0, places, expert(words[places]) * weights[places, which, None])
        return total.reshape(x.shape)


class Llama(nn.Module):
    def __init__(self, layer: type[nn.Module]) -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(WORDS, WIDTH), RMSNorm()
        self.attentions, self.layers = (nn.ModuleList(kind() for _ in range(2)) for kind in (Attention, layer))
        self.norms = nn.ModuleList(RMSNorm() for _ in range(4))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.register_buffer("frequencies", 1.0 / 10000 ** (torch.arange(0, SIZE, 2) / SIZE))

    def forward(self, input_ids: Tensor, attention_mask: Tensor, past: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """`attention_mask` (batch, total) is 0 for padding, which comes first; `past` has keys and values by turns."""
        length, total = input_ids.shape[1], attention_mask.shape[1]
        places = (attention_mask.cumsum(-1) - 1).masked_fill(attention_mask == 0, 1)[:, -length:]
        angles = (places[:, None, :, None].float() * self.frequencies).repeat(1, 1, 1, 2)
        ahead = torch.arange(total)[None, :] > torch.arange(total - length, total)[:, None]
        hidden = ahead[None, None] | (attention_mask[:, None, None, :] == 0)
        mask = torch.zeros(()).masked_fill(hidden, torch.finfo(torch.float32).min)
        x = self.words(input_ids)
        presents: list[Tensor] = []
        for number, (attention, layer) in enumerate(zip(self.attentions, self.layers)):
            known = list(past[2 * number : 2 * number + 2])
            x = x + attention(self.norms[2 * number](x), (angles.cos(), angles.sin()), mask, known)
            x = x + layer(self.norms[2 * number + 1](x))
            presents += known
        return self.head(self.norm(x)), presents


def arguments(batch: int, length: int) -> Arguments:
    before = length + 2
    mask = torch.ones(batch, before + length, dtype=torch.int64)
    mask[0, :3] = 0
    past = [torch.randn(batch, GROUPS, before, SIZE) for _ in range(4)]
    return {"input_ids": torch.randint(0, WORDS, (batch, length)), "attention_mask": mask, "past": past}


AXES = {
    "input_ids": {0: "batch", 1: "length"},
    "attention_mask": {0: "batch", 1: "total"},
    "past": {0: "batch", 2: "before"},
}


def llama() -> Case:
    return Case(Llama(Dense), arguments, AXES, ((2, 4), (1, 7)))


def mixture() -> Case:
    return Case(Llama(Mixture), arguments, AXES, ((2, 4), (3, 9)))
