"""Inputs of a model from the command line: shapes, arrays in files, pictures, random numbers."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sardonyx.errors import InvalidArgument, NoSuchFile

if TYPE_CHECKING:
    import numpy as np

    from sardonyx.ir import Value
    from sardonyx.ir.types import DimLike


def add_shape(parser: argparse.ArgumentParser, text: str) -> None:
    """The option `--shape`."""
    parser.add_argument("--shape", action="append", metavar="INPUT=1x3x224x224", help=text)


def named(option: str, texts: Sequence[str] | None, names: Sequence[str]) -> dict[str, str]:
    """Values by input name from `name=value`; the name may be left out where there is one input.

    >>> named("--shape", ["x=1x3"], ["x", "y"]), named("--shape", ["1x3"], ["x"])
    ({'x': '1x3'}, {'x': '1x3'})
    """
    result = {}
    for text in texts or ():
        name, found, value = text.partition("=")
        if not found and len(names) == 1:
            name, value = names[0], text
        elif not found:
            raise InvalidArgument(f"{option} {text}: say for which input, as in {option} {names[0]}={text}")
        if name not in names:
            raise InvalidArgument(f"{option} {text}: there is no input {name!r}; there are {', '.join(names)}")
        result[name] = value
    return result


def shapes_of(texts: Sequence[str] | None, names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Shapes by input name, written `1x3x224x224` or `1,3,224,224`; nothing at all is a scalar."""
    shapes = {}
    for name, text in named("--shape", texts, names).items():
        parts = text.replace(",", "x").split("x") if text else []
        if not all(part.isdecimal() for part in parts):
            raise InvalidArgument(f"--shape {name}={text}: write sizes with x between them, as in 1x3x224x224")
        shapes[name] = tuple(map(int, parts))
    return shapes


def sizes(
    name: str, declared: Sequence[DimLike] | None, given: Mapping[str, Sequence[int]], assumed: list[str]
) -> tuple[int, ...]:
    """The shape to compile an input for; dimensions that are taken as 1 are written down in `assumed`."""
    if name in given:
        shape = tuple(given[name])
        fits = declared is None or (
            len(declared) == len(shape) and all(not isinstance(a, int) or a == b for a, b in zip(declared, shape))
        )
        if not fits:
            text = "x".join("?" if size is None else str(size) for size in declared or ())
            raise InvalidArgument(f"--shape {name}={'x'.join(map(str, shape))}: the model declares {text}")
        return shape
    if declared is None:
        raise InvalidArgument(f"the rank of input {name!r} is not known; give --shape {name}=...")
    for axis, size in enumerate(declared):
        if not isinstance(size, int):
            assumed.append(size or f"{name}.shape[{axis}]")
    return tuple(size if isinstance(size, int) else 1 for size in declared)
