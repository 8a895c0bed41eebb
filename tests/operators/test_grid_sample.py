"""AffineGrid, also where ONNX's formula divides by zero: one place is in the middle then, as PyTorch has it."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

from sardonyx import InferenceSession
from tests.engine.providers import PROVIDERS, require_provider

TEXT = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[1, 2, 3] theta, int64[4] size) => (float[1, H, W, 2] grid) {
  grid = AffineGrid <align_corners = %d> (theta, size)
}
"""


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("align_corners", [0, 1])
def test_one_place_is_in_the_middle(align_corners: int, provider: str) -> None:
    require_provider(provider)
    model = onnx.parser.parse_model(TEXT % align_corners)
    session = InferenceSession(model.SerializeToString(), providers=[provider])
    theta = np.random.default_rng(0).normal(size=(1, 2, 3)).astype(np.float32)
    for size in ([1, 1, 1, 1], [1, 1, 1, 3], [1, 1, 3, 1], [1, 1, 2, 3]):
        y, x = (np.linspace(-1, 1, n) if n > 1 else np.zeros(1) for n in size[2:])
        if not align_corners:
            y, x = ((2 * np.arange(n) + 1) / n - 1 for n in size[2:])
        places = np.stack(np.broadcast_arrays(x, y[:, None], 1.0), -1)
        wanted = (places @ theta[0].astype(np.float64).T)[None]
        (found,) = session.run(None, {"theta": theta, "size": np.array(size)})
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
