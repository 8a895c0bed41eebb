"""How pictures become a model's input, as its metadata tells it."""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping
from typing import Any

from sardonyx.errors import InvalidArgument
from sardonyx.passes.picture import FITS, ORDERS, Picture

KEY = "sardonyx.image"
"""Where this package writes it: an object in JSON, with the fields of a Picture."""
LARGEST = 1 << 16
"""Pixels of a side."""


def remember(metadata: MutableMapping[str, str], picture: Picture) -> None:
    """Write into a model's metadata how pictures become its input, whose name and channels are left out.

    >>> metadata = {}
    >>> remember(metadata, Picture("x", mean=[127.5], size=(96, 96), fit="cover"))
    >>> recalled(metadata).fit, recalled(metadata).size
    ('cover', (96, 96))
    """
    told = {
        "mean": [float(each) for each in picture.mean],
        "std": [float(each) for each in picture.std],
        "size": picture.size,
        "fit": picture.fit,
        "pad": picture.pad,
        "order": picture.order,
    }
    metadata[KEY] = json.dumps(told)


def recalled(metadata: Mapping[str, str]) -> Picture | None:
    """What `remember` wrote, None where the metadata has none; InvalidArgument where it makes no sense."""
    if KEY not in metadata:
        return None
    try:
        told = json.loads(metadata[KEY])
        mean, std, size = told["mean"], told["std"], told["size"]
        sound = [
            all(map(_is_number, (*mean, *std, told["pad"]))) and all(each > 0 for each in std),
            size is None or (len(size) == 2 and all(isinstance(side, int) and 0 < side <= LARGEST for side in size)),
            told["fit"] in FITS and told["order"] in ORDERS,
        ]
    except (ValueError, KeyError, TypeError, RecursionError):
        sound = [False]
    if not all(sound):
        raise InvalidArgument(
            f"the model's metadata {KEY!r} says nothing that can be followed: {metadata[KEY][:100]!r}"
        )
    return Picture("", mean, std, tuple(size) if size else None, told["fit"], told["pad"], told["order"])


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and abs(value) < float("inf")
