"""A detector that takes a picture as it comes and gives boxes in its pixels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sardonyx.common import dtypes
from sardonyx.common.record import field, record, replace
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Model, TensorType, Value
from sardonyx.passes.nodes import Nodes
from sardonyx.passes.picture import Picture
from sardonyx.passes.vision.heads import HEADS, Frame, Head
from sardonyx.passes.vision.labels import labels_of
from sardonyx.passes.vision.recognition import chosen, recognized
from sardonyx.passes.vision.sight import Sight
from sardonyx.passes.vision.suppression import Limits, keep

OUTPUTS = ("boxes", "scores", "labels")


@record(frozen=True)
class Detection:
    """How a model's outputs become boxes.

    `head` is a word of HEADS, "" to be recognized. A box is given whose surest class has a score above `threshold`;
    of two of the same class, or of any if `across`, that share more than `overlap` of their union, the surer one; and
    of all of them the `most` surest. `labels` are the names of classes, where the model's metadata does not tell them;
    `classes`, numbers or names, are those that are looked for, all if there are none. `priors` [N, 4] are for SSD:
    centres and sizes as parts of the input. `option` is what asked for all this, for messages.
    """

    head: str = ""
    threshold: float = 0.25
    overlap: float | None = None
    most: int = 300
    across: bool = False
    labels: Sequence[str] = ()
    classes: Sequence[int | str] = ()
    priors: NDArray[np.float64] | None = field(default=None, compare=False)
    option: str = ""


OVERLAP = 0.45
"""Of two boxes of one object, where nothing else is said."""
BEFORE = {"yolov5": (2, 5), "yolov8": (1, 4)}
"""Heads whose classes coefficients of masks may follow: along which axis, after how many others."""


def with_detection(model: Model, detection: Detection, picture: Picture | None = None, channels: int = 0) -> Model:
    """A copy of a model, in the newest operator set, that takes a picture and gives `boxes` float32 [n, 4] (left, top,
    right, bottom in pixels of the picture, within it), `scores` float32 [n] and `labels` int64 [n], the surest first.

    Pixels have 3 or 4 `channels`, 0 for as many as `picture` says. Without `picture`, the one input that is shaped
    like a picture gets it as models of this family do. The metadata has the labels' names as `sardonyx.labels`. Raises
    InvalidArgument where the family is not certain, or an option does not fit the model.
    """
    try:
        return _Suffix(model, detection, picture, channels).build()
    except InvalidArgument as error:
        if not detection.option or str(error).startswith("--"):
            raise
        raise InvalidArgument(f"{detection.option}: {error}") from None


class _Suffix:
    """What stands behind a detector's outputs."""

    def __init__(self, model: Model, told: Detection, picture: Picture | None, channels: int) -> None:
        self._told = told
        self._labels = list(told.labels) or labels_of(model.metadata)
        if told.head and told.head not in HEADS:
            raise InvalidArgument(f"head={told.head}: there are {', '.join(HEADS)}")
        if not 0 <= told.threshold < 1:
            raise InvalidArgument(f"threshold={told.threshold:g}: write a number from 0 to below 1")
        if told.overlap is not None and not 0 <= told.overlap <= 1:
            raise InvalidArgument(f"overlap={told.overlap:g}: write a number from 0 to 1")
        if told.most < 1:
            raise InvalidArgument(f"most={told.most}: write a number above 0")
        self._sight = Sight(model, picture, channels)
        self._outputs = self._sight.outputs
        self._frame = Frame(*self._sight.size, len(self._labels), told.priors)
        self._keypoints = "kpt_shape" in model.metadata
        self._word = told.head or recognized(self._outputs, self._frame, model.metadata)
        self._head: Head = HEADS[self._word]
        self._picture = picture or self._usual_picture()

    def build(self) -> Model:
        decoded = chosen(self._word, self._outputs)
        places = [self._outputs.index(value) for value in decoded]
        rewritten = self._sight.rewritten(self._picture, OUTPUTS)
        nodes = Nodes(rewritten.model.graph, "detection")
        frame = replace(self._frame, labels=self._labelled(decoded[0]))
        candidates = self._head.decode(nodes, [rewritten.outputs[place] for place in places], frame)
        boxes, scores, labels = keep(nodes, candidates, self._limits(candidates.classes))
        boxes = rewritten.boxes(nodes, boxes)
        ends = ((boxes, TensorType(dtypes.float32, ("n", 4))), (scores, TensorType(dtypes.float32, ("n",))))
        return rewritten.ended(nodes, [*ends, (labels, TensorType(dtypes.int64, ("n",)))], self._labels)

    def _usual_picture(self) -> Picture:
        picture = self._head.pictures(self._sight.input.name)
        if picture is None:
            raise InvalidArgument(
                f"head={self._word}: how its pictures are normalized differs from model to model; say "
                f"--image {self._sight.input.name}:mean=..,std=.."
            )
        return picture

    def _labelled(self, output: Value) -> int:
        """How many classes there are, 0 if only the head tells: where masks follow, they tell, too."""
        if self._word not in BEFORE:
            return len(self._labels)
        axis, first = BEFORE[self._word]
        width = (output.shape or ())[axis]
        if not isinstance(width, int):
            return len(self._labels)
        masks = [value.shape[1] for value in self._outputs if value.shape and len(value.shape) == 4]
        more = masks[0] if masks and isinstance(masks[0], int) else 0
        count, told = width - first, len(self._told.labels)
        if told and not more and not self._keypoints and told != count:
            raise InvalidArgument(f"output {output.name!r} is {output.type}: {count} classes, and {told} labels")
        return len(self._labels) or (count - more if more else 0)

    def _limits(self, classes: int) -> Limits:
        """What is kept of so many classes, 0 where that is not known."""
        told = self._told
        overlap = told.overlap
        if not self._head.overlaps and (overlap is not None or told.across):
            raise InvalidArgument(f"head={self._word} gives boxes that do not overlap; leave out overlap and across")
        if self._head.overlaps:
            overlap = OVERLAP if overlap is None else overlap
        return Limits(
            told.threshold, overlap, told.most, [self._number(each, classes) for each in told.classes], told.across
        )

    def _number(self, wanted: int | str, classes: int) -> int:
        if isinstance(wanted, str):
            if wanted not in self._labels:
                known = ", ".join(self._labels) or "none, since nothing names them: say labels="
                raise InvalidArgument(f"classes: there is no {wanted!r}; there are {known}")
            return self._labels.index(wanted)
        if wanted < 0 or (classes and wanted >= classes):
            raise InvalidArgument(f"classes: there is no {wanted}; there are 0 to {classes - 1}")
        return wanted
