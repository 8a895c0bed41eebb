"""Small modules of PyTorch, each with something that is unusual."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Shared(nn.Module):
    """Two layers with one matrix, the first with a frozen bias; of the results one is an integer, one no tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.f, self.g = nn.Linear(3, 3), nn.Linear(3, 3)
        self.g.weight = self.f.weight
        self.f.bias.requires_grad_(False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, int]:
        return self.g(self.f(x)), x.argmax(1), 3


class Counting(nn.Module):
    """It changes a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.f = nn.Linear(3, 3)
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add_(x.sum(0))
        result: Tensor = self.f(x)
        return result


class Choosing(nn.Module):
    """Its way depends on elements."""

    def __init__(self) -> None:
        super().__init__()
        self.f = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.f(x) if x.sum() > 0 else x


class Padded(nn.Module):
    """Rows of three tables are padding, one of a table that is an output layer, too, and one of a computed one."""

    def __init__(self) -> None:
        super().__init__()
        self.e, self.f, self.g = nn.Embedding(9, 4, 0), nn.Embedding(9, 4, padding_idx=-1), nn.Embedding(9, 4)

    def forward(self, words: Tensor) -> Tensor:
        x = self.e(words) * self.f(words) + nn.functional.embedding(words, 2 * self.e.weight, 3) + self.g(words)
        return x @ self.e.weight.t()
