"""Modules of PyTorch, and data for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

Batch = tuple[tuple[Tensor, ...], dict[str, Tensor], Tensor]
STEPS = 50


class Convolutional(nn.Module):
    """Convolutions with normalization and pooling; its result is a dictionary with more than tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor, scale: float = 1.0) -> dict[str, Any]:
        return {"logits": self.head(self.body(x).mean((2, 3))) * scale, "scale": scale, "nothing": None}


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(20, 12), nn.Linear(32, 3)
        self.layers = nn.LSTM(12, 16, 2, batch_first=True, bidirectional=True)

    def forward(self, words: Tensor) -> Tensor:
        result: Tensor = self.head(self.layers(self.words(words))[0][:, -1])
        return result


class Encoder(nn.Module):
    """Like BERT: words and places, two layers of attention under a mask, a pooled first word."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places, self.normal = nn.Embedding(50, 32), nn.Embedding(64, 32), nn.LayerNorm(32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, activation="gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.pool, self.head = nn.Linear(32, 32), nn.Linear(32, 3)

    def forward(self, ids: Tensor, *, mask: Tensor) -> Tensor:
        x = self.normal(self.words(ids) + self.places(torch.arange(ids.shape[1])))
        x = self.layers(x, src_key_padding_mask=mask == 0)
        result: Tensor = self.head(torch.tanh(self.pool(x[:, 0])))
        return result


PROGRAMS: dict[str, type[nn.Module]] = {"cnn": Convolutional, "lstm": Recurrent, "bert": Encoder}


def batches(name: str) -> Iterator[Batch]:
    """Fifty batches of two sizes, which a module learns from."""
    drawn = torch.Generator().manual_seed(1)
    for step in range(STEPS):
        count = 8 if step % 7 else 6
        labels = torch.randint(0, 3, (count,), generator=drawn)
        if name == "cnn":
            images = torch.randn(count, 1, 9, 9, generator=drawn) + labels[:, None, None, None]
            yield (images,), {}, labels
        elif name == "lstm":
            words = torch.randint(3, 20, (count, 9), generator=drawn)
            words[:, -1] = labels
            yield (words,), {}, labels
        else:
            words, mask = torch.randint(3, 50, (count, 12), generator=drawn), torch.ones(count, 12, dtype=torch.long)
            words[:, 3], mask[::2, 9:] = labels, 0
            yield (words,), {"mask": mask}, labels


def logits(result: Any) -> Tensor:
    found: Tensor = result["logits"] if isinstance(result, dict) else result
    return found
