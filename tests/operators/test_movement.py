"""Slices, borders and indices at random, against NumPy."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.engine.providers import PROVIDERS, require_provider
from tests.support import eager
from tests.support.single import outputs_on, single

X = np.random.default_rng(0).normal(size=(4, 5, 3)).astype(np.float32)


def run(op_type: str, x: np.ndarray, *inputs: np.ndarray | None, **attributes: Any) -> np.ndarray:
    """The first output, evaluated eagerly; all inputs but x are constants."""
    names = ["x", *("" if array is None else f"c{number}" for number, array in enumerate(inputs))]
    held = [numpy_helper.from_array(array, f"c{number}") for number, array in enumerate(inputs) if array is not None]
    node = helper.make_node(op_type, names, ["y"], **attributes)
    info = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
    graph = helper.make_graph([node], op_type, [info], [onnx.ValueInfoProto(name="y")], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    return eager.evaluate(model, {"x": x})[0]


def test_slice() -> None:
    pick = random.Random(0)
    for _ in range(200):
        axes = pick.sample(range(3), pick.randint(1, 3))
        index: list[slice] = [slice(None)] * 3
        bounds = []
        for axis in axes:
            step = pick.choice([-3, -2, -1, 1, 2, 3])
            start, stop = pick.randint(-8, 8), pick.choice([pick.randint(-8, 8), 2**63 - 1, -(2**63)])
            # ONNX moves a start before the first element to it, Python does not when it goes backwards
            index[axis] = slice(max(start, -X.shape[axis]), stop, step)
            bounds.append((start, stop, pick.choice([axis, axis - 3]), step))
        starts, stops, places, steps = (np.array(column, np.int64) for column in zip(*bounds, strict=True))
        np.testing.assert_array_equal(run("Slice", X, starts, stops, places, steps), X[tuple(index)])


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_pad(mode: str) -> None:
    pick = random.Random(1)
    for _ in range(50):
        widths = [(pick.randint(0, 7), pick.randint(0, 7)) for _ in range(3)]
        pads = np.array([low for low, _ in widths] + [high for _, high in widths])
        wanted = np.pad(X, widths, mode=mode)  # type: ignore[call-overload]
        np.testing.assert_array_equal(run("Pad", X, pads, mode=mode), wanted)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
@pytest.mark.parametrize("is_known", [False, True])
def test_pad_on_providers(provider: str, mode: str, is_known: bool) -> None:
    """Along either axis of lines that vectors do most of, and of one that is shorter than its border."""
    require_provider(provider)
    x = np.random.default_rng(1).normal(size=(7, 50)).astype(np.float32)
    for low, high in [(0, 13), (9, 4), (49, 49), (60, 120)]:
        for axis in (0, 1):
            widths = [(0, 0), (0, 0)]
            widths[axis] = low, high
            pads = np.array([low for low, _ in widths] + [high for _, high in widths])
            model, feeds = single("Pad", x, pads, constants={1}, mode=mode)
            if is_known:
                for dim, size in zip(model.graph.input[0].type.tensor_type.shape.dim, x.shape, strict=True):
                    dim.dim_value = size
            (found,) = outputs_on(provider, model, feeds)
            np.testing.assert_array_equal(found, np.pad(x, widths, mode=mode))  # type: ignore[call-overload]


def test_pad_cuts_before_it_repeats() -> None:
    wanted = np.pad(X[:, 1:-2], [(0, 0), (0, 0), (1, 2)], "reflect")
    np.testing.assert_array_equal(run("Pad", X, np.array([0, -1, 1, 0, -2, 2]), mode="reflect"), wanted)


def test_split_of_what_does_not_divide() -> None:
    x = np.arange(3)
    node = helper.make_node("Split", ["x"], ["a", "b", "c", "d"], num_outputs=4)
    info = helper.make_tensor_value_info("x", onnx.TensorProto.INT64, [3])
    graph = helper.make_graph([node], "split", [info], [onnx.ValueInfoProto(name=name) for name in "abcd"])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    assert [part.tolist() for part in eager.evaluate(model, {"x": x})] == [[0], [1], [2], []]


def test_gather() -> None:
    pick, rng = random.Random(2), np.random.default_rng(2)
    for _ in range(50):
        axis = pick.randrange(-3, 3)
        shape = [pick.randint(0, 3) for _ in range(pick.randint(0, 3))]
        indices = rng.integers(-X.shape[axis], X.shape[axis], shape)
        np.testing.assert_array_equal(run("Gather", X, indices, axis=axis), np.take(X, indices, axis))


def test_gather_elements_and_scatter_elements() -> None:
    pick, rng = random.Random(3), np.random.default_rng(3)
    for _ in range(50):
        axis = pick.randrange(3)
        shape = [pick.randint(1, size) for size in X.shape]
        indices = rng.integers(-X.shape[axis], X.shape[axis], shape)
        places: list[Any] = list(np.indices(shape))
        places[axis] = indices
        np.testing.assert_array_equal(run("GatherElements", X, indices, axis=axis), X[tuple(places)])
        updates = rng.normal(size=shape).astype(np.float32)
        for reduction, combine in {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}.items():
            wanted = X.copy()
            combine.at(wanted, tuple(places), updates)
            found = run("ScatterElements", X, indices, updates, axis=axis, reduction=reduction)
            np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_the_last_update_counts() -> None:
    found = run("ScatterElements", np.zeros(3, np.float32), np.array([1, 1, -2]), np.array([5, 6, 7], np.float32))
    assert found.tolist() == [0, 7, 0]


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "message"),
    [
        ("Gather", [np.array(5)], {"axis": 1}, "index 5 is out of range for axis 1 of size 5"),
        ("Reshape", [np.array([7, -1])], {}, "number of elements differs"),
        ("Reshape", [np.array([-1, -1])], {}, "more than one -1"),
        ("Transpose", [], {"perm": [0, 0, 1]}, "no permutation"),
        ("Concat", [np.zeros((4, 5), np.float32)], {"axis": 0}, "do not join"),
        ("Squeeze", [np.array([1])], {}, "axis 1"),
        ("Slice", [np.array([0]), np.array([1]), np.array([0]), np.array([0])], {}, "step of 0"),
        ("TopK", [np.array([9])], {}, "K 9 is out of range"),
        ("Flatten", [], {"axis": 4}, "axis 4 is out of range for rank 3"),
        ("Einsum", [], {"equation": "ij->i"}, "does not label"),
        ("MaxPool", [], {"kernel_shape": [4]}, "does not fit into 3"),
    ],
)
def test_errors_say_what_is_wrong(op_type: str, inputs: list[Any], attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message):
        run(op_type, X, *inputs, **attributes)
