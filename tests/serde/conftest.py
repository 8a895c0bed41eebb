"""ONNX's own test models, some two thousand small ones."""

import os
import warnings
from pathlib import Path

import onnx
import pytest
from onnx.backend.test.loader import load_model_tests


@pytest.fixture(scope="session")
def onnx_models() -> dict[str, bytes]:
    """The models of onnx's backend tests by name, as they are in files."""
    found: dict[str, bytes] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # making the expected outputs divides by zero
        for kind in ("node", "simple", "pytorch-converted", "pytorch-operator"):
            for case in load_model_tests(kind=kind):
                model = case.model.SerializeToString() if case.model else None
                found[case.name] = model or Path(case.model_dir, "model.onnx").read_bytes()
    light = Path(os.path.dirname(onnx.__file__), "backend/test/data/light")
    return found | {path.stem: path.read_bytes() for path in sorted(light.glob("*.onnx"))}
