"""The class of each pixel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sardonyx.api.options import SessionOptions
from sardonyx.passes.picture import Picture
from sardonyx.passes.vision.segmentation import OUTPUTS, Segmentation, with_segmentation
from sardonyx.vision.pixels import PictureLike
from sardonyx.vision.runner import CHANNELS, ModelLike, Runner


class Segmenter:
    """Says of which class each pixel is. The options are fields of `Segmentation`: threshold, sigmoid, output, labels.

    `image` says how a picture becomes the input. Raises InvalidArgument where nobody says so, or the output is not maps
    of classes.
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
        told = Segmentation(**options)
        self._runner = Runner(
            model,
            lambda given: with_segmentation(given, told, image, CHANNELS),
            OUTPUTS,
            providers,
            options,
            session,
        )
        self.session = self._runner.session
        self.labels = self._runner.labels

    def segment(self, picture: PictureLike, order: str = "rgb") -> NDArray[np.uint8]:
        """The numbers of classes, uint8 [height, width], of a picture (a path, bytes, Pillow's image, an array).

        `order` is that of an array's channels, "rgb" or "bgr". Raises InvalidArgument for what is no picture.
        """
        return self._runner.run(picture, order)["mask"]

    def label(self, number: int) -> str:
        """The name of a class, or its number as text where nobody has named it."""
        return self._runner.label(number)


def segment(model: ModelLike, picture: PictureLike, order: str = "rgb", **options: Any) -> NDArray[np.uint8]:
    """The mask of one picture; for more of them keep a `Segmenter`, whose options these are."""
    return Segmenter(model, **options).segment(picture, order)
