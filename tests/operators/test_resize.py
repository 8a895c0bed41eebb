"""Resize with random sizes, against onnxruntime, and old forms of it."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx.parser
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from sardonyx import InferenceSession
from sardonyx.errors import RuntimeException
from tests.engine.providers import PROVIDERS
from tests.support import eager

COORDINATES = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"]


def check(opset: int, op_type: str, x: np.ndarray, *inputs: np.ndarray | None, **attributes: Any) -> None:
    """Assert that eager evaluation gives what onnxruntime gives; all inputs but x are constants."""
    names = ["x", *("" if array is None else f"c{number}" for number, array in enumerate(inputs))]
    held = [numpy_helper.from_array(array, f"c{number}") for number, array in enumerate(inputs) if array is not None]
    node = helper.make_node(op_type, names, ["y"], **attributes)
    info = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)
    graph = helper.make_graph([node], op_type, [info], [onnx.ValueInfoProto(name="y")], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"x": x})
    (found,) = eager.evaluate(model, {"x": x})
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4, err_msg=f"{x.shape} {inputs} {attributes}")


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize(mode: str) -> None:
    pick, rng = random.Random(0), np.random.default_rng(0)
    for _ in range(60):
        shape = [pick.randint(2, 7) for _ in range(2 if mode == "cubic" else pick.choice([2, 3]))]
        known: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": pick.choice(COORDINATES)}
        if mode == "nearest":
            known["nearest_mode"] = pick.choice(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
        else:
            known["antialias"] = pick.choice([0, 0, 1])
        if mode == "cubic":
            known |= {"cubic_coeff_a": pick.choice([-0.75, -0.5]), "exclude_outside": pick.choice([0, 1])}
        sizes = np.array([pick.randint(2, 9) for _ in shape])
        scales = np.array([pick.choice([0.5, 2, 3, 1.5, 1, 0.75]) for _ in shape], np.float32)
        # onnxruntime takes whole lengths where ONNX has the products of lengths and factors
        whole = bool((scales * shape == np.floor(scales * shape)).all())
        if known["coordinate_transformation_mode"] == "align_corners" and not whole:
            continue
        x = rng.normal(size=shape).astype(np.float32)
        check(19, "Resize", x, None, *pick.choice([(scales, None), (None, sizes)]), **known)


X = np.random.default_rng(1).normal(size=(1, 1, 4, 5)).astype(np.float32)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [[1, 1, 2, 3], [1, 1, 1.5, 2.5]])
def test_upsample(mode: str, scales: list[float]) -> None:
    check(7, "Upsample", X, mode=mode, scales=[float(scale) for scale in scales])
    check(9, "Upsample", X, np.array(scales, np.float32), mode=mode)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [[1, 1, 2, 1.5], [1, 1, 0.5, 0.6]])
def test_resize_10(mode: str, scales: list[float]) -> None:
    check(10, "Resize", X, np.array(scales, np.float32), mode=mode)


def test_resize_11() -> None:
    none, sizes = np.zeros(0, np.float32), np.array([1, 1, 7, 3])
    half = "tf_half_pixel_for_nn"
    check(11, "Resize", X, none, none, sizes, coordinate_transformation_mode=half, nearest_mode="floor")
    check(11, "Resize", X, none, none, sizes, mode="cubic", coordinate_transformation_mode="align_corners")


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_a_region_of_what_is_not_resized(mode: str) -> None:
    """Batch and channels stay whole, whatever the region says of them."""
    crop: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize"}
    crop["extrapolation_value"] = 10.0
    x = np.arange(8, dtype=np.float32).reshape(1, 2, 1, 2, 2)
    region = np.array([0, 0, 0, 0, 0, 1, 2, 1, 2, 2], np.float32)
    check(13, "Resize", x, region, np.array([1, 1, 1, 2, 4], np.float32), **crop)
    check(18, "Resize", x, region, None, np.array([1, 2, 1, 4, 8]), **crop)
    region = np.array([0.3, 0.6, 0.125, 0, 0.6, 0.9, 0.875, 1], np.float32)
    check(13, "Resize", np.repeat(X, 2, 1), region, None, np.array([1, 2, 7, 8]), **crop)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_a_region_and_scales_that_come_with_the_run(mode: str, provider: str) -> None:
    attributes = f'mode = "{mode}", coordinate_transformation_mode = "tf_crop_and_resize", extrapolation_value = 7.0'
    inputs = "float[N, C, H, W] x, float[R] r, float[S] s"
    text = f"g ({inputs}) => (float[D, E, F, G] y) {{ y = Resize <{attributes}> (x, r, s) }}"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 13]> {text}').SerializeToString()
    feeds = {
        "x": np.concatenate([X, 2 * X, X - 1], 1),
        "r": np.array([0.5, 0.25, 0.125, 0, 0.75, 2, 0.875, 1.5], np.float32),
        "s": np.array([1, 1, 2, 1.6], np.float32),
    }
    (wanted,) = onnxruntime.InferenceSession(model).run(None, feeds)
    (found,) = InferenceSession(model, providers=[provider]).run(None, feeds)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_empty_scales_come_with_the_run(provider: str) -> None:
    """Before operator set 13 scales could not be left out where sizes were given."""
    inputs = "float[N, C, H, W] x, float[A] r, float[B] s, int64[I] n"
    text = f"g ({inputs}) => (float[D, E, F, G] y) {{ y = Resize (x, r, s, n) }}"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 11]> {text}')
    none = np.zeros(0, np.float32)
    feeds = {"x": X, "r": none, "s": none, "n": np.array([1, 1, 7, 3])}
    held = onnx.ModelProto.FromString(model.SerializeToString())
    held.graph.initializer.extend(numpy_helper.from_array(feeds[name], name) for name in "rsn")
    del held.graph.input[1:]
    (wanted,) = onnxruntime.InferenceSession(held.SerializeToString()).run(None, {"x": X})
    (found,) = InferenceSession(model.SerializeToString(), providers=[provider]).run(None, feeds)
    np.testing.assert_allclose(found, wanted, rtol=1e-4)
    with pytest.raises(RuntimeException, match="Resize 'y': neither scales nor sizes are given"):
        InferenceSession(model.SerializeToString(), providers=[provider]).run(None, {**feeds, "n": np.zeros(0, int)})


@pytest.mark.parametrize("scales", [[2.0], [1.0, 1.0, 2.0, 2.0, 2.0]])
def test_wrong_count(scales: list[float]) -> None:
    text = "g (float[1, 1, 4, 5] x, float[N] s) => (float[A, B, C, D] y) { y = Resize (x, , s) }"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    with pytest.raises(RuntimeException, match=f"scales has {len(scales)} elements; give one for each of 4 axes"):
        eager.evaluate(model, {"x": X, "s": np.array(scales, np.float32)})
