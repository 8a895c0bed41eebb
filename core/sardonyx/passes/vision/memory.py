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
    >>> remember(metadata, Picture("x", mean=[127.5], size=(96, 96), fit="cover", antialias=False))
    >>> recalled(metadata).fit, recalled(metadata).size, recalled(metadata).antialias
    ('cover', (96, 96), False)
    """
    told = {
        "mean": [float(each) for each in picture.mean],
        "std": [float(each) for each in picture.std],
        "size": picture.size,
        "fit": picture.fit,
        "pad": picture.pad,
        "order": picture.order,
        "antialias": picture.antialias,
    }
    metadata[KEY] = json.dumps(told)


def recalled(metadata: Mapping[str, str]) -> Picture | None:
    """What `remember` wrote, None where the metadata has none; InvalidArgument where it makes no sense."""
    if KEY not in metadata:
        return None
    try:
        told = json.loads(metadata[KEY])
        mean, std, size, antialias = told["mean"], told["std"], told["size"], told.get("antialias", True)
        sound = [
            all(map(_is_number, (*mean, *std, told["pad"]))) and all(each > 0 for each in std),
            size is None or (len(size) == 2 and all(isinstance(side, int) and 0 < side <= LARGEST for side in size)),
            told["fit"] in FITS and told["order"] in ORDERS and isinstance(antialias, bool),
        ]
    except (ValueError, KeyError, TypeError, RecursionError):
        sound = [False]
    if not all(sound):
        raise InvalidArgument(
            f"the model's metadata {KEY!r} says nothing that can be followed: {metadata[KEY][:100]!r}"
        )
    size = tuple(size) if size else None
    return Picture("", mean, std, size, told["fit"], told["pad"], told["order"], antialias=antialias)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and abs(value) < float("inf")
