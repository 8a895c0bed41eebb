"""What families of detectors give, and how boxes and scores come of it: one `Head` for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sardonyx.common import dtypes
from sardonyx.common.record import record, replace
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import TensorType, Value
from sardonyx.passes.nodes import Nodes, floats, integers
from sardonyx.passes.picture import Picture

STRIDES = (8, 16, 32)
"""Pixels of the input between the cells of a detector's grids."""
BINS = 8
"""Distances in a distribution of NanoDet, 0 to 7 strides."""
VARIANCES = (0.1, 0.2)
"""What offsets from priors and logarithms of sizes are multiplied by (Liu et al., 2016, and their code)."""
IMAGENET = ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))


@record(frozen=True)
class Frame:
    """What a head knows besides the model's outputs: the size of its input, labels, and priors float [N, 4] (centre
    and size, as parts of the input), if there are any."""

    height: int
    width: int
    labels: int = 0
    priors: NDArray[np.float64] | None = None


@record(frozen=True)
class Candidates:
    """Boxes [N, 4] (left, top, right, bottom in pixels of the input), and how sure each of `classes` is of them [C, N];
    or, where the model chose, scores [1, N] of boxes with `labels` [N]."""

    boxes: Value
    scores: Value
    classes: int = 0
    labels: Value | None = None


Decode = Callable[[Nodes, Sequence[Value], Frame], Candidates]


@record(frozen=True)
class Head:
    """A family: what is said of it, how it decodes, what its pictures are unless told, and whether boxes overlap.

    `outputs` are names of those of the model that are decoded. Without any, it is the first with so many `axes`, or
    `every` one that has them.
    """

    says: str
    decode: Decode
    picture: Mapping[str, Any] | None
    outputs: tuple[str, ...] = ()
    overlaps: bool = True
    axes: int = 3
    every: bool = False

    def pictures(self, name: str) -> Picture | None:
        """The picture that such a model takes as its input `name`, None where that differs from model to model."""
        return None if self.picture is None else Picture(name, **self.picture)


def grid(height: int, width: int, strides: Sequence[int]) -> NDArray[np.float64]:
    """Column, row and stride of every cell: [cells, 3], grid by grid, rows from the top.

    >>> grid(16, 32, (16,)).tolist()
    [[0.0, 0.0, 16.0], [1.0, 0.0, 16.0]]
    """
    cells = []
    for stride in strides:
        rows, columns = np.mgrid[: -(-height // stride), : -(-width // stride)]
        cells.append(np.stack([columns.ravel(), rows.ravel(), np.full(rows.size, stride)], 1))
    return np.concatenate(cells).astype(np.float64)


def yolov5(nodes: Nodes, outputs: Sequence[Value], frame: Frame) -> Candidates:
    """[1, N, 5 + C]: centre and size in pixels, how sure of an object, and of each class if there is one."""
    rows = _row(nodes, outputs[0])
    boxes = _corners(nodes, _part(nodes, rows, 1, 0, 2), _part(nodes, rows, 1, 2, 4))
    return Candidates(boxes, *_conditional(nodes, rows, _classes(frame, outputs[0], 2, 5, more=True)))


def yolov8(nodes: Nodes, outputs: Sequence[Value], frame: Frame) -> Candidates:
    """[1, 4 + C, N]: centre and size in pixels, and how sure of each class; coefficients of masks may follow."""
    columns = _row(nodes, outputs[0])
    rows = nodes.add("Transpose", _part(nodes, columns, 0, 0, 4), perm=[1, 0])
    boxes = _corners(nodes, _part(nodes, rows, 1, 0, 2), _part(nodes, rows, 1, 2, 4))
    classes = _classes(frame, outputs[0], 1, 4, more=True)
    return Candidates(boxes, _part(nodes, columns, 0, 4, 4 + classes), classes)


def yolox(nodes: Nodes, outputs: Sequence[Value], frame: Frame) -> Candidates:
    """[1, N, 5 + C]: offsets of centres from their cells and logarithms of sizes, in strides (Ge et al., 2021)."""
    rows = _row(nodes, outputs[0])
    cells = grid(frame.height, frame.width, _strides(frame, _length(outputs[0], 1)))
    stride = floats(cells[:, 2:])
    centres = nodes.add("Mul", nodes.add("Add", _part(nodes, rows, 1, 0, 2), floats(cells[:, :2])), stride)
    sizes = nodes.add("Mul", nodes.add("Exp", _part(nodes, rows, 1, 2, 4)), stride)
    return Candidates(_corners(nodes, centres, sizes), *_conditional(nodes, rows, _classes(frame, outputs[0], 2, 5)))


def _distances(shift: float) -> Decode:
    def decode(nodes: Nodes, outputs: Sequence[Value], frame: Frame) -> Candidates:
        """[1, N, C + 4 * bins]: how sure of each class, and for each side a distribution of its distance in strides
        from the cell (generalized focal loss, Li et al., 2020)."""
        rows = _row(nodes, outputs[0])
        bins = (_length(outputs[0], 2) - frame.labels) // 4 if frame.labels else BINS
        classes = _classes(frame, outputs[0], 2, 4 * bins)
        cells = grid(frame.height, frame.width, _strides(frame, _length(outputs[0], 1)))
        logits = nodes.add("Reshape", _part(nodes, rows, 1, classes, None), integers([-1, 4, bins]))
        shares = nodes.add("Mul", nodes.add("Softmax", logits, axis=-1), floats(np.arange(bins)))
        sides = nodes.add("Mul", nodes.add("ReduceSum", shares, integers([2]), keepdims=0), floats(cells[:, 2:]))
        points = floats((cells[:, :2] + shift) * cells[:, 2:])
        first = nodes.add("Sub", points, _part(nodes, sides, 1, 0, 2))
        last = nodes.add("Add", points, _part(nodes, sides, 1, 2, 4))
        boxes = nodes.add("Concat", first, last, axis=1)
        return Candidates(boxes, nodes.add("Transpose", _part(nodes, rows, 1, 0, classes), perm=[1, 0]), classes)

    return decode


def picodet(nodes: Nodes, outputs: Sequence[Value], frame: Frame) -> Candidates:
    """For each grid how sure of each class [1, N, C], then for each of them distributions [1, N, 4 * bins], as NanoDet
    has them (Yu et al., 2021)."""
    grids = len(outputs) // 2
    parts = [nodes.add("Concat", *map(partial(_floating, nodes), outputs[k::grids]), axis=2) for k in range(grids)]
    rows = nodes.add("Concat", *parts, axis=1)
    width = _length(outputs[0], 2) + _length(outputs[grids], 2)
    rows.type = TensorType(dtypes.float32, (1, sum(_length(output, 1) for output in outputs[:grids]), width))
    return _distances(0.5)(nodes, [rows], replace(frame, labels=_classes(frame, outputs[0], 2, 0)))


def ssd(nodes: Nodes, outputs: Sequence[Value], frame: Frame) -> Candidates:
    """Boxes [1, N, 4], corners as parts of the input or, where there are priors, offsets from them; and shares of
    classes [1, N, 1 + C], the background first (Liu et al., 2016)."""
    told, shares = (_row(nodes, output) for output in outputs)
    if frame.priors is None:
        boxes = told
    else:
        places, sizes = floats(frame.priors[:, :2]), floats(frame.priors[:, 2:])
        moved = nodes.add("Mul", nodes.add("Mul", _part(nodes, told, 1, 0, 2), floats(VARIANCES[0])), sizes)
        grown = nodes.add("Exp", nodes.add("Mul", _part(nodes, told, 1, 2, 4), floats(VARIANCES[1])))
        boxes = _corners(nodes, nodes.add("Add", places, moved), nodes.add("Mul", grown, sizes))
    classes = nodes.add("Transpose", _part(nodes, shares, 1, 1, None), perm=[1, 0])
    return Candidates(_in_pixels(nodes, boxes, frame), classes, _classes(frame, outputs[1], 2, 1))


def ssd_ready(nodes: Nodes, outputs: Sequence[Value], frame: Frame) -> Candidates:
    """What TensorFlow's detectors give: boxes [1, n, 4] (top, left, bottom, right as parts), classes and scores [1, n],
    the classes counted from 1."""
    boxes, classes, scores = (_row(nodes, output) for output in outputs[:3])
    boxes = nodes.add("Gather", boxes, integers([1, 0, 3, 2]), axis=1)
    labels = nodes.add("Sub", nodes.add("Cast", classes, to=dtypes.int64.number), integers(1))
    return Candidates(_in_pixels(nodes, boxes, frame), nodes.add("Unsqueeze", scores, integers([0])), labels=labels)


def ssd_listed(nodes: Nodes, outputs: Sequence[Value], frame: Frame) -> Candidates:
    """What the SSD of ONNX's zoo gives: boxes [1, n, 4] (left, top, right, bottom as parts), labels, counted from 1,
    and scores [1, n]."""
    boxes, classes, scores = (_row(nodes, output) for output in outputs[:3])
    labels = nodes.add("Sub", nodes.add("Cast", classes, to=dtypes.int64.number), integers(1))
    return Candidates(_in_pixels(nodes, boxes, frame), nodes.add("Unsqueeze", scores, integers([0])), labels=labels)


def ready(nodes: Nodes, outputs: Sequence[Value], frame: Frame) -> Candidates:
    """[1, n, 6]: left, top, right and bottom in pixels, score, class."""
    rows = _row(nodes, outputs[0])
    scores = nodes.add("Transpose", _part(nodes, rows, 1, 4, 5), perm=[1, 0])
    labels = nodes.add("Cast", nodes.add("Squeeze", _part(nodes, rows, 1, 5, 6), integers([1])), to=dtypes.int64.number)
    return Candidates(_part(nodes, rows, 1, 0, 4), scores, labels=labels)


def rows_of_batch(nodes: Nodes, outputs: Sequence[Value], frame: Frame) -> Candidates:
    """[n, 7]: number of the picture, left, top, right and bottom in pixels, class, score."""
    rows = _floating(nodes, outputs[0])
    scores = nodes.add("Transpose", _part(nodes, rows, 1, 6, 7), perm=[1, 0])
    labels = nodes.add("Cast", nodes.add("Squeeze", _part(nodes, rows, 1, 5, 6), integers([1])), to=dtypes.int64.number)
    return Candidates(_part(nodes, rows, 1, 1, 5), scores, labels=labels)


def mmdetection(nodes: Nodes, outputs: Sequence[Value], frame: Frame) -> Candidates:
    """Boxes [1, n, 5], left, top, right and bottom in pixels, and score; and labels [1, n]."""
    rows = _row(nodes, outputs[0])
    labels = nodes.add("Cast", nodes.add("Squeeze", outputs[1], integers([0])), to=dtypes.int64.number)
    scores = nodes.add("Transpose", _part(nodes, rows, 1, 4, 5), perm=[1, 0])
    return Candidates(_part(nodes, rows, 1, 0, 4), scores, labels=labels)


def torchvision(nodes: Nodes, outputs: Sequence[Value], frame: Frame) -> Candidates:
    """Boxes [n, 4], left, top, right and bottom in pixels, labels [n], counted from 1, and scores [n]."""
    boxes, scores = (_floating(nodes, outputs[k]) for k in (0, 2))
    labels = nodes.add("Sub", nodes.add("Cast", outputs[1], to=dtypes.int64.number), integers(1))
    return Candidates(boxes, nodes.add("Unsqueeze", scores, integers([0])), labels=labels)


def yolo_nas(nodes: Nodes, outputs: Sequence[Value], frame: Frame) -> Candidates:
    """Boxes [1, N, 4], left, top, right and bottom in pixels, and how sure of each class [1, N, C]."""
    boxes, shares = (_row(nodes, output) for output in outputs)
    return Candidates(boxes, nodes.add("Transpose", shares, perm=[1, 0]), _classes(frame, outputs[1], 2, 0))


def detr(nodes: Nodes, outputs: Sequence[Value], frame: Frame) -> Candidates:
    """Logits [1, N, C + 1], the last of them for no object, and boxes [1, N, 4], centre and size as parts of the input
    (Carion et al., 2020)."""
    logits, boxes = (_row(nodes, output) for output in outputs)
    shares = nodes.add("Softmax", logits, axis=-1)
    classes = nodes.add("Transpose", _part(nodes, shares, 1, 0, -1), perm=[1, 0])
    return Candidates(_centred(nodes, boxes, frame), classes, _classes(frame, outputs[0], 2, 1))


def rtdetr(nodes: Nodes, outputs: Sequence[Value], frame: Frame) -> Candidates:
    """Logits [1, N, C], each by itself, and boxes [1, N, 4], centre and size as parts (Zhao et al., 2024)."""
    logits, boxes = (_row(nodes, output) for output in outputs)
    shares = nodes.add("Sigmoid", nodes.add("Transpose", logits, perm=[1, 0]))
    return Candidates(_centred(nodes, boxes, frame), shares, _classes(frame, outputs[0], 2, 0))


def rtdetr_rows(nodes: Nodes, outputs: Sequence[Value], frame: Frame) -> Candidates:
    """[1, N, 4 + C]: centre and size as parts of the input, and how sure of each class."""
    rows = _row(nodes, outputs[0])
    classes = nodes.add("Transpose", _part(nodes, rows, 1, 4, None), perm=[1, 0])
    boxes = _centred(nodes, _part(nodes, rows, 1, 0, 4), frame)
    return Candidates(boxes, classes, _classes(frame, outputs[0], 2, 4))


def _row(nodes: Nodes, output: Value) -> Value:
    """The one element of a batch, in float32."""
    return nodes.add("Squeeze", _floating(nodes, output), integers([0]))


def _floating(nodes: Nodes, output: Value) -> Value:
    """An output in float32."""
    return output if output.dtype is dtypes.float32 else nodes.add("Cast", output, to=dtypes.float32.number)


def _part(nodes: Nodes, x: Value, axis: int, start: int, stop: int | None) -> Value:
    end = np.iinfo(np.int64).max if stop is None else stop
    return nodes.add("Slice", x, integers([start]), integers([end]), integers([axis]))


def _corners(nodes: Nodes, centres: Value, sizes: Value) -> Value:
    """Left, top, right and bottom."""
    half = nodes.add("Mul", sizes, floats(0.5))
    return nodes.add("Concat", nodes.add("Sub", centres, half), nodes.add("Add", centres, half), axis=1)


def _conditional(nodes: Nodes, rows: Value, classes: int) -> tuple[Value, int]:
    """[C, N] of rows [N, 5 + C]: how sure of an object, times how sure of a class if there is one; and how many."""
    columns = nodes.add("Transpose", _part(nodes, rows, 1, 4, 5 + classes), perm=[1, 0])
    return nodes.add("Mul", _part(nodes, columns, 0, 0, 1), _part(nodes, columns, 0, 1, None)), classes


def _in_pixels(nodes: Nodes, boxes: Value, frame: Frame) -> Value:
    return nodes.add("Mul", boxes, floats([frame.width, frame.height] * 2))


def _centred(nodes: Nodes, boxes: Value, frame: Frame) -> Value:
    scaled = _in_pixels(nodes, boxes, frame)
    return _corners(nodes, _part(nodes, scaled, 1, 0, 2), _part(nodes, scaled, 1, 2, 4))


def _length(output: Value, axis: int) -> int:
    assert output.shape is not None
    size = output.shape[axis]
    if not isinstance(size, int):
        raise InvalidArgument(f"output {output.name!r} is {output.type}, of which the sizes must be known")
    return size


def _classes(frame: Frame, output: Value, axis: int, others: int, more: bool = False) -> int:
    """How many classes an output has along an axis besides `others`; if `more`, something else may follow them."""
    count = _length(output, axis) - others
    if count < 1:
        raise InvalidArgument(f"output {output.name!r} is {output.type}, which has no room for classes")
    if frame.labels > count or (frame.labels and frame.labels < count and not more):
        raise InvalidArgument(f"output {output.name!r} is {output.type}: {count} classes, and {frame.labels} labels")
    return frame.labels or count


def _strides(frame: Frame, count: int) -> Sequence[int]:
    """The strides of grids that have so many cells, three of them or four."""
    for strides in (STRIDES, (*STRIDES, 64)):
        if len(grid(frame.height, frame.width, strides)) == count:
            return strides
    size = f"{frame.height}x{frame.width}"
    raise InvalidArgument(f"an input of {size} has no grids of {count} cells: say another head=, or resize=")


LETTERBOX = {"fit": "contain", "pad": 114.0}
BLUE_FIRST = {"mean": IMAGENET[0][::-1], "std": IMAGENET[1][::-1], "order": "bgr"}
HEADS = {
    "yolov5": Head("one output [1, N, 5 + C]: boxes, object, classes", yolov5, LETTERBOX),
    "yolov8": Head("one output [1, 4 + C, N]: boxes, classes", yolov8, LETTERBOX),
    "yolox": Head(
        "one output [1, N, 5 + C] on grids", yolox, {"fit": "corner", "pad": 114.0, "std": (1.0,), "order": "bgr"}
    ),
    "nanodet": Head("one output [1, N, C + 32]: distances from the cells' centres", _distances(0.5), BLUE_FIRST),
    "nanodet-plus": Head("one output [1, N, C + 32]: distances from the cells' corners", _distances(0.0), BLUE_FIRST),
    "picodet": Head(
        "for each grid classes [1, N, C], and then for each [1, N, 32]: distances from the cells' centres",
        picodet,
        {"mean": IMAGENET[0], "std": IMAGENET[1]},
        every=True,
    ),
    "ssd": Head("boxes [1, N, 4] and shares [1, N, 1 + C], the background first", ssd, None, ("boxes", "scores")),
    "ssd-listed": Head(
        "bboxes [1, n, 4], labels and scores [1, n]", ssd_listed, None, ("bboxes", "labels", "scores"), overlaps=False
    ),
    "ssd-ready": Head(
        "detection_boxes [1, n, 4], detection_classes and detection_scores [1, n]",
        ssd_ready,
        None,
        ("detection_boxes", "detection_classes", "detection_scores"),
        overlaps=False,
    ),
    "ready": Head("one output [1, n, 6]: corners, score, class", ready, LETTERBOX, overlaps=False),
    "yolov7-ready": Head(
        "one output [n, 7]: number of the picture, corners, class, score",
        rows_of_batch,
        LETTERBOX,
        overlaps=False,
        axes=2,
    ),
    "yolo-nas": Head("boxes [1, N, 4], corners in pixels, and scores [1, N, C]", yolo_nas, None, ("boxes", "scores")),
    "mmdetection": Head("dets [1, n, 5] and labels [1, n]", mmdetection, None, ("dets", "labels"), overlaps=False),
    "torchvision": Head(
        "boxes [n, 4], labels [n], counted from 1, and scores [n]",
        torchvision,
        {},
        ("boxes", "labels", "scores"),
        overlaps=False,
    ),
    "detr": Head(
        "logits [1, N, C + 1] and pred_boxes [1, N, 4]: softmax, the last class for none",
        detr,
        {"mean": IMAGENET[0], "std": IMAGENET[1]},
        ("logits", "pred_boxes"),
        overlaps=False,
    ),
    "rtdetr": Head(
        "logits [1, N, C] and pred_boxes [1, N, 4]: sigmoid", rtdetr, {}, ("logits", "pred_boxes"), overlaps=False
    ),
    "rtdetr-rows": Head("one output [1, N, 4 + C]: boxes as parts, classes", rtdetr_rows, {}, overlaps=False),
}
"""By the words that name them."""
