"""Samples of operators whose gradients are compared with slopes: central differences in float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

import sardonyx
from sardonyx.common import dtypes
from sardonyx.common.record import record, replace
from sardonyx.ops.operator import Operator, Sample
from tests.engine.providers import NUMPY

from .test_samples import CASES, model_of

STEP = 1e-6
DIRECTIONS = 3
LARGE = 1e4
"""What stands for infinity: beside it slopes are not seen."""
TRAINING = "ai.onnx.preview.training"


@record(frozen=True)
class Slope:
    """A function of floats, y(xs) in float64, and what else it is fed."""

    model: onnx.ModelProto
    feeds: dict[str, np.ndarray]
    xs: list[str]

    def session(self, provider: str) -> Any:
        """Gives y and its derivatives."""
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        results = [f"d{name}" for name in self.xs]
        model.graph.node.append(helper.make_node("Gradient", self.xs, results, domain=TRAINING, xs=self.xs, y="y"))
        if all(each.domain != TRAINING for each in model.opset_import):
            model.opset_import.append(helper.make_opsetid(TRAINING, 1))
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in results)
        return sardonyx.InferenceSession(model.SerializeToString(), providers=[provider])

    def narrowed(self) -> Slope:
        """The same function of float32."""
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        narrow = {"DOUBLE": onnx.TensorProto.FLOAT}
        for value in model.graph.input:
            if value.type.tensor_type.elem_type == onnx.TensorProto.DOUBLE:
                value.type.tensor_type.elem_type = narrow["DOUBLE"]
        for number, tensor in enumerate(model.graph.initializer):
            array = numpy_helper.to_array(tensor)
            if array.dtype == np.float64:
                model.graph.initializer[number].CopyFrom(numpy_helper.from_array(array.astype("f4"), tensor.name))
        for node in model.graph.node:
            if node.name == "to_double":
                node.attribute[0].i = onnx.TensorProto.FLOAT
        feeds = {name: x.astype(np.float32) if x.dtype == np.float64 else x for name, x in self.feeds.items()}
        return Slope(model, feeds, self.xs)


def is_float(array: Any) -> bool:
    return isinstance(array, np.ndarray) and dtypes.of(array.dtype).is_float


def slope_of(operator: type[Operator], sample: Sample) -> Slope | None:
    """The sum of all outputs, each times a number, as a function of what is float among inputs; None without floats."""
    inputs = [x.astype(np.float64) if is_float(x) else x for x in sample.arrays()]
    model, feeds = model_of(operator, replace(sample, inputs=tuple(inputs)))
    xs = [name for name, x in feeds.items() if x.dtype == np.float64 and x.size]
    if not xs:
        return None
    made = sardonyx.InferenceSession(model.SerializeToString(), providers=[NUMPY])
    for place in _places(feeds, xs):
        feeds, outputs = place, made.run(None, place)
        if all((np.abs(output) < LARGE).all() for output in outputs if is_float(output)):
            break
    rng, terms = np.random.default_rng(5), []
    for value, output in zip(list(model.graph.output), outputs, strict=True):
        if not is_float(output):
            continue
        name = value.name
        weights = numpy_helper.from_array(np.asarray(rng.uniform(0.5, 1.5, output.shape)), f"{name}_weights")
        seen = numpy_helper.from_array(np.asarray(np.abs(output) < LARGE), f"{name}_seen")
        nothing = numpy_helper.from_array(np.zeros(()), f"{name}_nothing")
        model.graph.initializer.extend([weights, seen, nothing])
        model.graph.node.extend(
            [
                helper.make_node("Cast", [name], [f"{name}_wide"], "to_double", to=onnx.TensorProto.DOUBLE),
                helper.make_node("Where", [seen.name, f"{name}_wide", nothing.name], [f"{name}_part"]),
                helper.make_node("Mul", [f"{name}_part", weights.name], [f"{name}_weighted"]),
                helper.make_node("ReduceSum", [f"{name}_weighted"], [f"{name}_sum"], keepdims=0),
            ]
        )
        terms.append(f"{name}_sum")
    if not terms:
        return None
    model.graph.node.append(helper.make_node("Sum", terms, ["y"]))
    del model.graph.output[:]
    model.graph.output.append(onnx.ValueInfoProto(name="y"))
    return Slope(model, feeds, xs)


def _places(feeds: dict[str, np.ndarray], xs: list[str]) -> Iterator[dict[str, np.ndarray]]:
    """Where slopes are looked for: beside the sample's own numbers, as these are where functions bend or have poles."""
    rng = np.random.default_rng(9)
    moved = {name: x + rng.uniform(0.01, 0.02, x.shape) if name in xs else x for name, x in feeds.items()}
    yield {name: np.where(np.isfinite(x), x, 0.3) if name in xs else x for name, x in moved.items()}
    for low in (0.2, 1.2):
        yield {name: rng.uniform(low, low + 0.6, x.shape) if name in xs else x for name, x in feeds.items()}


def directions(slope: Slope, seed: int = 3) -> Iterator[tuple[str, np.ndarray]]:
    """Inputs, and where to go from them."""
    rng = np.random.default_rng(seed)
    for name in slope.xs:
        for _ in range(DIRECTIONS):
            yield name, rng.normal(size=slope.feeds[name].shape)


def slopes(slope: Slope, forward: Any, step: float = STEP) -> list[float]:
    """How y changes along the directions."""
    found = []
    for name, direction in directions(slope):
        x = slope.feeds[name]
        low, high = (
            float(forward.run(["y"], {**slope.feeds, name: x + sign * step * direction})[0]) for sign in (-1, 1)
        )
        found.append((high - low) / (2 * step))
    return found


def assert_slopes(slope: Slope, wanted: list[float], gradients: list[np.ndarray], tolerance: float) -> None:
    """Assert that gradients have the shapes of the inputs, and say what the slopes are."""
    by_name = dict(zip(slope.xs, gradients, strict=True))
    for name, gradient in by_name.items():
        assert gradient.shape == slope.feeds[name].shape
        assert np.isfinite(gradient).all()
    for (name, direction), own in zip(directions(slope), wanted, strict=True):
        gradient = by_name[name].astype(np.float64)
        size = np.abs(gradient * direction).sum() + abs(own)
        error = abs((gradient * direction).sum() - own)
        assert error <= tolerance * max(size, 1e-2), f"d{name} says {(gradient * direction).sum()}, it is {own}"


ALL = [case for case in CASES if case.values[0].pure and not case.values[0].structured]
