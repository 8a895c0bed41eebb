"""Checkpoints of parameters alone, as training begins with, and what training ended with put into a model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from sardonyx.common.atomic import replacing
from sardonyx.model.ir import Model, Tensor
from sardonyx.model.serde.writer import write
from sardonyx.quantization.proto import as_model
from sardonyx.training.checkpoint import Checkpoint, load, write_checkpoint


def save_checkpoint(
    parameters: tuple[Sequence[Tensor], Sequence[Tensor]],
    path_to_checkpoint: str | os.PathLike[str],
    nominal_checkpoint: bool = False,
) -> None:
    """Write what `TrainingBlock.parameters` gives; a nominal checkpoint has names and types, and no elements."""
    trainable, frozen = parameters
    with replacing(path_to_checkpoint) as file:
        file.write(write_checkpoint(Checkpoint(list(trainable), list(frozen), nominal_checkpoint)))


def load_checkpoint_to_model(path_to_checkpoint: str | os.PathLike[str], model: Any) -> None:
    """Give the initializers of a ModelProto the elements that a checkpoint has of them."""
    checkpoint = load(path_to_checkpoint)
    changed = as_model(model)
    set_parameters(changed, [*checkpoint.trainable, *checkpoint.frozen])
    model.ParseFromString(write(changed))


def set_parameters(model: Model, parameters: Sequence[Tensor]) -> None:
    """Give initializers of a model the elements of parameters of their names."""
    by_name = {tensor.name: tensor for tensor in parameters}
    for value in model.graph.initializers:
        if value.name in by_name:
            value.constant = by_name[value.name]
