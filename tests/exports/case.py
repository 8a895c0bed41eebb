"""What one test exports: a module, its arguments at a size, and which axes may vary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

Arguments = dict[str, Any]
"""By the parameters of `forward`: each a tensor, or a list of them."""


@dataclass(frozen=True)
class Case:
    """A module, in the mode of inference, with `arguments(batch, size)` for any of `sizes`; the first is exported.

    `axes` has the names of the axes that vary, for each argument; what it says of a list holds for each of its tensors.
    `translations` maps custom operators to functions of onnxscript, and `symbolics` to those of the older exporter.
    """

    module: nn.Module
    arguments: Callable[[int, int], Arguments]
    axes: Mapping[str, Mapping[int, str]]
    sizes: tuple[tuple[int, int], ...]
    translations: Mapping[Any, Any] | None = None
    symbolics: Mapping[str, Any] | None = None


def image(batch: int, size: int) -> Arguments:
    """An image whose height is not its width."""
    return {"image": torch.randn(batch, 3, size, size + 16)}


IMAGE_AXES = {"image": {0: "batch", 2: "height", 3: "width"}}
