"""Recurrent layers: a tagger of LSTMs in both directions, and a recogniser of GRUs behind convolutions (a CRNN)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.exports.case import Arguments, Case


class Tagger(nn.Module):
    """Each word is read by its letters too; returns the scores of the tags and the best ones."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.letters = nn.Embedding(80, 16, padding_idx=0), nn.Embedding(30, 8)
        self.spelling = nn.LSTM(8, 8, batch_first=True, bidirectional=True)
        self.sentence = nn.LSTM(32, 12, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(24, 7)

    def forward(self, words: Tensor, letters: Tensor) -> tuple[Tensor, Tensor]:
        batch, length, spelt = letters.shape
        _, (last, _) = self.spelling(self.letters(letters.reshape(batch * length, spelt)))
        last = last.transpose(0, 1).reshape(batch, length, 16)
        x, _ = self.sentence(torch.cat([self.words(words), last], dim=-1))
        scores = torch.log_softmax(self.head(x), dim=-1)
        return scores, scores.argmax(-1)


class Recogniser(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(8, 16, 3, padding=1), nn.LeakyReLU(0.1), nn.MaxPool2d((2, 1))),
        )
        self.memory = nn.GRU(64, 16, bidirectional=True)
        self.head = nn.Linear(32, 11)

    def forward(self, strip: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        x = self.layers(strip).permute(3, 0, 1, 2).flatten(2)
        x, state = self.memory(x, state)
        return self.head(x), state


def tagger() -> Case:
    def arguments(batch: int, length: int) -> Arguments:
        letters = torch.randint(0, 30, (batch, length, length + 3))
        return {"words": torch.randint(0, 80, (batch, length)), "letters": letters}

    axes = {"words": {0: "batch", 1: "length"}, "letters": {0: "batch", 1: "length", 2: "letters"}}
    return Case(Tagger(), arguments, axes, ((2, 6), (3, 11)))


def recogniser() -> Case:
    def arguments(batch: int, width: int) -> Arguments:
        return {"strip": torch.randn(batch, 1, 16, width), "state": torch.randn(2, batch, 16)}

    return Case(Recogniser(), arguments, {"strip": {0: "batch", 3: "width"}, "state": {1: "batch"}}, ((2, 20), (1, 33)))
