"""Floats that NumPy lacks."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import numpy as np
from sardonyx import primitives as p
from sardonyx.common import dtypes

x = p.constant(np.array([0.25, -3.0], np.float32), dtypes.float32)
(y, z) = (p.cast(p.cast(x, dtype), dtypes.float32).value for dtype in (dtypes.bfloat16, dtypes.float8e4m3fn))
assert y.tolist() == z.tolist() == [0.25, -3.0]
"""


def test_a_process_that_imported_no_operator_casts_them() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=500)
