"""`--detect`, `--classify` and `--segment`: what a model is to give of a picture as it comes."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from sardonyx.cli.detections import detection, labels, number, one_picture, whole, yes
from sardonyx.cli.images import picture, settings
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Model
from sardonyx.passes.picture import with_pictures
from sardonyx.passes.vision.classification import Classification, with_classification
from sardonyx.passes.vision.detection import with_detection
from sardonyx.passes.vision.segmentation import Segmentation, with_segmentation

Readers = Mapping[str, Callable[[str, str], Any]]

SIGHTS = ("detect", "classify", "segment")
CLASSIFICATION: Readers = {"most": whole, "softmax": yes, "labels": labels}
"""Fields of a Classification, and what reads them."""
SEGMENTATION: Readers = {"threshold": number, "sigmoid": yes, "output": lambda text, _: text, "labels": labels}


def asked(args: argparse.Namespace) -> str:
    """The one of SIGHTS that is asked for, "" for none; InvalidArgument where there are several."""
    found = [f"--{name}" for name in SIGHTS if getattr(args, name) is not None]
    if len(found) > 1:
        raise InvalidArgument(f"{' and '.join(found)} are for different models: leave out all but one")
    return found[0].removeprefix("--") if found else ""


def rewritten(args: argparse.Namespace, model: Model) -> Model:
    """The model with what `--detect`, `--classify` or `--segment` asks for, or else `--image` alone."""
    name = asked(args)
    if not name:
        return with_pictures(model, [picture(text) for text in args.image])
    image = one_picture(args.image, f"--{name}")
    if name == "detect":
        return with_detection(model, detection(args.detect), image)
    text = getattr(args, name)
    option = f"--{name} {text}".rstrip()
    try:
        if name == "classify":
            return with_classification(model, Classification(**read(text, option, CLASSIFICATION)), image)
        return with_segmentation(model, Segmentation(**read(text, option, SEGMENTATION)), image)
    except InvalidArgument as error:
        if str(error).startswith("--"):
            raise
        raise InvalidArgument(f"{option}: {error}") from None


def read(text: str, option: str, readers: Readers) -> dict[str, Any]:
    """What an option says, by field.

    >>> read("most=3,softmax=no,labels=cat,dog", "--classify", CLASSIFICATION)
    {'most': 3, 'softmax': False, 'labels': ('cat', 'dog')}
    """
    told = settings(text, option, tuple(readers))
    return {key: readers[key](value, f"{option}: {key}") for key, value in told.items()}
