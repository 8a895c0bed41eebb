"""Blocks that end in models: a network that goes forward, and one that is trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sardonyx.errors import Fail
from sardonyx.model.ir import Model, Tensor
from sardonyx.passes.copy import copy_model
from sardonyx.quantization.proto import as_proto
from sardonyx.training.gradient_model import TrainingModels, differentiate
from sardonyx.training.onnxblock.blocks import Block

LOSS = "loss"


class ForwardBlock(Block):
    """A block whose `build` gives the names of the model's outputs."""

    def __init__(self) -> None:
        self._model: Model | None = None

    def __call__(self, *names: Any, **options: Any) -> Any:
        output = super().__call__(*names, **options)
        self.base.graph.outputs = [self.base.value(name) for name in _names(output)]
        self.base.record_types()
        self._model = copy_model(self.base.model)
        return output

    def to_model(self) -> Model:
        """The model. Raises Fail where the block was not called."""
        if self._model is None:
            raise Fail(f"{type(self).__name__} has no model yet: call it with the names of what it builds upon")
        return self._model

    def to_model_proto(self) -> Any:
        """The model as a ModelProto, for which the package `onnx` is needed."""
        return as_proto(self.to_model())


class TrainingBlock(Block):
    """A block whose `build` gives the name of the loss, or several names, the loss first."""

    def __init__(self) -> None:
        self._requires_grad: dict[str, bool] = {}
        self._models: TrainingModels | None = None

    def requires_grad(self, argument_name: str, value: bool = True) -> None:
        """Have a parameter trained, or frozen."""
        self._requires_grad[argument_name] = value

    def __call__(self, *names: Any, **options: Any) -> Any:
        output = super().__call__(*names, **options)
        outputs = _names(output)
        loss = self.base.value(outputs[0])
        if LOSS not in self.base.values and loss.producer is not None and loss not in self.base.graph.outputs:
            self.base.values[LOSS] = self.base.values.pop(loss.name)
            loss.name = outputs[0] = LOSS
        trained = [name for name, value in self._requires_grad.items() if value]
        frozen = [name for name, value in self._requires_grad.items() if not value]
        self._models = differentiate(self.base, outputs, trained, frozen)
        return output

    def models(self) -> TrainingModels:
        """Both models and the parameters. Raises Fail where the block was not called."""
        if self._models is None:
            raise Fail(f"{type(self).__name__} has no models yet: call it with the names of the network's outputs")
        return self._models

    def parameters(self) -> tuple[list[Tensor], list[Tensor]]:
        """The parameters that are trained, and those that are not."""
        return self.models().trainable, self.models().frozen

    def to_model_proto(self) -> tuple[Any, Any]:
        """The training model and the evaluation model as ModelProtos, for which the package `onnx` is needed."""
        return as_proto(self.models().training), as_proto(self.models().evaluation)


def _names(output: str | Sequence[str]) -> list[str]:
    return [output] if isinstance(output, str) else list(output)
