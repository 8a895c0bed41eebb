"""Heads of detectors, decoded within the plan: as their papers say, on every provider."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest

from sardonyx import InferenceSession
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.writer import write
from sardonyx.passes.picture import Picture
from sardonyx.passes.vision.detection import Detection, with_detection
from sardonyx.passes.vision.heads import HEADS
from tests.engine.providers import require_provider
from tests.vision.families import FAMILIES, LABELS, Family, Raw, kept, passing, placed

SIZES = [(120, 200), (200, 90), (64, 96), (7, 9)]
NUMPY = "NumpyExecutionProvider"


def detector(
    family: Family, raw: Raw, picture: Picture | None = None, metadata: dict[str, str] | None = None, **options: Any
) -> bytes:
    """A model of this family that gives boxes, with the least that has to be said."""
    proto = passing(raw)
    for key, value in (metadata or {}).items():
        proto.metadata_props.add(key=key, value=value)
    head = "" if family.isclear else family.word
    told = Detection(**{"head": head, "labels": LABELS, **family.options, **options})
    if picture is None and HEADS[family.word].picture is None:
        picture = Picture("images", fit="contain")
    return write(with_detection(read(proto.SerializeToString()), told, picture))


def answer(model: bytes, raw: Raw, size: tuple[int, int], provider: str = NUMPY) -> list[npt.NDArray[Any]]:
    session = InferenceSession(model, providers=[provider])
    pixels = np.zeros((*size, 4), np.uint8)
    found: list[npt.NDArray[Any]] = session.run(None, {"images": pixels, **{f"fed/{k}": x for k, x in raw.items()}})
    return found


@pytest.mark.parametrize(
    "provider", [NUMPY, "WasmExecutionProvider", pytest.param("WebGpuExecutionProvider", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", FAMILIES)
def test_families(name: str, provider: str) -> None:
    require_provider(provider)
    family = FAMILIES[name]
    raw = family.make(np.random.default_rng(1))
    session = InferenceSession(detector(family, raw, threshold=0.3), providers=[provider])
    assert [(each.name, each.type) for each in session.get_outputs()] == [
        ("boxes", "tensor(float)"),
        ("scores", "tensor(float)"),
        ("labels", "tensor(int64)"),
    ]
    for seed, size in enumerate(SIZES):
        raw = family.make(np.random.default_rng(seed))
        feeds = {"images": np.zeros((*size, 4), np.uint8), **{f"fed/{k}": x for k, x in raw.items()}}
        boxes, scores, labels = session.run(None, feeds)
        wanted = kept(*family.decode(raw), 0.3, 0.45 if family.overlaps else None)
        assert len(wanted[1]) >= 3
        np.testing.assert_array_equal(labels, wanted[2])
        np.testing.assert_allclose(scores, wanted[1], rtol=1e-5)
        np.testing.assert_allclose(boxes, placed(wanted[0], size, family.fit), atol=1e-3, rtol=1e-5)
    assert session.compiled == 1


def test_pictures_without_a_batch() -> None:
    family = FAMILIES["torchvision"]
    raw = family.make(np.random.default_rng(1))
    proto = passing(raw, batch=())
    proto.graph.input.append(onnx.helper.make_tensor_value_info("anchors", onnx.TensorProto.FLOAT, [1, 1, 4]))
    model = write(with_detection(read(proto.SerializeToString()), Detection(labels=LABELS), Picture("images")))
    session = InferenceSession(model, providers=[NUMPY])
    feeds = {"images": np.zeros((120, 200, 4), np.uint8), "anchors": np.zeros((1, 1, 4), np.float32)}
    boxes, _, labels = session.run(None, {**feeds, **{f"fed/{k}": x for k, x in raw.items()}})
    wanted = kept(*family.decode(raw), 0.25, None)
    np.testing.assert_array_equal(labels, wanted[2])
    np.testing.assert_allclose(boxes, placed(wanted[0], (120, 200), "stretch"), atol=1e-3, rtol=1e-5)
