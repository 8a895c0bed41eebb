"""The detector: a small YOLO without anchors, and what it is taught with."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

STRIDES = (8, 16, 32)
REACHES = ((0, 44), (30, 88), (64, 1000))
"""Longer sides of the boxes, in pixels, that the cells of each grid are taught; between two grids both are."""
NEAR = 1.5
"""Strides from a box's middle to the farthest cells that are taught it."""


def convolve(inner: int, outer: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(inner, outer, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outer), nn.ReLU())


def separable(inner: int, outer: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(convolve(inner, inner, 3, stride, inner), convolve(inner, outer, 1))


class Detector(nn.Module):
    """Pictures [B, 3, S, S] in 0..1 to [B, 4 + classes, cells]: centre, width and height in pixels, and scores."""

    def __init__(self, classes: int, side: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(convolve(3, 16, 3, 2), separable(16, 32, 2), separable(32, 32))
        self.fine = nn.Sequential(separable(32, 56, 2), separable(56, 56))
        self.middle = nn.Sequential(separable(56, 80, 2), separable(80, 80))
        self.coarse = nn.Sequential(separable(80, 80, 2), separable(80, 80))
        self.sides = nn.ModuleList([convolve(width, 56, 1) for width in (56, 80, 80)])
        self.merged = nn.ModuleList([separable(56, 56), separable(56, 56)])
        self.heads = nn.ModuleList([nn.Sequential(separable(56, 56), nn.Conv2d(56, 4 + classes, 1)) for _ in STRIDES])
        for head in self.heads:
            nn.init.constant_(head[-1].bias[4:], -4)  # at first nothing is there
        centres, strides = cells(side)
        self.register_buffer("centres", centres.T[None].contiguous())
        self.register_buffer("strides", strides[None, None].contiguous())

    def raw(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Distances of the sides from each cell [B, 4, cells] (left, top, right, bottom in pixels), and logits."""
        fine = self.fine(self.stem(images))
        middle = self.middle(fine)
        coarse = self.sides[2](self.coarse(middle))
        middle = self.merged[1](self.sides[1](middle) + F.interpolate(coarse, scale_factor=2.0))
        fine = self.merged[0](self.sides[0](fine) + F.interpolate(middle, scale_factor=2.0))
        found = torch.cat([head(x).flatten(2) for head, x in zip(self.heads, (fine, middle, coarse))], 2)
        return F.softplus(found[:, :4]) * self.strides, found[:, 4:]

    def forward(self, images: Tensor) -> Tensor:
        distances, logits = self.raw(images)
        first, last = distances[:, :2], distances[:, 2:]
        return torch.cat([self.centres + (last - first) * 0.5, first + last, torch.sigmoid(logits)], 1)


def cells(side: int) -> tuple[Tensor, Tensor]:
    """The middles of all cells [cells, 2], x and y in pixels, and their strides [cells]."""
    middles, strides = [], []
    for stride in STRIDES:
        at = (torch.arange(side // stride) + 0.5) * stride
        y, x = torch.meshgrid(at, at, indexing="ij")
        middles.append(torch.stack([x.flatten(), y.flatten()], 1))
        strides.append(torch.full((len(at) ** 2,), float(stride)))
    return torch.cat(middles), torch.cat(strides)


def taught(boxes: Tensor, side: int) -> Tensor:
    """For boxes [B, M, 4], those that are none having no width: the number of the box that each cell is taught
    [B, cells], -1 for none."""
    middles, strides = cells(side)
    reaches = torch.tensor([reach for stride, reach in zip(STRIDES, REACHES) for _ in range((side // stride) ** 2)])
    x, y = middles.T[:, :, None]
    left, top, right, bottom = boxes[:, None].unbind(3)
    inside = (x > left) & (x < right) & (y > top) & (y < bottom)
    away = torch.maximum((x - (left + right) / 2).abs(), (y - (top + bottom) / 2).abs())
    longer = torch.maximum(right - left, bottom - top)
    low, high = reaches.T[:, None, :, None]
    fits = inside & (away < NEAR * strides[None, :, None]) & (longer > low) & (longer <= high)
    best = torch.where(fits, longer, torch.inf).min(2)
    return torch.where(best.values.isfinite(), best.indices, -1)


def likeness(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Of boxes [n, 4]: the shares of their unions that are shared, and these less what is empty of what surrounds both
    (GIoU; Rezatofighi et al., 2019)."""
    shared = (torch.minimum(a[:, 2:], b[:, 2:]) - torch.maximum(a[:, :2], b[:, :2])).clamp(min=0).prod(1)
    union = (a[:, 2:] - a[:, :2]).prod(1) + (b[:, 2:] - b[:, :2]).prod(1) - shared
    around = (torch.maximum(a[:, 2:], b[:, 2:]) - torch.minimum(a[:, :2], b[:, :2])).prod(1)
    return shared / union, shared / union - (around - union) / around


def loss(model: Detector, images: Tensor, boxes: Tensor, numbers: Tensor) -> Tensor:
    """What a batch is wrong by: boxes by GIoU; scores against the likeness of boxes (quality focal loss; Li et al.,
    2020)."""
    distances, logits = model.raw(images)
    chosen = taught(boxes, images.shape[-1])
    batch, cell = torch.nonzero(chosen >= 0, as_tuple=True)
    box = chosen[batch, cell]
    wanted = boxes[batch, box]
    middle = model.centres[0].T[cell]
    found = distances[batch, :, cell]
    found = torch.cat([middle - found[:, :2], middle + found[:, 2:]], 1)
    shares, likenesses = likeness(found, wanted)
    targets = torch.zeros_like(logits)
    targets[batch, numbers[batch, box], cell] = shares.detach().clamp(min=0)
    away = (targets - logits.sigmoid()).abs().square().detach()
    scores = (F.binary_cross_entropy_with_logits(logits, targets, reduction="none") * away).sum()
    return (scores + 2 * (1 - likenesses).sum()) / max(len(batch), 1)
