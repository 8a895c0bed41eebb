"""Suppression of boxes."""

from __future__ import annotations

from typing import Any

import numpy as np

from .draw import Draw, draws
from .movement import number


@draws("NonMaxSuppression")
def suppression(d: Draw) -> dict[str, Any]:
    batch, classes, count = d.of(1, 2), d.of(1, 2), d.of(5, 1, 3, 9)
    corners = d.rng.integers(0, 8, size=(batch, count, 2, 2)) + np.array([[0.0], [0.5]])
    corners = corners.reshape(batch, count, 4)
    attributes = d.attributes(center_point_box=(0, 1))
    scores = np.stack([d.rng.permutation(count) for _ in range(batch * classes)]).reshape(batch, classes, count)
    inputs: list[Any] = [corners.astype(np.float32), (scores / count).astype(np.float32)]
    inputs.append(number([d.of(2, 1, 0, 9)]) if d.flag() else None)
    inputs.append(np.array([d.of(0.5, 0.0, 0.3, 1.0)], np.float32) if d.flag() else None)
    inputs.append(np.array([d.of(0.1, 0.45, -1.0)], np.float32) if d.flag() else None)
    return {"inputs": inputs, "attributes": attributes, "constant": d.settled(2, 3, 4)}
