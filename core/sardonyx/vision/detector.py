"""Objects in pictures, and their boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sardonyx.api.options import SessionOptions
from sardonyx.common.record import record
from sardonyx.passes.picture import Picture
from sardonyx.passes.vision.detection import OUTPUTS, Detection, with_detection
from sardonyx.vision.pixels import PictureLike
from sardonyx.vision.runner import CHANNELS, ModelLike, Runner


@record(frozen=True)
class Found:
    """An object: its label, the number of its class, how sure the model is, 0..1, and its box (left, top, right,
    bottom) in pixels of the picture."""

    label: str
    number: int
    score: float
    box: tuple[float, float, float, float]


class Detector:
    """Finds objects in pictures: of a model in ONNX, or of a bundle that `sardonyx compile --detect` made.

    The options are fields of `Detection`: head, threshold, overlap, most, across, labels, classes, priors. `image`
    says how a picture becomes the input, where that is not as the family has it. A bundle has them within it, and
    takes none. Raises InvalidArgument where the family is not certain, or options do not fit the model.
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
        told = Detection(**options)
        self._runner = Runner(
            model, lambda given: with_detection(given, told, image, CHANNELS), OUTPUTS, providers, options, session
        )
        self.session = self._runner.session
        self.labels = self._runner.labels

    def detect(self, picture: PictureLike, order: str = "rgb") -> list[Found]:
        """What is in a picture (a path, a file's bytes, Pillow's image, an array), the surest first.

        `order` is that of an array's channels, "rgb" or "bgr". Raises InvalidArgument for what is no picture.
        """
        found = self._runner.run(picture, order)
        columns = zip(found["labels"].tolist(), found["scores"].tolist(), found["boxes"].tolist())
        return [Found(self._runner.label(number), number, score, tuple(box)) for number, score, box in columns]


def detect(model: ModelLike, picture: PictureLike, order: str = "rgb", **options: Any) -> list[Found]:
    """What is in one picture; for more of them keep a `Detector`, whose options these are."""
    return Detector(model, **options).detect(picture, order)
