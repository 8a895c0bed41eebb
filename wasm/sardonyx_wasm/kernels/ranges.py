"""Between which numbers the nodes of a kernel are, so that conversions to short integers need not bound them again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from ..scalars.values import Kind

Range: TypeAlias = tuple[float, float]
"""The least and the greatest number; a float may be NaN besides."""
_ANY = -math.inf, math.inf


def ranges(nodes: Sequence[Any], kinds: Sequence[Kind]) -> list[Range]:
    """The range of each node, as far as it follows from dtypes and constants."""
    found: list[Range] = []
    for (function, _, operands, detail), k in zip(nodes, kinds, strict=True):
        whole = _whole(k)
        low, high = _range(function, k, detail, [found[operand] for operand in operands])
        if function == "cast" and whole != _ANY and kinds[operands[0]].family == "float":  # NaN gives 0
            low, high = math.ceil(max(min(low, 0), whole[0])), math.floor(min(max(high, 0), whole[1]))
        found.append((low, high) if k.family == "float" or has(k, (low, high)) else whole)
    return found


def has(k: Kind, numbers: Range) -> bool:
    """Whether an integer dtype of up to 32 bits has all that is between these numbers."""
    low, high = _whole(k)
    return math.isfinite(low) and low <= numbers[0] and numbers[1] <= high


def _whole(k: Kind) -> Range:
    if k.family == "int" and k.bits <= 32:
        return -1 << (k.bits - 1), (1 << (k.bits - 1)) - 1
    return (0, (1 << k.bits) - 1) if k.family == "uint" and k.bits <= 32 else _ANY


def _range(function: str, k: Kind, detail: Any, operands: Sequence[Range]) -> Range:
    """That of a function, as if its dtype held any; floats of 16 bits round what is known of others."""
    if k.is_half:
        return _ANY
    if function == "const" and isinstance(detail, int | float) and math.isfinite(detail):
        return detail, detail
    if function == "cast":
        return operands[0]
    if function == "round" and all(map(math.isfinite, operands[0])):
        return round(operands[0][0]), round(operands[0][1])
    if function in ("min", "max"):
        choose = min if function == "min" else max
        low, high = (choose(ends) for ends in zip(*operands, strict=True))
        return low, high
    if function in ("add", "sub") and k.family != "float":
        (low, high), (least, most) = operands
        return (low + least, high + most) if function == "add" else (low - most, high - least)
    return _ANY
