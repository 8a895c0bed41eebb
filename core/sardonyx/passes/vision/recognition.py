"""Of which family a detector is: by the names and shapes of its outputs, or by what is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Value
from sardonyx.model.ir.types import DimLike
from sardonyx.passes.vision.heads import BINS, HEADS, STRIDES, Frame, grid

TASKS = ("detect", "segment", "pose")
"""Those of ultralytics whose models give upright boxes."""


def recognized(outputs: Sequence[Value], frame: Frame, metadata: Mapping[str, str]) -> str:
    """The word in HEADS for a model with these outputs, whose shapes are known.

    Raises InvalidArgument where none fits, or several do; it says which words to choose from.
    """
    if (task := metadata.get("task", "detect")) not in TASKS:
        raise InvalidArgument(f"the model's metadata says task={task}; boxes come of {', '.join(TASKS)}")
    names = {value.name for value in outputs}
    for word in ("ssd-ready", "ssd-listed", "mmdetection"):
        if names.issuperset(HEADS[word].outputs):
            return word
    if names.issuperset(HEADS["torchvision"].outputs) and _ranks(outputs, HEADS["torchvision"].outputs) == [2, 1, 1]:
        return "torchvision"
    if names.issuperset(HEADS["detr"].outputs):
        return _of_logits(outputs, frame)
    words = _of_rows(outputs, frame)
    if len(words) == 1:
        return words[0]
    if words:
        raise InvalidArgument(f"{told_of(outputs)} may be of several families: say {options(words)}")
    raise InvalidArgument(f"{told_of(outputs)} is of no known family: say head=, which is one of {', '.join(HEADS)}")


def _of_logits(outputs: Sequence[Value], frame: Frame) -> str:
    (logits,) = (value for value in outputs if value.name == "logits")
    count = logits.shape[-1] if logits.shape else None
    if frame.labels and count in (frame.labels, frame.labels + 1):
        return "rtdetr" if count == frame.labels else "detr"
    raise InvalidArgument(f"{told_of(outputs)} may be of several families: say {options(['detr', 'rtdetr'])}")


def _of_rows(outputs: Sequence[Value], frame: Frame) -> list[str]:
    """The words for an output [1, A, B]."""
    wide = [value.shape for value in outputs if value.shape and len(value.shape) == 3]
    if len(wide) != 1:
        if [value.shape[1:] for value in outputs if value.shape and len(value.shape) == 2] == [(7,)]:
            return ["yolov7-ready"]
        if _is_of_grids(wide, frame):
            return ["picodet"]
        return ["ssd", "yolo-nas", "detr", "rtdetr"] if len(wide) == 2 else []
    few, many = (len(grid(frame.height, frame.width, strides)) for strides in (STRIDES, (*STRIDES, 64)))
    _, rows, columns = wide[0]
    if columns in (few, many) and rows not in (few, many):
        return ["yolov8"]
    if rows in (3 * few, 3 * many):
        return ["yolov5"]
    if rows == many:
        return ["nanodet-plus"]
    if rows == few:
        if frame.labels:
            return ["nanodet"] if columns == frame.labels + 32 else ["yolox", "yolov5"]
        return ["yolox", "yolov5", "nanodet"]
    if frame.labels and columns == 4 + frame.labels:
        return ["ready", "rtdetr-rows"] if columns == 6 else ["rtdetr-rows"]
    return ["ready"] if columns == 6 else []


def chosen(word: str, outputs: Sequence[Value]) -> list[Value]:
    """The outputs that a head decodes, in its order; InvalidArgument where the model has no such."""
    head = HEADS[word]
    by_name = {value.name: value for value in outputs}
    wide = [value for value in outputs if len(value.shape or ()) == 3]
    if not head.outputs:
        found = [value for value in outputs if len(value.shape or ()) == head.axes]
        found = found if head.every else found[:1]
    elif all(name in by_name for name in head.outputs):
        found = [by_name[name] for name in head.outputs]
    elif len(head.outputs) == 2 and len(wide) == 2 and any(map(_has_four, wide)):
        found = sorted(wide, key=_has_four, reverse=head.outputs[0] == "boxes")
    else:
        found = []
    if not found:
        raise InvalidArgument(f"head={word} decodes {head.says}, and the model gives {told_of(outputs)}")
    return found


def _ranks(outputs: Sequence[Value], names: Sequence[str]) -> list[int]:
    """How many axes the outputs of these names have."""
    by_name = {value.name: len(value.shape or ()) for value in outputs}
    return [by_name[name] for name in names]


def _is_of_grids(shapes: Sequence[Sequence[DimLike]], frame: Frame) -> bool:
    """Whether outputs are rows of classes for each of four grids, and then of distances."""
    strides = (*STRIDES, 64)
    cells = [len(grid(frame.height, frame.width, (stride,))) for stride in strides]
    return [shape[1] for shape in shapes] == cells * 2 and all(shape[2] == 4 * BINS for shape in shapes[len(cells) :])


def _has_four(value: Value) -> bool:
    """Whether an output has the sides of boxes."""
    return value.shape is not None and value.shape[-1:] == (4,)


def told_of(outputs: Sequence[Value]) -> str:
    """Outputs as errors tell them."""
    return ", ".join(f"{value.name} {value.type}" for value in outputs)


def options(words: Sequence[str]) -> str:
    """What to say: the words with what they stand for."""
    return ", or ".join(f"head={word} ({HEADS[word].says})" for word in words)
