"""Boxes in a page: what Python makes of the same bundle, to the last bit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from sardonyx import InferenceSession
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.writer import write
from sardonyx.passes.vision.detection import Detection, with_detection
from tests.support import require
from tests.support.browser import Chromium
from tests.vision.families import convolutional
from tests.web.pages import Case, bundled, open_page, run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page() -> Iterator[Chromium]:
    require("browser")
    with open_page() as opened:
        yield opened


def test_the_same_bits_in_a_page(page: Chromium) -> None:
    model = write(with_detection(read(convolutional().SerializeToString()), Detection(threshold=0.6)))
    bundle = bundled(model, {}, ["wasm"])
    rng = np.random.default_rng(0)
    feeds = [{"images": rng.integers(0, 256, (*size, 4), np.uint8)} for size in ((120, 200), (300, 90), (64, 96))]
    feeds.append({"images": np.zeros((32, 48, 4), np.uint8)})
    session = InferenceSession(bundle)
    counts = []
    for given, answer in zip(feeds, run(page, [Case(bundle, each) for each in feeds], "wasm"), strict=True):
        assert not isinstance(answer, str), answer
        for found, wanted in zip(answer, session.run(None, given), strict=True):
            np.testing.assert_array_equal(found, wanted)
            assert found.dtype == wanted.dtype
        counts.append(len(answer[1]))
    assert counts[0] > 10
    assert counts[-1] == 0
