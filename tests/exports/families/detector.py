"""A detector (SSD, Liu et al., 2016): boxes from two levels, of which non-maximum suppression keeps few."""

from __future__ import annotations

from typing import Any

import torch
from onnxscript import INT64, opset18
from torch import Tensor, nn

from tests.exports.case import IMAGE_AXES, Case, image

OVERLAP = 0.5


@torch.library.custom_op("sardonyx::nms", mutates_args=())
def nms(boxes: Tensor, scores: Tensor) -> Tensor:
    """Return the indices of boxes (corners x, y) kept of (n, 4), best first."""
    order, kept = scores.argsort(descending=True).tolist(), []
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    for index in order:
        low = torch.maximum(boxes[index, :2], boxes[kept, :2])
        high = torch.minimum(boxes[index, 2:], boxes[kept, 2:])
        shared = (high - low).clamp(min=0).prod(-1)
        if not (shared / (areas[index] + areas[kept] - shared) > OVERLAP).any():
            kept.append(index)
    return torch.tensor(kept, dtype=torch.int64)


@nms.register_fake
def _(boxes: Tensor, scores: Tensor) -> Tensor:
    return boxes.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64)


def translation(boxes: Any, scores: Any) -> INT64:
    op = opset18
    most, overlap = op.Constant(value_ints=[2**31]), op.Constant(value_float=OVERLAP)
    boxes, scores = (
        op.Unsqueeze(boxes, op.Constant(value_ints=[0])),
        op.Unsqueeze(scores, op.Constant(value_ints=[0, 1])),
    )
    found = op.NonMaxSuppression(boxes, scores, most, overlap)
    return op.Gather(found, op.Constant(value_int=2), axis=1)


def symbolic(graph: Any, boxes: Any, scores: Any) -> Any:
    def constant(value: Any) -> Any:
        return graph.op("Constant", value_t=torch.tensor(value))

    boxes = graph.op("Unsqueeze", boxes, constant([0]))
    scores = graph.op("Unsqueeze", scores, constant([0, 1]))
    found = graph.op("NonMaxSuppression", boxes, scores, constant([2**31]), constant([OVERLAP]))
    return graph.op("Gather", found, constant(2), axis_i=1)


class Detector(nn.Module):
    """Returns, for the best boxes of the first image whatever their class: corners, scores, classes."""

    def __init__(self) -> None:
        super().__init__()
        self.levels = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, b, 3, stride, 1), nn.BatchNorm2d(b), nn.ReLU())
            for a, b, stride in ((3, 16, 8), (16, 16, 2))
        )
        self.boxes, self.classes = nn.Conv2d(16, 2 * 4, 3, padding=1), nn.Conv2d(16, 2 * 5, 3, padding=1)
        self.register_buffer("anchors", torch.tensor([[1.0, 1.0], [1.5, 0.7]]))

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, found, scored = image, [], []
        for level, layer in enumerate(self.levels):
            x = layer(x)
            rows, columns = x.shape[-2:]
            y, x_ = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
            places = torch.stack([x_, y], dim=-1).to(x.dtype)[None, :, :, None] + 0.5
            raw = self.boxes(x).permute(0, 2, 3, 1).unflatten(-1, (2, 4))
            step = 8.0 * 2**level
            centres = (places + raw[..., :2].tanh()) * step
            sides = self.anchors * raw[..., 2:].clamp(max=1.0).exp() * step
            found.append(torch.cat([centres - sides, centres + sides], dim=-1).flatten(1, 3))
            scored.append(self.classes(x).permute(0, 2, 3, 1).unflatten(-1, (2, 5)).flatten(1, 3))
        boxes = torch.cat(found, dim=1)[0]
        scores, classes = torch.cat(scored, dim=1)[0].softmax(-1).max(-1)
        good = torch.nonzero(scores > 0.25)[:, 0]
        boxes, scores, classes = boxes[good], scores[good], classes[good]
        kept = nms(boxes, scores)
        return boxes[kept], scores[kept], classes[kept]


def detector() -> Case:
    return Case(
        *(Detector(), image, IMAGE_AXES, ((2, 64), (1, 96))),
        translations={torch.ops.sardonyx.nms.default: translation},
        symbolics={"sardonyx::nms": symbolic},
    )
