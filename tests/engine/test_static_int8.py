"""Quantized networks, as onnxruntime's quantizer writes them, on every provider: integers throughout."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

import sardonyx
from tests.engine.providers import PROVIDERS, require_provider

SCALES = """s = Constant<value = float {0.0513}>() t = Constant<value = float {0.0317}>()
            u = Constant<value = float {0.0731}>() z = Constant<value = int8 {5}>() q = Constant<value = int8 {-9}>()
            a = QuantizeLinear(x, s, z) f = DequantizeLinear(a, s, z)"""
BODY = {
    "small filters": ("c = Conv<pads = [1, 1, 1, 1]>(f, w0)", (4, 16, 3, 3)),
    "tiles": ("c = Conv<pads = [1, 1, 1, 1]>(f, w0)", (24, 16, 3, 3)),
    "depthwise": ("c = Conv<pads = [1, 1, 1, 1], group = 16>(f, w0)", (16, 1, 3, 3)),
    "one tap": ("c = Conv(f, w0)", (24, 16, 1, 1)),
    "residual": (
        """d = Conv<pads = [1, 1, 1, 1]>(f, w0) e = QuantizeLinear(d, t, q) g = DequantizeLinear(e, t, q)
           c = Add(f, g)""",
        (16, 16, 3, 3),
    ),
    "gate": (
        """d = Conv(f, w0) e = QuantizeLinear(d, t, q) g = DequantizeLinear(e, t, q) h = Sigmoid(g)
           i = QuantizeLinear(h, t, q) j = DequantizeLinear(i, t, q) c = Mul(g, j)""",
        (16, 16, 1, 1),
    ),
    "parts": (
        """d = Conv(f, w0) e = QuantizeLinear(d, t, q) g = DequantizeLinear(e, t, q) c = Concat<axis = 1>(f, g)""",
        (24, 16, 1, 1),
    ),
}


def model(name: str) -> onnx.ModelProto:
    body, shape = BODY[name]
    made = parser.parse_model(
        f"""<ir_version: 10, opset_import: ["": 21]> g (float[1, 16, 20, 22] x) => (float[n, m, h, w] y) {{
            {SCALES} w0 = DequantizeLinear<axis = 0>(w, ws, wz) {body} o = QuantizeLinear(c, u, q)
            y = DequantizeLinear(o, u, q) }}"""
    )
    rng = np.random.default_rng(0)
    arrays = {  # weights of 7 bits, since onnxruntime's products saturate where processors have no VNNI
        "w": rng.integers(-63, 64, shape).astype(np.int8),
        "ws": (rng.uniform(0.5, 1, shape[0]) / np.sqrt(np.prod(shape[1:])) / 30).astype(np.float32),
        "wz": np.zeros(shape[0], np.int8),
    }
    made.graph.initializer.extend(onnx.numpy_helper.from_array(array, key) for key, array in arrays.items())
    return made


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("name", BODY)
def test_steps_are_those_of_onnxruntime(name: str, provider: str) -> None:
    require_provider(provider)
    made = model(name)
    feeds = {"x": np.random.default_rng(1).normal(0, 3, (1, 16, 20, 22)).astype(np.float32)}
    reference = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    session = sardonyx.InferenceSession(made.SerializeToString(), providers=[provider])
    (found,), (wanted,) = session.run(None, feeds), reference.run(None, feeds)
    steps = np.abs(np.rint((found - wanted) / 0.0731))
    assert steps.max() <= 1
    assert (steps > 0).mean() <= 1e-3
    assert wanted.std() > 0.5
