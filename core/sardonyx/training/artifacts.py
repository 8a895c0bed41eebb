"""onnxruntime.training.artifacts: the files that training begins with."""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from sardonyx.errors import InvalidArgument, NotImplemented
from sardonyx.model.serde.writer import save
from sardonyx.training import onnxblock


class LossType(Enum):
    """The losses that `generate_artifacts` knows by name."""

    MSELoss = 1
    CrossEntropyLoss = 2
    BCEWithLogitsLoss = 3
    L1Loss = 4


class OptimType(Enum):
    """The optimizers that `generate_artifacts` knows by name."""

    AdamW = 1
    SGD = 2


class _Network(onnxblock.TrainingBlock):
    """A network with a loss behind its outputs, or behind those that are named."""

    def __init__(self, loss: onnxblock.Block, loss_inputs: Sequence[str], additional: Sequence[str]) -> None:
        super().__init__()
        self._loss, self._loss_inputs, self._additional = loss, loss_inputs, additional

    def build(self, *outputs: str) -> list[str]:
        made = self._loss(*(self._loss_inputs or outputs))
        return [*([made] if isinstance(made, str) else made), *self._additional]


def generate_artifacts(
    model: Any,
    requires_grad: Sequence[str] | None = None,
    frozen_params: Sequence[str] | None = None,
    loss: LossType | onnxblock.Block | None = None,
    optimizer: OptimType | onnxblock.Block | None = None,
    artifact_directory: str | os.PathLike[str] | None = None,
    prefix: str = "",
    ort_format: bool = False,
    custom_op_library: str | os.PathLike[str] | None = None,
    additional_output_names: Sequence[str] | None = None,
    nominal_checkpoint: bool = False,
    loss_input_names: Sequence[str] | None = None,
) -> None:
    """Write `training_model.onnx`, `eval_model.onnx`, `checkpoint` and, with an optimizer, `optimizer_model.onnx`.

    The model is a path, bytes or a ModelProto; `requires_grad` names the initializers that are trained, and
    `frozen_params` those that are inputs without being trained; others stay as they are. The loss takes the outputs of
    the model, or `loss_input_names`, and a new input `target`, or `labels` for classes; without a loss the first output
    is what is made small. `additional_output_names` are outputs behind the loss. `nominal_checkpoint` adds a file of
    that name without elements. Raises InvalidArgument where names do not fit the model.

    >>> import tempfile
    >>> from sardonyx.training import artifacts
    >>> from sardonyx.demo import assets
    >>> folder = tempfile.TemporaryDirectory()
    >>> artifacts.generate_artifacts(
    ...     str(assets() / "digits.onnx"),
    ...     requires_grad=["gemm_34.weight", "gemm_34.bias"],
    ...     loss=artifacts.LossType.MSELoss,
    ...     optimizer=artifacts.OptimType.AdamW,
    ...     artifact_directory=folder.name,
    ... )
    >>> sorted(os.listdir(folder.name))
    ['checkpoint', 'eval_model.onnx', 'optimizer_model.onnx', 'training_model.onnx']
    >>> folder.cleanup()
    """
    if ort_format:
        raise NotImplemented("ort_format=True: ONNX files alone are written; `sardonyx compile` makes bundles of them")
    if custom_op_library is not None:
        raise NotImplemented("custom_op_library: native libraries cannot be loaded; use sardonyx.custom_op")
    for name, given in (("additional_output_names", additional_output_names), ("loss_input_names", loss_input_names)):
        if isinstance(given, str):
            raise InvalidArgument(f"{name} is {given!r}; it is a list of names")
    if both := sorted({*(requires_grad or ())} & {*(frozen_params or ())}):
        raise InvalidArgument(f"{both[0]!r} is named by requires_grad and by frozen_params")
    network = _Network(_loss(loss), loss_input_names or (), additional_output_names or ())
    for name in requires_grad or ():
        network.requires_grad(name)
    for name in frozen_params or ():
        network.requires_grad(name, False)
    with onnxblock.base(model) as accessor:
        network(*accessor.draft.output_names())
        opset = accessor.draft.opset()
    models = network.models()
    folder = Path(artifact_directory or ".")
    save(models.training, folder / f"{prefix}training_model.onnx")
    save(models.evaluation, folder / f"{prefix}eval_model.onnx")
    onnxblock.save_checkpoint(network.parameters(), folder / f"{prefix}checkpoint")
    if nominal_checkpoint:
        onnxblock.save_checkpoint(network.parameters(), folder / f"{prefix}nominal_checkpoint", True)
    if optimizer is not None:
        with onnxblock.empty_base(opset):
            step = _optimizer(optimizer)
            step(network.parameters())
        save(step.to_model(), folder / f"{prefix}optimizer_model.onnx")


def _loss(loss: Any) -> onnxblock.Block:
    if loss is None:
        return onnxblock.blocks.PassThrough()
    if isinstance(loss, LossType):
        block: onnxblock.Block = getattr(onnxblock.loss, loss.name)()
        return block
    if isinstance(loss, onnxblock.Block):
        return loss
    raise InvalidArgument(f"loss is a {type(loss).__name__}, neither a LossType nor a block of onnxblock")


def _optimizer(optimizer: Any) -> onnxblock.ForwardBlock:
    if isinstance(optimizer, OptimType):
        block: onnxblock.ForwardBlock = getattr(onnxblock.optim, optimizer.name)()
        return block
    if isinstance(optimizer, onnxblock.ForwardBlock):
        return optimizer
    raise InvalidArgument(f"optimizer is a {type(optimizer).__name__}, neither an OptimType nor a block of optim")
