"""The products of a step of a recurrent layer, by which its weights lie in memory, and threads share its gates."""

from __future__ import annotations

from typing import NamedTuple

from sardonyx.code.layer import GATES, Layer


class Phase(NamedTuple):
    """A product of a step: some gates, for so many units by each four of sums."""

    gates: range
    units: int


def phases(layer: Layer) -> list[Phase]:
    """The products of a step. A GRU that resets before it multiplies has two."""
    match layer.cell:
        case "rnn":
            return [Phase(range(1), 4)]
        case "gru" if not layer.linear_before_reset:
            return [Phase(range(2), 2), Phase(range(2, 3), 4)]
        case cell:
            return [Phase(range(GATES[cell]), 1)]
