"""A network that is trained or evaluated, step by step."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx.api.options import NodeArg, SessionOptions
from sardonyx.api.ort_value import DEVICES, OrtValue, provider_of
from sardonyx.api.outputs import Target
from sardonyx.api.session import InferenceSession
from sardonyx.common.memory import MemoryReport
from sardonyx.errors import Fail, InvalidArgument
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.writer import save
from sardonyx.providers import registry
from sardonyx.training.accumulation import Accumulator
from sardonyx.training.api.checkpoint_state import CheckpointState, Held, held_value
from sardonyx.training.api.files import session
from sardonyx.training.gradient_model import GRADIENT, NEXT
from sardonyx.training.inference import inference_model


class Module:
    """The files of `generate_artifacts` at work: a call is a step of training, or of evaluation after `eval()`.

    A step of training leaves gradients in the state, which accumulate until `lazy_reset_grad`. Parameters and gradients
    stay on the device: `cpu`, or `webgpu`. `providers` are those of an InferenceSession, where the device's own are not
    wanted.
    """

    def __init__(
        self,
        train_model_uri: str | os.PathLike[str] | bytes,
        state: CheckpointState,
        eval_model_uri: str | os.PathLike[str] | bytes | None = None,
        device: str = "cpu",
        session_options: SessionOptions | None = None,
        *,
        providers: Sequence[Any] | None = None,
    ) -> None:
        kind, _, number = device.partition(":")
        self.device = provider_of(kind, int(number or 0))
        self.options = session_options
        self.providers = providers or ([registry.CPU] if self.device is None else [self.device, registry.CPU])
        self.training = True
        self.state = state
        self._train = self._session(train_model_uri)
        self._eval_uri = eval_model_uri
        self._eval = None if eval_model_uri is None else self._session(eval_model_uri)
        self._accumulate = False
        self._accumulator: Accumulator | None = None
        self._given: dict[InferenceSession, list[str]] = {}
        self._held_by: dict[InferenceSession, list[Held]] = {}
        for made in (self._train, self._eval):
            if made is not None:
                names = [port.name for port in made.get_inputs()]
                self._given[made] = [name for name in names if name not in state.held]
                self._held_by[made] = [state.held[name] for name in names if name in state.held]
        self._parameters = [each for each in self._train.get_inputs() if each.name in state.held]
        names = [each.name for each in self._train.get_outputs()]
        trained = [each.name for each in self._parameters if state.held[each.name].requires_grad]
        self._gradients = {f"{name}{GRADIENT}": name for name in trained}
        self._nexts = {f"{each.name}{NEXT}": each.name for each in self._parameters if f"{each.name}{NEXT}" in names}
        if missing := [name for name in self._gradients if name not in names]:
            raise InvalidArgument(f"the training model has no output {missing[0]!r}: generate the artifacts anew")
        self._results = [name for name in names if name not in self._gradients and name not in self._nexts]
        self._targets = {name: Target(None if name in self._results else self.device) for name in names}
        for each in self._parameters:
            held = state.held[each.name]
            if held.value is not None:
                held.value = self.place(held.value)

    def _session(self, uri: str | os.PathLike[str] | bytes) -> InferenceSession:
        return session(uri, self.options, self.providers)

    def place(self, value: OrtValue) -> OrtValue:
        """A value on this module's device."""
        if self.device is None or value.place is not None:
            return value
        return OrtValue.ortvalue_from_numpy(value.numpy(), _kind(self.device))

    # ---- steps

    def __call__(self, *user_inputs: np.ndarray | OrtValue) -> Any:
        """One step: what the model gives, alone or as a tuple; arrays, or OrtValues where all inputs are OrtValues."""
        current = self._current()
        given = self._given[current]
        if len(user_inputs) != len(given):
            names = ", ".join(given)
            raise InvalidArgument(f"{len(user_inputs)} inputs are given, the model takes {len(given)}: {names}")
        values = [each if isinstance(each, OrtValue) else OrtValue.ortvalue_from_numpy(each) for each in user_inputs]
        feeds = dict(zip(given, values, strict=True))
        feeds |= {each.name: held_value(each) for each in self._held_by[current]}
        results = self._step(feeds) if self.training else current.run_with_ort_values(None, feeds)
        if any(isinstance(each, np.ndarray) for each in user_inputs):
            results = [each.numpy() for each in results]
        return results[0] if len(results) == 1 else tuple(results)

    def _held(self, parameter: NodeArg) -> Held:
        return self.state.held[parameter.name]

    def _step(self, feeds: Mapping[str, OrtValue]) -> list[Any]:
        values = self._train.run_bound(feeds, self._targets)
        for output, name in self._nexts.items():
            self.state.held[name].value = values[output]
        gradients = {name: values[output] for output, name in self._gradients.items()}
        if self._accumulate:
            gradients = self._sums(gradients)
        for name, gradient in gradients.items():
            self.state.held[name].grad = gradient
        self._accumulate = True
        return [values[name] for name in self._results]

    def _sums(self, gradients: Mapping[str, OrtValue]) -> dict[str, OrtValue]:
        """Gradients added to those that are there."""
        if self._accumulator is None:
            self._accumulator = Accumulator(gradients, self.options, self.providers, self.device)
        earlier = {name: self.state.held[name].grad for name in gradients}
        return self._accumulator.add({name: value for name, value in earlier.items() if value}, gradients)

    def train(self, mode: bool = True) -> Module:
        """Have calls be steps of training, or of evaluation."""
        self.training = mode
        return self

    def eval(self) -> Module:
        """Have calls be steps of evaluation."""
        return self.train(False)

    def lazy_reset_grad(self) -> None:
        """Have the next step of training begin with gradients of 0."""
        self._accumulate = False

    def memory(self) -> list[MemoryReport]:
        """What steps of training, or of evaluation after `eval()`, hold on each provider: `InferenceSession.memory`."""
        return self._current().memory()

    # ---- parameters as one vector

    def get_parameters_size(self, trainable_only: bool = True) -> int:
        """The number of elements of all parameters, or of those that are trained."""
        return sum(_size(each) for each in self._chosen(trainable_only))

    def get_contiguous_parameters(self, trainable_only: bool = False) -> OrtValue:
        """A copy of all parameters, or of those that are trained, one behind the other: float32 [size]."""
        parts = [np.asarray(held_value(self._held(each))).reshape(-1) for each in self._chosen(trainable_only)]
        return self.place(OrtValue.ortvalue_from_numpy(np.concatenate([each.astype(np.float32) for each in parts])))

    def copy_buffer_to_parameters(self, buffer: OrtValue, trainable_only: bool = True) -> None:
        """Give the parameters what `get_contiguous_parameters` gave; a nominal state is filled by it.

        Raises InvalidArgument where the buffer has another number of elements.
        """
        array = np.asarray(buffer)
        chosen = self._chosen(trainable_only)
        size = sum(_size(each) for each in chosen)
        if array.shape != (size,) or array.dtype != np.float32:
            raise InvalidArgument(f"the buffer is {array.dtype}{list(array.shape)}, the parameters are float32[{size}]")
        start = 0
        for each in chosen:
            held, part = self._held(each), array[start : start + _size(each)].reshape(_shape(each))
            held.value = self.place(OrtValue(part.astype(held.dtype.storage), held.dtype))
            start += _size(each)

    def _chosen(self, trainable_only: bool) -> list[NodeArg]:
        return [each for each in self._parameters if self._held(each).requires_grad or not trainable_only]

    # ---- the result

    def export_model_for_inferencing(
        self, inference_model_uri: str | os.PathLike[str], graph_output_names: Sequence[str]
    ) -> None:
        """Write the evaluation model as far as it makes these tensors, with the parameters as initializers."""
        if self._eval_uri is None:
            raise Fail("this module has no evaluation model: give Module its eval_model_uri")
        parameters = self.state.checkpoint()
        model = inference_model(read(self._eval_uri), [*parameters.trainable, *parameters.frozen], graph_output_names)
        save(model, inference_model_uri)

    def input_names(self) -> list[str]:
        """The inputs that a call takes, of the training model or of the evaluation model."""
        return list(self._given[self._current()])

    def output_names(self) -> list[str]:
        """What a call gives, of the training model or of the evaluation model."""
        return list(self._results) if self.training else [each.name for each in self._current().get_outputs()]

    def _current(self) -> InferenceSession:
        found = self._train if self.training else self._eval
        if found is None:
            raise Fail("this module has no evaluation model: give Module its eval_model_uri")
        return found


def _kind(provider: str) -> str:
    return next(kind for kind, name in DEVICES.items() if name == provider)


def _size(parameter: NodeArg) -> int:
    return math.prod(_shape(parameter))


def _shape(parameter: NodeArg) -> list[int]:
    """The shape of a parameter, which models of training declare in numbers."""
    return [size for size in parameter.shape if isinstance(size, int)]
