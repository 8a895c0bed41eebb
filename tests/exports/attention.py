"""Attention of a sequence to itself, and a layer around it, as they are written where both exporters must follow."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional


class SelfAttention(nn.Module):
    """Attention within (batch, length, width); nn.MultiheadAttention when traced ties a model to one length."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.projections = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.projections(x).reshape(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.output(y.transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):
    """A layer of a transformer that normalises first (Xiong et al., 2020)."""

    def __init__(self, width: int, heads: int, activation: nn.Module) -> None:
        super().__init__()
        self.attention = SelfAttention(width, heads)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.layers = nn.Sequential(nn.Linear(width, 2 * width), activation, nn.Linear(2 * width, width))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = x + self.attention(self.norms[0](x), mask)
        return x + self.layers(self.norms[1](x))
