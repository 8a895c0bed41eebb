"""`--detect`: what is looked for in a picture, and how the model tells it; and what reads values of such options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx.cli.images import picture, settings
from sardonyx.errors import InvalidArgument
from sardonyx.passes.picture import Picture
from sardonyx.passes.vision.detection import Detection
from sardonyx.passes.vision.labels import labels_of

ALL = ("head", "threshold", "overlap", "most", "across", "labels", "classes", "priors")


def detection(text: str) -> Detection:
    """What `--detect` says: options, whose values may have commas in them.

    >>> told = detection("head=yolox,threshold=0.4,classes=cat,2")
    >>> told.head, told.threshold, told.classes
    ('yolox', 0.4, ('cat', 2))
    """
    return Detection(**options(text), option=f"--detect {text}" if text else "--detect")


def options(text: str) -> dict[str, Any]:
    """The fields of a Detection that `--detect` gives."""
    option = f"--detect {text}" if text else "--detect"
    told = settings(text, option, ALL)
    values: dict[str, Any] = {key: read(told[key], f"{option}: {key}") for key, read in READERS.items() if key in told}
    if "head" in told:
        values["head"] = told["head"]
    if "classes" in told:
        words = [word.strip() for word in told["classes"].split(",")]
        values["classes"] = tuple(int(word) if word.isdecimal() else word for word in words)
    return values


def one_picture(texts: list[str] | None, option: str = "--detect") -> Picture | None:
    """The picture that `--image` is about, None where it is left out; InvalidArgument where there are several."""
    if texts and len(texts) > 1:
        raise InvalidArgument(f"--image {texts[1]}: with {option} there is one picture")
    return picture(texts[0]) if texts else None


def labels(text: str, what: str) -> tuple[str, ...]:
    """Names with commas between them, or a file of them: JSON, YAML with `names:`, or one in a line."""
    if "," in text or not Path(text).suffix:
        return tuple(labels_of({"labels": text}))
    try:
        found = tuple(labels_of({"labels": Path(text).read_text("utf-8-sig")}))
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{what}={text}: the file is not text in UTF-8; save it as such") from error
    except OSError as error:
        raise InvalidArgument(f"{what}={text}: the file cannot be read: {error}") from error
    if not found:
        raise InvalidArgument(f"{what}={text}: the file has no names in it; write one in a line")
    return found


def number(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidArgument(f"{what}={text}: write a number") from None


def whole(text: str, what: str) -> int:
    if not text.isdecimal():
        raise InvalidArgument(f"{what}={text}: write a whole number")
    return int(text)


def yes(text: str, what: str) -> bool:
    if text not in ("yes", "no"):
        raise InvalidArgument(f"{what}={text}: write yes or no")
    return text == "yes"


def _priors(text: str, what: str) -> Any:
    try:
        found = np.load(text, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"{what}={text}: this is no .npy file: {error}") from error
    return np.asarray(found, np.float64)


READERS: dict[str, Callable[[str, str], Any]] = {
    "threshold": number,
    "overlap": number,
    "most": whole,
    "across": yes,
    "labels": labels,
    "priors": _priors,
}
"""Options whose values are fields of a Detection as they are read."""
