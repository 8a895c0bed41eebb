"""What a network that sees is for: detect, classify or segment, by its metadata and the shapes of its outputs."""

from __future__ import annotations

from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Model
from sardonyx.passes.picture import Picture
from sardonyx.passes.vision.recognition import TASKS, told_of
from sardonyx.passes.vision.sight import Sight

ROW = 7
"""Elements of a row that tells the number of its picture, a box, its class and its score."""
DETECT, CLASSIFY, SEGMENT = "detect", "classify", "segment"


def task_of(model: Model, picture: Picture | None = None) -> str:
    """ "detect", "classify" or "segment".

    What ultralytics wrote as `task` counts first. Else a first output [1, C] has classes, [1, C, h, w] where none has
    three axes has maps, and all others boxes, [n, 7] too, where n is not the input's number of pictures. Raises
    InvalidArgument where `task` is of another kind, or no output has a shape.
    """
    told = model.metadata.get("task", "")
    if told == CLASSIFY:
        return CLASSIFY
    if told in TASKS:
        return DETECT
    if told:
        raise InvalidArgument(f"the model's metadata says task={told}, which is none of detect, classify and segment")
    sight = Sight(model, picture)
    outputs = sight.outputs
    shapes = [value.shape for value in outputs if value.shape]
    if not shapes:
        raise InvalidArgument(f"{told_of(outputs)}: no output has a shape; say whether to detect, classify or segment")
    ranks = [len(shape) for shape in shapes]
    if ranks == [2] and shapes[0][1] == ROW and shapes[0][0] not in (1, *(sight.input.shape or ())[:1]):
        return DETECT
    if len(shapes) == 1 and sum(size != 1 for size in shapes[0][1:]) == 1 and ranks[0] in (2, 4):
        return CLASSIFY
    return SEGMENT if ranks[0] == 4 and 3 not in ranks else DETECT
