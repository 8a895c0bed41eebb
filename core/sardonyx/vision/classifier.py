"""What a picture is of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sardonyx.api.options import SessionOptions
from sardonyx.common.record import record
from sardonyx.passes.picture import Picture
from sardonyx.passes.vision.classification import OUTPUTS, Classification, with_classification
from sardonyx.vision.pixels import PictureLike
from sardonyx.vision.runner import CHANNELS, ModelLike, Runner


@record(frozen=True)
class Class:
    """A class: its label, its number, and how sure the model is of it."""

    label: str
    number: int
    score: float


class Classifier:
    """Says what pictures are of. The options are fields of `Classification`: most, softmax, labels.

    `image` says how a picture becomes the input, which only models of ultralytics tell themselves. Raises
    InvalidArgument where nobody tells, or the output has no classes.

    >>> import numpy as np
    >>> from sardonyx.demo import assets, picture, pictures
    >>> pixels = pictures.read(picture("4_heldout.png"))
    >>> light_on_dark = Picture("", fit="contain")
    >>> classifier = Classifier(assets() / "digits.onnx", image=light_on_dark, providers=["NumpyExecutionProvider"])
    >>> classifier.classify(pixels)[0].label
    '4'
    """

    def __init__(
        self,
        model: ModelLike,
        *,
        image: Picture | None = None,
        providers: Sequence[Any] | None = None,
        session: SessionOptions | None = None,
        **options: Any,
    ) -> None:
        told = Classification(**options)
        self._runner = Runner(
            model,
            lambda given: with_classification(given, told, image, CHANNELS),
            OUTPUTS,
            providers,
            options,
            session,
        )
        self.session = self._runner.session
        self.labels = self._runner.labels

    def classify(self, picture: PictureLike, order: str = "rgb") -> list[Class]:
        """The surest classes of a picture (a path, a file's bytes, Pillow's image, an array), the surest first.

        `order` is that of an array's channels, "rgb" or "bgr". Raises InvalidArgument for what is no picture.
        """
        found = self._runner.run(picture, order)
        pairs = zip(found["labels"].tolist(), found["scores"].tolist())
        return [Class(self._runner.label(number), number, score) for number, score in pairs]


def classify(model: ModelLike, picture: PictureLike, order: str = "rgb", **options: Any) -> list[Class]:
    """What one picture is of; for more of them keep a `Classifier`, whose options these are."""
    return Classifier(model, **options).classify(picture, order)
