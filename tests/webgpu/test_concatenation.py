"""Parts of concatenations are stored where they belong; launches that copy are left for what cannot be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnx.reference
import pytest
from onnx import helper, numpy_helper

from sardonyx import InferenceSession
from sardonyx.plans.plan import Launch
from tests.support import require

Weights = dict[str, np.ndarray]


@pytest.fixture(autouse=True)
def gpu() -> None:
    require("webgpu")


class Builder:
    """A graph of one kind of floats, being made."""

    def __init__(self, dtype: type[np.floating] = np.float32, seed: int = 0) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: Weights = {}
        self.dtype = dtype
        self.rng = np.random.default_rng(seed)

    def __call__(self, op: str, *inputs: str, **attributes: object) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = (self.rng.standard_normal(shape) * 0.3).astype(self.dtype)
        return name

    def numbers(self, *values: int) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = np.array(values, np.int64)
        return name

    def conv(self, x: str, channels: int, size: int, to: int) -> str:
        pads = [size // 2] * 4
        return self("Relu", self("Conv", x, self.weight(to, channels, size, size), pads=pads))

    def model(self, shape: Sequence[int | str], outputs: Sequence[str]) -> onnx.ModelProto:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        graph = helper.make_graph(
            self.nodes,
            "concatenations",
            [helper.make_tensor_value_info("x", kind, shape)],
            [helper.make_tensor_value_info(name, kind, None) for name in outputs],
            [numpy_helper.from_array(value, name) for name, value in self.weights.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def launches(session: InferenceSession) -> list[str]:
    """The names of what a plan launches."""
    plan = session.plans[0]
    return [str(plan.codes[step.code]["name"]) for step in plan.steps if isinstance(step, Launch)]


def check(model: onnx.ModelProto, *shapes: Sequence[int]) -> InferenceSession:
    """Compare with the reference, also the second run of a plan."""
    session = InferenceSession(model.SerializeToString(), providers=["WebGpuExecutionProvider"])
    reference = onnx.reference.ReferenceEvaluator(model)
    half = model.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT16
    for shape in shapes:
        for seed in range(2):
            x = np.random.default_rng(seed).standard_normal(shape).astype(np.float16 if half else np.float32)
            for found, wanted in zip(session.run(None, {"x": x}), reference.run(None, {"x": x}), strict=True):
                scale = np.abs(wanted).max(initial=1e-6)
                np.testing.assert_allclose(found / scale, wanted / scale, rtol=0, atol=4e-3 if half else 2e-5)
    return session


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("channels", [16, 6])
def test_convolutions_store_their_parts(channels: int, dtype: type[np.floating]) -> None:
    b = Builder(dtype)
    squeezed = b.conv("x", 8, 1, channels)
    parts = [b.conv(squeezed, channels, 1, channels), b.conv(squeezed, channels, 5, 2 * channels)]
    y = b.conv(b("Concat", *parts, axis=1), 3 * channels, 1, 5)
    names = launches(check(b.model(["n", 8, 7, 9], [y]), (1, 8, 7, 9), (2, 8, 7, 9)))
    assert "concat" not in names


def test_concatenations_of_concatenations() -> None:
    b = Builder()
    x = b.conv("x", 3, 3, 8)
    for layer in range(3):
        channels = 8 + 4 * layer
        scaled = b("Relu", b("Mul", x, b.weight(channels, 1, 1)))
        x = b("Concat", x, b.conv(scaled, channels, 5, 4), axis=1)
    y = b("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    assert "concat" not in launches(check(b.model([1, 3, 8, 8], [y]), (1, 3, 8, 8)))


def test_parts_that_something_else_wants_whole() -> None:
    b = Builder()
    a = b.conv("x", 4, 1, 8)
    c = b.conv(a, 8, 5, 8)
    y = b("Concat", a, c, a, "x", b.weight(1, 4, 6, 6), axis=1)
    check(b.model([1, 4, 6, 6], [y, c]), (1, 4, 6, 6))


@pytest.mark.parametrize("size", [1, 3, 4, 5, 8])
def test_what_walks_to_the_end_of_a_part_leaves_the_next_one_alone(size: int) -> None:
    """The second part is made first; the first one has no multiple of four elements."""
    b = Builder()
    last = b("ReduceMax", "x", b.numbers(1), keepdims=0)
    first = b("ReduceSum", b("MatMul", b("Transpose", "x", perm=[1, 0]), b.weight(7, 5)), b.numbers(1), keepdims=0)
    y = b("Concat", b("Exp", b("Tanh", first)), last, axis=0)
    check(b.model([7, size], [y, b("Sigmoid", first)]), (7, size))


def test_a_part_of_the_whole_that_is_another_part() -> None:
    """As images that are padded by what is at their other end."""
    b = Builder()
    image = b.conv("x", 4, 5, 8)
    left = b("Slice", image, b.numbers(0), b.numbers(2), b.numbers(3))
    right = b("Slice", image, b.numbers(-2), b.numbers(99), b.numbers(3))
    check(b.model([1, 4, 6, 6], [b.conv(b("Concat", right, image, left, axis=3), 8, 3, 3)]), (1, 4, 6, 6))


def test_caches_of_few_parts_are_one_launch() -> None:
    b = Builder()
    new = b("Mul", "x", b.weight(1, 2, 1, 8))
    past = b("Slice", "x", b.numbers(0), b.numbers(2), b.numbers(2))
    y = b("Concat", past, new, axis=2)
    session = check(b.model([1, 2, "n", 8], [y]), (1, 2, 3, 8), (1, 2, 6, 8))
    assert len(launches(session)) == 1


def test_halves_that_are_turned_vanish_into_their_reader() -> None:
    b = Builder()
    low = b("Slice", "x", b.numbers(0), b.numbers(8), b.numbers(2))
    high = b("Slice", "x", b.numbers(8), b.numbers(16), b.numbers(2))
    turned = b("Concat", b("Neg", high), low, axis=2)
    y = b("Add", b("Mul", "x", b.weight(1, 1, 16)), b("Mul", turned, b.weight(1, 1, 16)))
    assert len(launches(check(b.model(["n", 3, 16], [y]), (2, 3, 16)))) == 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_graphs_at_random(seed: int) -> None:
    b = Builder(seed=seed)
    sizes = {"x": int(b.rng.integers(1, 10))}
    channels = sizes["x"]
    for _ in range(12):
        some = [str(name) for name in b.rng.choice(list(sizes), 3)]
        first = some[0]
        match b.rng.integers(6):
            case 0:
                to = int(b.rng.choice([1, 3, 4, 8]))
                sizes[b.conv(first, sizes[first], int(b.rng.choice([1, 3, 5])), to)] = to
            case 1 | 2:
                parts = some[: b.rng.integers(2, 4)]
                sizes[b("Concat", *parts, axis=1)] = sum(sizes[name] for name in parts)
            case 3:
                sizes[b("Tanh", b("Mul", first, b.weight(sizes[first], 1, 1)))] = sizes[first]
            case 4:
                start, end = sorted(int(n) for n in b.rng.integers(0, sizes[first] + 1, 2))
                if start < end:
                    name = b("Slice", first, b.numbers(start), b.numbers(end), b.numbers(1))
                    sizes[name] = end - start
            case 5:
                mean = b("ReduceMean", first, b.numbers(1), keepdims=1)
                sizes[b("Sub", first, mean)] = sizes[first]
    outputs = [name for name in sizes if name != "x"][-3:]
    check(b.model([1, channels, 4, 5], outputs), (1, channels, 4, 5))
