"""How like two models' outputs are, added up sample by sample: agreement, cosine, signal-to-noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx.common.record import field, record

EXACT = 200.0
"""Decibels that stand for no noise at all; its negative for a result that is no number where one is expected."""
FEATURES = ("embed", "hidden", "feature", "pooled", "present", "past")
"""Words in the names of outputs whose values are features: which of them is largest means nothing."""
BETWEEN = 0.5
"""Where a probability decides."""


def decibels(signal: float, noise: float) -> float:
    """The signal-to-noise ratio of two powers in dB, 10 log10(signal / noise), within `EXACT`.

    >>> decibels(100.0, 1.0), decibels(1.0, 0.0), decibels(0.0, 1.0)
    (20.0, 200.0, -200.0)
    """
    if not noise:
        return EXACT
    if not signal or not np.isfinite(noise):
        return -EXACT
    return float(np.clip(10 * (np.log10(signal) - np.log10(noise)), -EXACT, EXACT))


def decisions(name: str, array: np.ndarray, expected: np.ndarray | None = None) -> np.ndarray | None:
    """What an output decides, position by position; None for features, and for what has no elements to choose from.

    Integers, booleans and texts are decisions. Floats are scores of classes: along axis 1 of four axes and more
    (pictures), else along the last. Where there is one class, it is whether the score is above 0.5 if all scores that
    are expected are probabilities, else above 0.

    >>> decisions("logits", np.float32([[0.1, 0.7], [2.0, 1.0]])).tolist(), decisions("embedding", np.ones((1, 3)))
    ([1, 0], None)
    """
    if array.dtype.kind in "biuOU":
        return array
    if array.dtype.kind != "f" or any(word in name.lower() for word in FEATURES) or array.ndim < 1 or not array.size:
        return None
    axis = 1 if array.ndim >= 4 else array.ndim - 1
    if array.shape[axis] > 1:
        return np.asarray(array.argmax(axis))
    judged = array if expected is None else expected
    probable = judged.min() >= 0 and judged.max() <= 1
    return np.asarray(array > (BETWEEN if probable else 0))


@record
class OutputScore:
    """An output of two models, compared over samples."""

    name: str
    samples: int = 0
    _same: int = 0
    _decided: int = 0
    _cosines: float = 0.0
    _signal: float = 0.0
    _noise: float = 0.0
    _measured: int = 0

    def add(self, expected: Any, found: Any) -> None:
        """Compare what one sample gave; values that differ in shape have nothing in common."""
        expected, found = np.asarray(expected), np.asarray(found)
        self.samples += 1
        alike = expected.shape == found.shape
        if (wanted := decisions(self.name, expected)) is not None:
            decided = decisions(self.name, found, expected) if alike else None
            self._decided += wanted.size
            self._same += int(np.count_nonzero(wanted == decided)) if decided is not None else 0
        if expected.dtype.kind != "f":
            return
        self._measured += 1
        one = expected.astype(np.float64).ravel()
        other = found.astype(np.float64).ravel() if alike else np.full_like(one, np.nan)
        with np.errstate(all="ignore"):
            self._signal += float(one @ one)
            self._noise += float(np.nan_to_num((other - one) @ (other - one), nan=np.inf))
            self._cosines += _cosine(one, other)

    @property
    def agreement(self) -> float | None:
        """The share of equal decisions; None where the output decides nothing."""
        return self._same / self._decided if self._decided else None

    @property
    def cosine(self) -> float | None:
        """The mean of the samples' cosines; None where the output is no float."""
        return self._cosines / self._measured if self._measured else None

    @property
    def snr(self) -> float | None:
        """Signal-to-noise over all samples in dB; None where the output is no float."""
        return decibels(self._signal, self._noise) if self._measured else None

    def facts(self) -> dict[str, Any]:
        return {"name": self.name, "agreement": self.agreement, "cosine": self.cosine, "snr": self.snr}


def _cosine(one: np.ndarray, other: np.ndarray) -> float:
    if np.array_equal(one, other):
        return 1.0
    cosine = float(one @ other / np.sqrt((one @ one) * (other @ other)))
    return cosine if np.isfinite(cosine) else 0.0


@record
class Score:
    """The outputs of a model compared with another's: its figures are those of the worst output."""

    outputs: list[OutputScore] = field(default_factory=list)

    @classmethod
    def of(cls, names: Sequence[str]) -> Score:
        return cls([OutputScore(name) for name in names])

    def add(self, expected: Sequence[Any], found: Sequence[Any]) -> None:
        """Compare all outputs for one sample."""
        for output, one, other in zip(self.outputs, expected, found, strict=True):
            output.add(one, other)

    @property
    def agreement(self) -> float | None:
        return min((each.agreement for each in self.outputs if each.agreement is not None), default=None)

    @property
    def cosine(self) -> float | None:
        return min((each.cosine for each in self.outputs if each.cosine is not None), default=None)

    @property
    def snr(self) -> float | None:
        return min((each.snr for each in self.outputs if each.snr is not None), default=None)

    @property
    def figures(self) -> Mapping[str, float | None]:
        """The three figures by name."""
        return {"agreement": self.agreement, "cosine": self.cosine, "snr": self.snr}
