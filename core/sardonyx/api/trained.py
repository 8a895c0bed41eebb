"""What a bundle holds besides the model, if a page is to train it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx.common.record import field, record
from sardonyx.model.ir import Model
from sardonyx.plans.weight_table import WeightTable

ALIGNMENT = 256
"""Bytes at whose multiples a GPU reads a part of a buffer as one of its own."""


@record
class Part:
    """A model that shares parameters and moments with others: its last inputs, by their names.

    `updates` are outputs that become such an input of the next run.
    """

    model: Model
    updates: Mapping[str, str] = field(default_factory=dict)


@record
class Training:
    """The models by which one is trained.

    `model` is the one that is trained, `parameters` are its last inputs, with their first elements. `zeros` are inputs
    of `parts` that begin as zeros of these shapes and float32: gradients, moments. `wholes` are inputs of `parts` that
    are others of these names, one behind the other, each at a multiple of `ALIGNMENT` bytes, with zeros between. `told`
    are entries of the manifest, `file` is the model as it came, of which a page writes a file.
    """

    model: Model | None = None
    parameters: Mapping[str, np.ndarray] = field(default_factory=dict)
    zeros: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    wholes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    parts: Mapping[str, Part] = field(default_factory=dict)
    told: Mapping[str, Any] = field(default_factory=dict)
    file: Model | None = None

    def titles(self, names: WeightTable) -> dict[str, str]:
        """What constants are called that parameters and zeros are; nothing in a file is one with a `~`."""
        others = [*self.zeros, *self.wholes]
        return {name: names.reserve() for name in self.parameters} | {name: f"~{name}" for name in others}
