"""onnxruntime's own operators on tensors: movement, products, images."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnxruntime.capi.onnxruntime_inference_collection import OrtDevice

from sardonyx import InferenceSession
from sardonyx.errors import SardonyxError
from tests.engine.providers import require_provider
from tests.support import eager

from .microsoft import ON_ALL, Call, check
from .test_samples import assert_near

RNG = np.random.default_rng(0)


def noise(*shape: int, dtype: type[np.floating] = np.float32) -> np.ndarray:
    return RNG.normal(size=shape).astype(dtype)


def whole(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def small(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


IMAGES = noise(2, 3, 5, 6)
BOXES = np.array([[0, 0, 1, 1], [0.1, 0.7, 0.8, 0.2], [-0.5, 0, 0.5, 1.5]], np.float32)
LOWEST = np.full((2, 3), -32768, np.int16)
WORDS = np.array([["a", "b"], ["", "d\u00e9"]], object)
MASKED = RNG.integers(0, 3, (1, 1, 3, 4, 5)).astype(np.int32)
GRID = np.linspace(-1.3, 1.3, 24, dtype=np.float32).reshape(1, 3, 4, 2)

CASES = {
    "cdist of doubles": Call("CDist", [noise(3, 5, dtype=np.float64), noise(4, 5, dtype=np.float64)]),
    "cdist of nothing": Call("CDist", [noise(3, 2), noise(0, 2)], {"metric": "euclidean"}),
    "cdist of NaN": Call("CDist", [np.array([[np.nan, 1]], np.float32), np.zeros((2, 2), np.float32)]),
    "transposed convolution": Call(
        "ConvTransposeWithDynamicPads",
        [noise(1, 2, 3, 4), noise(2, 3, 3, 2), whole(1, 0, 1, 1), noise(3)],
        {"strides": [2, 3], "output_padding": [1, 2]},
    ),
    "transposed convolution, groups": Call(
        "ConvTransposeWithDynamicPads",
        [noise(2, 4, 5), noise(4, 2, 3), whole(0, 2)],
        {"group": 2, "dilations": [2]},
    ),
    "transposed convolution, automatic": Call(
        "ConvTransposeWithDynamicPads",
        [noise(1, 2, 3, 3), noise(2, 2, 2, 2), whole(1, 0, 0, 1)],
        {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
    ),
    "crop": Call("CropAndResize", [IMAGES, BOXES, small(0, 1, 1), small(3, 4)]),
    "crop, one row": Call("CropAndResize", [IMAGES, BOXES, small(1, 0, 1), small(1, 2)], {"extrapolation_value": 7.0}),
    "crop, nearest": Call("CropAndResize", [IMAGES, BOXES, small(0, 1, 1), small(9, 11)], {"mode": "nearest"}),
    "crop of no boxes": Call("CropAndResize", [IMAGES, BOXES[:0], small(), small(2, 2)]),
    "expand dims": Call("ExpandDims", [noise(2, 3), np.array(-1, np.int32)]),
    "expand dims, first": Call("ExpandDims", [WORDS, small(0)]),
    "gather, strings": Call("GatherND", [WORDS, whole(1, -2).reshape(1, 2)]),
    "gather, bool": Call("GatherND", [noise(3, 2) > 0, small(2, 0).reshape(2, 1)]),
    "grid, reflection": Call("GridSample", [IMAGES[:1], GRID], {"padding_mode": "reflection"}),
    "grid, cubic": Call("GridSample", [IMAGES[:1], GRID], {"mode": "bicubic", "align_corners": 1}),
    "inverse, half": Call("Inverse", [(noise(4, 4) + 4 * np.eye(4)).astype(np.float16)]),
    "inverse, batches": Call("Inverse", [noise(2, 1, 3, 3, dtype=np.float64)]),
    "integers that wrap": Call(
        "MatMulInteger16", [np.full((2, 3), -32768, np.int16), np.full((3, 2), -32768, np.int16)]
    ),
    "integers, stacks": Call(
        "MatMulInteger16",
        [RNG.integers(-999, 999, (2, 1, 3, 4)).astype(np.int16), RNG.integers(-99, 99, (3, 4, 2)).astype(np.int16)],
    ),
    "masked pool, volume": Call("MaxpoolWithMask", [noise(2, 2, 3, 4, 5), MASKED], {"kernel_shape": [2, 2, 3]}),
    "masked pool, automatic": Call(
        "MaxpoolWithMask",
        [noise(2, 2, 4, 5), MASKED[:, :, 0]],
        {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"},
    ),
    "masked pool, all": Call("MaxpoolWithMask", [noise(1, 1, 4, 5), MASKED[:, :, 0] * 0], {"kernel_shape": [2, 2]}),
    "masked pool, NaN": Call(
        "MaxpoolWithMask",
        [np.array([[[np.nan, 1, -np.inf, np.nan, np.nan]]], np.float32), np.ones((1, 1, 5), np.int32)],
        {"kernel_shape": [2]},
    ),
    "pad": Call("Pad", [noise(3, 4), whole(1, 0, 2, 3).reshape(1, 4), np.array([1.5], np.float32)]),
    "pad, cut": Call("Pad", [noise(3, 4), whole(-1, 1, 0, -2)]),
    "pad, reflected": Call("Pad", [noise(3, 4), whole(1, 1, 2, 2)], {"mode": "reflect"}),
    "pad, stretched": Call("Pad", [noise(3, 4), whole(1, 0, 2, 3)], {"mode": "edge"}),
    "range, down": Call("Range", [whole(5), whole(-4), whole(-3)]),
    "range, empty": Call("Range", [np.array(5.0), np.array(1.0)]),
    "triangle": Call("Trilu", [noise(2, 3, 4), np.array(-1)], {"upper": 0}),
    "triangle of integers": Call("Trilu", [RNG.integers(0, 9, (4, 3))]),
    "unfold, doubles": Call("UnfoldTensor", [noise(2, 7, 3, dtype=np.float64)], {"dim": -2, "size": 3, "step": 2}),
    "unfold, integers": Call("UnfoldTensor", [small(*range(6))], {"size": 2}),
    "unique": Call(
        "Unique", [np.array([2, np.nan, 0, -0.0, 2, np.nan, -np.inf], np.float32)], outputs=("y0", "y1", "y2")
    ),
    "unique of nothing": Call("Unique", [np.zeros(0, np.float32)], outputs=("y0", "y1", "y2")),
}


@ON_ALL
@pytest.mark.parametrize("name", CASES)
def test_like_onnxruntime(name: str, provider: str) -> None:
    check(CASES[name], provider)


def test_masks_of_several_channels() -> None:
    """Each channel of x has its own one; onnxruntime reads them from other places."""
    x, mask = noise(2, 3, 4, 4), RNG.integers(0, 2, (2, 3, 4, 4)).astype(np.int32)
    (found,) = Call("MaxpoolWithMask", [x, mask], {"kernel_shape": [2, 2]}).run("NumpyExecutionProvider")
    for image in range(2):
        for channel in range(3):
            part = np.s_[image : image + 1, channel : channel + 1]
            single = Call("MaxpoolWithMask", [x[part], mask[part]], {"kernel_shape": [2, 2]})
            assert_near([found[part]], single.expected(), 0)


@dataclass
class Sparse:
    """SparseToDenseMatMul of a sparse matrix, which holds `a` without its zeros, and a matrix that is fed."""

    a: np.ndarray
    b: np.ndarray
    attributes: dict[str, Any] = field(default_factory=dict)

    def model(self, *, held: bool, linear: bool = False, operator: str = "SparseToDenseMatMul") -> onnx.ModelProto:
        """The sparse matrix is part of the model, or fed."""
        kind, places = helper.np_dtype_to_tensor_dtype(self.a.dtype), np.nonzero(self.a)
        indices = np.ravel_multi_index(places, self.a.shape) if linear else np.stack(places, 1)
        values = helper.make_tensor("a", kind, [len(places[0])], self.a[places])
        numbers = helper.make_tensor("i", TensorProto.INT64, indices.shape, indices.reshape(-1))
        matrix = helper.make_sparse_tensor(values, numbers, self.a.shape)
        domain = "" if operator == "MatMul" else "com.microsoft"
        node = helper.make_node(operator, ["a", "b"], ["y"], domain=domain, **self.attributes)
        inputs = [helper.make_tensor_value_info("b", kind, [None, None])]
        if not held:
            inputs.append(helper.make_sparse_tensor_value_info("a", kind, self.a.shape))
        outputs = [onnx.ValueInfoProto(name="y")]
        graph = helper.make_graph([node], "sparse", inputs, outputs, sparse_initializer=[matrix] if held else [])
        imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    def expected(self) -> list[np.ndarray]:
        places = np.nonzero(self.a)
        matrix = onnxruntime.SparseTensor.sparse_coo_from_numpy(
            np.array(self.a.shape), self.a[places], np.stack(places, 1).astype(np.int64), OrtDevice.make("cpu", 0)
        )
        feeds = {
            "a": onnxruntime.OrtValue.ort_value_from_sparse_tensor(matrix),
            "b": onnxruntime.OrtValue.ortvalue_from_numpy(self.b),
        }
        session = onnxruntime.InferenceSession(self.model(held=False).SerializeToString())
        return [value.numpy() for value in session.run_with_ort_values(None, feeds)]


@ON_ALL
@pytest.mark.parametrize(
    ("shape", "dtype", "attributes"),
    [
        ((4, 3), np.float32, {}),
        ((4, 3), np.float64, {"transA": 0}),
        ((3, 4), np.float32, {"transA": 1, "transB": 1, "alpha": -2.0}),
        ((4, 3), np.int64, {"alpha": 2.0}),
    ],
)
def test_sparse(provider: str, shape: tuple[int, int], dtype: type[Any], attributes: dict[str, Any]) -> None:
    require_provider(provider)
    a: np.ndarray = np.where(RNG.random(shape) < 0.4, RNG.integers(1, 9, shape), 0).astype(dtype)
    b: np.ndarray = RNG.integers(-9, 9, (5, 3) if "transB" in attributes else (3, 5)).astype(dtype)
    product = Sparse(a, b, attributes)
    model = product.model(held=True, linear=dtype is np.float64)
    if provider == "eager":
        found = eager.evaluate(model, {"b": b})
    else:
        found = list(InferenceSession(model.SerializeToString(), providers=[provider]).run(None, {"b": b}))
    assert_near(found, product.expected(), 1e-6)


@pytest.mark.parametrize("linear", [False, True])
def test_sparse_initializers_are_dense(linear: bool) -> None:
    a = np.array([[0, 1.5, 0], [0, 0, 0], [-2, 0, 3]], np.float32)
    model = Sparse(a, noise(3, 4)).model(held=True, linear=linear, operator="MatMul").SerializeToString()
    feeds = {"b": noise(3, 4)}
    wanted = onnxruntime.InferenceSession(model).run(None, feeds)
    assert_near(list(InferenceSession(model).run(None, feeds)), wanted, 1e-6)


REFUSED = {
    "metric": (Call("CDist", [noise(1, 2), noise(1, 2)], {"metric": "cityblock"}), "use euclidean or sqeuclidean"),
    "no matrix": (Call("Inverse", [noise(2, 3)]), "square matrices"),
    "crop mode": (Call("CropAndResize", [IMAGES, BOXES, small(0, 0, 0), small(1, 1)], {"mode": "cubic"}), "bilinear"),
    "mask": (
        Call("MaxpoolWithMask", [noise(1, 1, 2, 2), np.ones((1, 1, 1, 2), np.int32)], {"kernel_shape": [2, 2]}),
        "differ in their spatial axes",
    ),
    "unique of a matrix": (Call("Unique", [noise(2, 2)]), "takes one"),
    "window": (Call("UnfoldTensor", [noise(2, 2)], {"size": 3}), "does not fit"),
    "step": (Call("UnfoldTensor", [noise(2, 2)], {"size": 1, "step": 0}), "not both positive"),
    "pads left out": (Call("ConvTransposeWithDynamicPads", [noise(1, 1, 2), noise(1, 1, 2)]), "'pads' is missing"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    call, words = REFUSED[name]
    with pytest.raises(SardonyxError, match=words):
        call.run("eager")
