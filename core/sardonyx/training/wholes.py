"""Parameters that lie one behind the other, so that an optimizer takes them for one."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sardonyx.api.trained import ALIGNMENT
from sardonyx.model.ir import Tensor

LARGEST = 1 << 24
"""Elements of a whole, at most, unless a parameter has more: half of what every GPU takes."""
WIDTH = 4  # bytes of a float32


def wholes_of(trained: Sequence[Tensor], taken: Collection[str]) -> dict[str, list[Tensor]]:
    """The parameters of each whole, by its name, with which none of `taken` begins."""
    groups: list[list[Tensor]] = []
    for tensor in trained:
        if not groups or length([*groups[-1], tensor]) > LARGEST:
            groups.append([])
        groups[-1].append(tensor)
    prefix = "whole"
    while any(name.startswith(prefix) for name in taken):
        prefix = f"_{prefix}"
    return {f"{prefix}{k}": group for k, group in enumerate(groups)}


def length(group: Sequence[Tensor]) -> int:
    """The elements of a whole of float32, those between its parts, too."""
    return sum(-(-WIDTH * tensor.size // ALIGNMENT) * ALIGNMENT // WIDTH for tensor in group)
