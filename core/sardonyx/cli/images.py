"""`--image`: inputs that are to be pictures as they come."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from sardonyx.cli.normalization import KNOWN
from sardonyx.errors import InvalidArgument
from sardonyx.passes.picture import FITS, ORDERS, Picture

PIXELS = {"rgb": 3, "rgba": 4}


def picture(text: str) -> Picture:
    """What `--image` says: a name, and after a colon options, whose values may have commas in them.

    >>> picture("x:mean=0.5,std=0.25,resize=224x192,fit=cover")  # doctest: +NORMALIZE_WHITESPACE
    Picture(name='x', mean=[127.5], std=[63.75], size=(224, 192), fit='cover', pad=0.0, order='rgb', channels=4,
        antialias=True, option='--image x:mean=0.5,std=0.25,resize=224x192,fit=cover')
    """
    name, _, listed = text.rpartition(":")
    if "=" not in listed or not name:
        name, listed = text.removesuffix(":"), ""
    option = f"--image {text}"
    told = settings(listed, option, ALL)
    values = {field: read(told[key], f"{option}: {key}") for key, (field, read) in READERS.items() if key in told}
    mean, std = _normalization(told, option)
    return Picture(name, mean, std, **values, option=option)


def settings(listed: str, option: str, known: Collection[str]) -> dict[str, str]:
    """What follows each `key=`, commas in it included; InvalidArgument where a key is not known, or is given twice.

    >>> settings("a=1,2,b=x", "--o", ("a", "b"))
    {'a': '1,2', 'b': 'x'}
    """
    told: dict[str, str] = {}
    key = ""
    for part in listed.split(",") if listed else ():
        before, equals, after = part.partition("=")
        if equals:
            key = before.strip()
            if key in told:
                raise InvalidArgument(f"{option}: {key} is given twice")
            told[key] = after.strip()
        elif key:
            told[key] += f",{part.strip()}"
        else:
            raise InvalidArgument(f"{option}: write options as in {next(iter(known))}=..; there are {', '.join(known)}")
    if unknown := set(told) - {*known}:
        raise InvalidArgument(f"{option}: there is no option {min(unknown)!r}; there are {', '.join(known)}")
    return told


def _normalization(told: Mapping[str, str], option: str) -> tuple[list[float], list[float]]:
    """Mean and standard deviation in levels; values above 1 are levels, others of pixels in 0 to 1."""
    if known := told.get("normalize"):
        if known not in KNOWN or "mean" in told or "std" in told:
            raise InvalidArgument(f"{option}: normalize is {' or '.join(KNOWN)}, and leaves out mean and std")
        mean, std = map(list, KNOWN[known])
    else:
        mean = _numbers(told.get("mean", "0"), f"{option}: mean")
        std = _numbers(told.get("std", "1"), f"{option}: std")
    if min(std) <= 0:
        raise InvalidArgument(f"{option}: std={told['std']}: standard deviations are above 0")
    scale = 1 if max(*mean, *std) > 1 else 255
    return [scale * value for value in mean], [scale * value for value in std]


def _numbers(text: str, what: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidArgument(f"{what}={text}: write numbers with commas between them") from None


def _number(text: str, what: str) -> float:
    (value, *more) = _numbers(text, what)
    if more or not 0 <= value <= 255:
        raise InvalidArgument(f"{what}={text}: write one number from 0 to 255")
    return value


def _size(text: str, what: str) -> tuple[int, int]:
    sides = text.split("x")
    if len(sides) > 2 or not all(side.isdecimal() and int(side) for side in sides):
        raise InvalidArgument(f"{what}={text}: write one size, or height x width, as in 224 or 480x640")
    return int(sides[0]), int(sides[-1])


def _one_of(choices: Mapping[str, Any]) -> Callable[[str, str], Any]:
    def read(text: str, what: str) -> Any:
        if text not in choices:
            raise InvalidArgument(f"{what}={text}: write {', '.join(choices)}")
        return choices[text]

    return read


READERS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "resize": ("size", _size),
    "fit": ("fit", _one_of({fit: fit for fit in FITS})),
    "pad": ("pad", _number),
    "order": ("order", _one_of({order: order for order in ORDERS})),
    "pixels": ("channels", _one_of(PIXELS)),
    "antialias": ("antialias", _one_of({"yes": True, "no": False})),
}
"""The field of a Picture that an option is for, and what reads it."""
ALL = ("mean", "std", "normalize", *READERS)
