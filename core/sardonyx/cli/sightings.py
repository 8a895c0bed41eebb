"""What was seen in a frame, in words and as JSON."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sardonyx.cli.detections import labels, number, one_picture, options
from sardonyx.cli.images import settings
from sardonyx.errors import InvalidArgument
from sardonyx.vision import Class, Detector, Found, Seen, Segmenter
from sardonyx.vision.drawing import boxed, placed, resized, veiled
from sardonyx.vision.watcher import Viewer

MOST = 3
"""Classes of a picture that are told."""
LEAST = 0.01
"""The share of a mask's pixels below which its class is not told."""


def words(seen: Seen, viewer: Viewer | None) -> list[str]:
    """What is in a frame, the surest or the largest first: `person 93%`, of masks the share of pixels."""
    if isinstance(viewer, Segmenter):
        shares = _shares(seen.found, viewer)
        return [f"{label} {share:.0%}" for label, share in shares if share >= LEAST]
    most = None if isinstance(viewer, Detector) else MOST
    return [f"{each.label} {each.score:.0%}" for each in seen.found[:most]]


def facts(seen: Seen, viewer: Viewer | None, temperature: float | None) -> dict[str, Any]:
    """A frame as `--json` prints it: milliseconds, degrees Celsius, pixels."""
    if isinstance(viewer, Segmenter):
        told = [{"label": label, "share": share} for label, share in _shares(seen.found, viewer)]
    else:
        told = [_facts_of(each) for each in seen.found]
    height, width = seen.frame.shape[:2]
    return {
        "number": seen.number,
        "size": [width, height],
        "found": told,
        "ms": 1e3 * seen.seconds,
        "latency": 1e3 * seen.latency,
        "rate": seen.rate,
        "dropped": seen.dropped,
        "temperature": temperature,
    }


def _facts_of(each: Found | Class) -> dict[str, Any]:
    told: dict[str, Any] = {"label": each.label, "number": each.number, "score": each.score}
    return {**told, "box": [*each.box]} if isinstance(each, Found) else told


def _shares(mask: NDArray[np.uint8], viewer: Segmenter) -> list[tuple[str, float]]:
    """The classes of a mask, and their shares of the pixels, the largest first."""
    counts = np.bincount(mask.ravel())
    order = [int(number) for number in np.argsort(-counts, kind="stable") if counts[number]]
    return [(viewer.label(number), float(counts[number] / mask.size)) for number in order]


def boxes(seen: Seen, viewer: Viewer | None) -> Sequence[Found]:
    """What has a box in a frame."""
    return seen.found if isinstance(viewer, Detector) else ()


def drawn(seen: Seen, viewer: Viewer | None, height: int, width: int) -> NDArray[np.uint8]:
    """A frame in this size, with boxes or under its mask."""
    pixels = resized(seen.frame, height, width)
    if isinstance(viewer, Segmenter):
        return veiled(pixels, placed(seen.found, height, width))
    return boxed(pixels, boxes(seen, viewer), width / seen.frame.shape[1])


def task(args: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """What `--detect`, `--classify` and `--segment` say: a task, "" where none is named, and a viewer's options."""
    told = {name: text for name in READERS if (text := getattr(args, name)) is not None}
    if len(told) > 1:
        raise InvalidArgument(f"--{' and --'.join(told)}: a model is one of them")
    image = one_picture(args.image)
    given = {"image": image} if image else {}
    for name, text in told.items():
        return name, {**given, **READERS[name](text)}
    return "", given


def _read(text: str, option: str, readers: dict[str, Callable[[str, str], Any]]) -> dict[str, Any]:
    option = f"--{option} {text}".rstrip()
    return {key: readers[key](value, f"{option}: {key}") for key, value in settings(text, option, readers).items()}


def _whole(text: str, what: str) -> int:
    if not text.isdecimal():
        raise InvalidArgument(f"{what}={text}: write a number of classes")
    return int(text)


def _yes(text: str, what: str) -> bool:
    if text not in ("yes", "no"):
        raise InvalidArgument(f"{what}={text}: write yes or no")
    return text == "yes"


READERS: dict[str, Callable[[str], dict[str, Any]]] = {
    "detect": options,
    "classify": lambda text: _read(text, "classify", {"most": _whole, "softmax": _yes, "labels": labels}),
    "segment": lambda text: _read(
        text, "segment", {"threshold": number, "sigmoid": _yes, "output": lambda name, _: name, "labels": labels}
    ),
}
"""What reads the options of a task."""
