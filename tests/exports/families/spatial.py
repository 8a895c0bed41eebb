"""Geometry: a spatial transformer (Jaderberg et al., 2015), convolutions of volumes, and message passing on graphs."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.exports.case import IMAGE_AXES, Arguments, Case, image


class SpatialTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 8, 5, 2), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten())
        self.pose = nn.Linear(8, 6)

    def forward(self, image: Tensor) -> Tensor:
        pose = self.pose(self.layers(image)).view(-1, 2, 3) * 0.1 + torch.eye(2, 3)
        down, right = ((2 * torch.arange(size) + 1) / size - 1.0 for size in image.shape[2:])
        y, x = torch.meshgrid(down, right, indexing="ij")
        grid = torch.stack([x, y, torch.ones_like(x)], dim=-1) @ pose.transpose(1, 2)[:, None]
        return functional.grid_sample(image, grid, padding_mode="border", align_corners=False)


class Volumes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Conv3d(1, 8, 3, padding=1), nn.BatchNorm3d(8), nn.ReLU6(), nn.MaxPool3d(2)),
            *(nn.Conv3d(8, 12, (1, 3, 3), (1, 2, 2), (0, 1, 1)), nn.CELU(), nn.AvgPool3d(3, 1, 1)),
            nn.ConvTranspose3d(12, 4, 2, 2),
        )

    def forward(self, volume: Tensor) -> Tensor:
        return self.layers(volume)


class MessagePassing(nn.Module):
    """Nodes add up, average and take the largest of what their neighbours send; a graph is what its nodes are."""

    def __init__(self) -> None:
        super().__init__()
        self.message, self.update, self.gate = nn.Linear(16, 8), nn.Linear(32, 8), nn.Linear(32, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, nodes: Tensor, edges: Tensor, graph: Tensor) -> Tensor:
        source, target = edges
        message = torch.relu(self.message(torch.cat([nodes[source], nodes[target]], dim=-1)))
        count = torch.zeros_like(nodes[:, 0]).scatter_add(0, target, torch.ones_like(target, dtype=nodes.dtype))
        index = target[:, None].expand(-1, 8)
        summed = torch.zeros_like(nodes).scatter_add(0, index, message)
        largest = torch.zeros_like(nodes).scatter_reduce(0, index, message, reduce="amax", include_self=True)
        known = torch.cat([nodes, summed, summed / count.clamp(min=1)[:, None], largest], dim=-1)
        nodes = torch.lerp(nodes, torch.tanh(self.update(known)), torch.sigmoid(self.gate(known)))
        pooled = nodes.new_zeros(4, 8).scatter_add(0, graph[:, None].expand(-1, 8), nodes)
        return self.head(pooled)


def spatial_transformer() -> Case:
    return Case(SpatialTransformer(), image, IMAGE_AXES, ((2, 24), (1, 33)))


def volumes() -> Case:
    def arguments(batch: int, size: int) -> Arguments:
        return {"volume": torch.randn(batch, 1, size, size + 4, size + 8)}

    axes = {"volume": {0: "batch", 2: "depth", 3: "height", 4: "width"}}
    return Case(Volumes(), arguments, axes, ((2, 8), (1, 12)))


def message_passing() -> Case:
    def arguments(graphs: int, nodes: int) -> Arguments:
        return {
            "nodes": torch.randn(nodes, 8),
            "edges": torch.randint(0, nodes, (2, 3 * nodes)),
            "graph": torch.sort(torch.randint(0, graphs, (nodes,)))[0],
        }

    axes = {"nodes": {0: "nodes"}, "edges": {1: "edges"}, "graph": {0: "nodes"}}
    return Case(MessagePassing(), arguments, axes, ((4, 10), (3, 21)))
