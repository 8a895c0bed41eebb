"""Steps of gradient descent."""

from __future__ import annotations

import os

import numpy as np

from sardonyx.api.ort_value import OrtValue
from sardonyx.api.outputs import Target
from sardonyx.errors import Fail, InvalidArgument
from sardonyx.training.api.checkpoint_state import OptimizerState, held_value
from sardonyx.training.api.files import session
from sardonyx.training.api.module import Module
from sardonyx.training.gradient_model import GRADIENT, NEXT
from sardonyx.training.onnxblock.optim import MOMENTS


class Optimizer:
    """A model of an optimizer at work on the parameters of a module. Parameters and moments stay on its device.

    A state that was saved with its optimizer goes on where it was; else moments are 0, and the learning rate is 0.001.
    """

    def __init__(self, optimizer_uri: str | os.PathLike[str] | bytes, module: Module) -> None:
        self._module = module
        self._session = session(optimizer_uri, module.options, module.providers)
        held = module.state.held
        names = {each.name for each in self._session.get_inputs()}
        self._outputs = {each.name: Target(module.device) for each in self._session.get_outputs()}
        self._parameters = [name for name, each in held.items() if each.requires_grad]
        if missing := [name for name in self._parameters if name not in names]:
            raise InvalidArgument(f"the optimizer's model has no input {missing[0]!r}, which the module trains")
        self._moments = [moment for moment in MOMENTS if f"{self._parameters[0]}_{moment}" in names]
        self._state = module.state.optimizer or OptimizerState()
        module.state.optimizer = self._state
        for name in self._parameters:
            values = self._state.moments.get(name, [])
            if len(values) == len(self._moments):
                self._state.moments[name] = [module.place(value) for value in values]
            else:
                self._state.moments[name] = []

    @property
    def steps(self) -> int:
        """How many steps were made, those before a state was saved, too."""
        return self._state.step

    def step(self) -> None:
        """Change the parameters by their gradients. Raises Fail where there are none."""
        feeds = {
            "learning_rate": OrtValue.ortvalue_from_numpy(np.array([self._state.learning_rate], np.float32)),
            "step": OrtValue.ortvalue_from_numpy(np.array([self._state.step + 1], np.int64)),
        }
        held = self._module.state.held
        for name in self._parameters:
            gradient = held[name].grad
            if gradient is None:
                raise Fail(f"parameter {name!r} has no gradient yet: call the module in training mode before step()")
            feeds[name], feeds[f"{name}{GRADIENT}"] = held_value(held[name]), gradient
            moments = self._state.moments[name] or [self._zeros(held_value(held[name])) for _ in self._moments]
            feeds |= {f"{name}_{moment}": value for moment, value in zip(self._moments, moments, strict=True)}
        values = self._session.run_bound(feeds, self._outputs)
        for name in self._parameters:
            held[name].value = values[f"{name}{NEXT}"]
            self._state.moments[name] = [values[f"{name}_{moment}{NEXT}"] for moment in self._moments]
        self._state.step += 1

    def _zeros(self, like: OrtValue) -> OrtValue:
        dtype, _ = like.stored()
        return self._module.place(OrtValue(np.zeros(like.shape(), dtype.storage), dtype))

    @property
    def initial_learning_rate(self) -> float:
        """What a LinearLRScheduler rises to."""
        return self._state.initial_learning_rate

    def set_initial_learning_rate(self, learning_rate: float) -> None:
        """Set what a LinearLRScheduler rises to, and the learning rate with it; a checkpoint has it."""
        self._state.initial_learning_rate = learning_rate
        self.set_learning_rate(learning_rate)

    def set_learning_rate(self, learning_rate: float) -> None:
        """Set the learning rate of the steps to come. Raises TypeError for what is no number."""
        if not isinstance(learning_rate, (int, float, np.number)):
            raise TypeError(f"a learning rate is a number, not {learning_rate!r}")
        self._state.learning_rate = float(learning_rate)

    def get_learning_rate(self) -> float:
        """The learning rate of the next step."""
        return self._state.learning_rate
