"""Mistakes in quantizing and in what is seen in pictures."""

from __future__ import annotations

from tests.mutations.runner import Mutation

QUANTIZATION = [
    Mutation(
        "reduced ranges have all bits",
        "core/sardonyx/quantization/scales.py",
        "    dtypes.int8: (-64, 64),\n",
        "    dtypes.int8: (-127, 127),\n",
        ("tests/quantization/test_scales.py",),
    ),
    Mutation(
        "the extent of samples is that of the last one",
        "core/sardonyx/quantization/histogram.py",
        "np.fmax(self.high, other.high)",
        "other.high",
        ("tests/quantization/test_histogram.py",),
    ),
]
VISION = [
    Mutation(
        "arrays of blue, green and red are taken for red, green and blue",
        "core/sardonyx/vision/detector.py",
        "found = self._runner.run(picture, order)",
        'found = self._runner.run(picture, "rgb")',
        ("tests/vision/test_options.py",),
    ),
]
