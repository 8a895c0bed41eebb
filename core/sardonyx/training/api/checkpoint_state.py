"""The state of a training: parameters, gradients, moments and properties."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import numpy as np

from sardonyx.api.ort_value import OrtValue
from sardonyx.common.atomic import replacing
from sardonyx.common.dtypes import DType
from sardonyx.common.record import field, record
from sardonyx.errors import Fail, InvalidArgument
from sardonyx.model.ir import Tensor
from sardonyx.training.checkpoint import Checkpoint, Group, Property, load, write_checkpoint

GROUP = "group0"


@record(eq=False)
class Held:
    """A parameter where it lies, and its gradient once there was a step.

    A nominal checkpoint leaves the value out.
    """

    name: str
    requires_grad: bool
    dtype: DType
    value: OrtValue | None
    grad: OrtValue | None = None


@record(eq=False)
class OptimizerState:
    """How many steps were made, the learning rate, and the moments of each parameter."""

    step: int = 0
    initial_learning_rate: float = 0.001
    learning_rate: float = 0.001
    moments: dict[str, list[OrtValue]] = field(default_factory=dict)


class Parameter:
    """One parameter of a model; `CheckpointState.parameters` gives it."""

    def __init__(self, parameter: Held) -> None:
        self._parameter = parameter

    @property
    def name(self) -> str:
        return self._parameter.name

    @property
    def data(self) -> np.ndarray:
        """The elements, a copy. Raises Fail where a nominal checkpoint was not filled yet."""
        return np.array(held_value(self._parameter))

    @data.setter
    def data(self, value: np.ndarray) -> None:
        held_value(self._parameter).update_inplace(np.asarray(value))

    @property
    def grad(self) -> np.ndarray | None:
        """The gradient, as it was accumulated; None before the first step."""
        return None if self._parameter.grad is None else np.array(self._parameter.grad)

    @property
    def requires_grad(self) -> bool:
        """Whether it is trained."""
        return self._parameter.requires_grad

    def __repr__(self) -> str:
        return f"Parameter(name={self.name}, requires_grad={self.requires_grad})"


class Parameters:
    """The parameters of a model by their names; iterating gives names with parameters."""

    def __init__(self, held: Mapping[str, Held]) -> None:
        self._held = held

    def __getitem__(self, name: str) -> Parameter:
        return Parameter(self._find(name))

    def __setitem__(self, name: str, value: np.ndarray) -> None:
        held_value(self._find(name)).update_inplace(np.asarray(value))

    def _find(self, name: str) -> Held:
        if name not in self._held:
            raise KeyError(f"there is no parameter {name!r}; there are {', '.join(self._held)}")
        return self._held[name]

    def __contains__(self, name: object) -> bool:
        return name in self._held

    def __iter__(self) -> Iterator[tuple[str, Parameter]]:
        return ((name, Parameter(held)) for name, held in self._held.items())

    def __len__(self) -> int:
        return len(self._held)

    def __repr__(self) -> str:
        return repr(list(self._held))


class Properties:
    """What a training notes: integers of 64 bits, floats of 32 bits and strings, by names, as a checkpoint keeps them;
    iterating gives names with values. Larger integers become floats."""

    def __init__(self, values: dict[str, Property]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Property:
        if name not in self._values:
            raise KeyError(f"there is no property {name!r}; there are {', '.join(self._values) or 'none'}")
        return self._values[name]

    def __setitem__(self, name: str, value: Property) -> None:
        if not isinstance(value, (int, float, str, np.integer, np.floating)):
            raise InvalidArgument(f"property {name!r} is {value!r}: properties are integers, floats and strings")
        if isinstance(value, (int, np.integer)) and -(1 << 63) <= value < 1 << 63:
            self._values[name] = int(value)
        else:
            self._values[name] = value if isinstance(value, str) else float(np.float32(value))

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[tuple[str, Property]]:
        return iter(sorted(self._values.items()))

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(sorted(self._values))


class CheckpointState:
    """The state of a training, from `load_checkpoint`; a Module and an Optimizer change it."""

    def __init__(self, state: Checkpoint) -> None:
        if not isinstance(state, Checkpoint):
            raise TypeError(f"a CheckpointState comes from CheckpointState.load_checkpoint(path), not {type(state)}")
        groups = ((True, state.trainable), (False, state.frozen))
        held = [
            Held(tensor.name, trained, tensor.dtype, None if state.nominal else _value(tensor))
            for trained, tensors in groups
            for tensor in tensors
        ]
        self.held = {each.name: each for each in sorted(held, key=lambda each: each.name)}
        self.optimizer: OptimizerState | None = None
        if GROUP in state.groups:
            group = state.groups[GROUP]
            moments = {name: [_value(tensor) for tensor in tensors] for name, tensors in group.moments.items()}
            rate = group.initial_learning_rate
            self.optimizer = OptimizerState(group.step, rate, rate, moments)
        self._parameters = Parameters(self.held)
        self._properties = Properties(dict(state.properties))

    @classmethod
    def load_checkpoint(cls, checkpoint_uri: str | os.PathLike[str]) -> CheckpointState:
        """The state in a file, which onnxruntime-training or this package wrote, be it whole or nominal."""
        return cls(load(checkpoint_uri))

    @classmethod
    def save_checkpoint(
        cls, state: CheckpointState, checkpoint_uri: str | os.PathLike[str], include_optimizer_state: bool = False
    ) -> None:
        """Write the state, with the optimizer's moments and number of steps if that is asked for."""
        with replacing(checkpoint_uri) as file:
            file.write(write_checkpoint(state.checkpoint(include_optimizer_state)))

    def checkpoint(self, include_optimizer_state: bool = False) -> Checkpoint:
        """What a file is to hold."""
        trainable, frozen = (
            [_tensor(held_value(each), each.name) for each in self.held.values() if each.requires_grad is trained]
            for trained in (True, False)
        )
        groups = {}
        if include_optimizer_state and self.optimizer is not None:
            moments = {
                name: [_tensor(value, f"momentum{number}") for number, value in enumerate(values)]
                for name, values in self.optimizer.moments.items()
            }
            groups[GROUP] = Group(self.optimizer.step, self.optimizer.initial_learning_rate, moments)
        return Checkpoint(trainable, frozen, groups=groups, properties=dict(self._properties))

    @property
    def parameters(self) -> Parameters:
        """The model's parameters, trained or not."""
        return self._parameters

    @property
    def properties(self) -> Properties:
        """What the training notes."""
        return self._properties


def held_value(parameter: Held) -> OrtValue:
    """Where a parameter lies. Raises Fail where a nominal checkpoint was not filled yet."""
    if parameter.value is None:
        raise Fail(
            f"parameter {parameter.name!r} comes from a nominal checkpoint, which has no elements: fill it with "
            "Module.copy_buffer_to_parameters"
        )
    return parameter.value


def _value(tensor: Tensor) -> OrtValue:
    return OrtValue(np.array(tensor.array()), tensor.dtype)


def _tensor(value: OrtValue, name: str) -> Tensor:
    dtype, array = value.stored()
    return Tensor.of(array, dtype, name)
