"""`--detect`: what is looked for in a picture, and how the model tells it."""

from __future__ import annotations

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
    numbers = [key for key in ("threshold", "overlap") if key in told]
    values: dict[str, Any] = {key: number(told[key], f"{option}: {key}") for key in numbers}
    if "head" in told:
        values["head"] = told["head"]
    if "most" in told:
        if not told["most"].isdecimal():
            raise InvalidArgument(f"{option}: most={told['most']}: write a number of boxes")
        values["most"] = int(told["most"])
    if "across" in told:
        if told["across"] not in ("yes", "no"):
            raise InvalidArgument(f"{option}: across={told['across']}: write yes or no")
        values["across"] = told["across"] == "yes"
    if "labels" in told:
        values["labels"] = labels(told["labels"], f"{option}: labels")
    if "classes" in told:
        words = [word.strip() for word in told["classes"].split(",")]
        values["classes"] = tuple(int(word) if word.isdecimal() else word for word in words)
    if "priors" in told:
        values["priors"] = _priors(told["priors"], f"{option}: priors")
    return values


def one_picture(texts: list[str] | None) -> Picture | None:
    """The picture that `--image` is about, None where it is left out; InvalidArgument where there are several."""
    if texts and len(texts) > 1:
        raise InvalidArgument(f"--image {texts[1]}: with --detect there is one picture")
    return picture(texts[0]) if texts else None


def labels(text: str, what: str) -> tuple[str, ...]:
    """Names with commas between them, or a file of them: JSON, or one in a line."""
    if "," not in text and Path(text).suffix:
        try:
            text = Path(text).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidArgument(f"{what}={text}: the file cannot be read: {error}") from error
    return tuple(labels_of({"labels": text}))


def number(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidArgument(f"{what}={text}: write a number") from None


def _priors(text: str, what: str) -> Any:
    try:
        found = np.load(text, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"{what}={text}: this is no .npy file: {error}") from error
    return np.asarray(found, np.float64)
