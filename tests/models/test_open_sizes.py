"""One bundle of a model whose sizes are open, made for no sizes in particular, at any sizes: as onnxruntime has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sardonyx import InferenceSession
from sardonyx.api.bundling import bundle_of
from sardonyx.errors import NotImplemented
from sardonyx.plans.plan_cache import Source
from tests.engine.providers import WASM, WEBGPU, require_provider
from tests.models import MODELS, path
from tests.models.open_sizes import OPEN, draw, feeds_of
from tests.models.open_sizes.trial import DRAWS, Outcome, trials
from tests.models.oracle import session

TARGETS = {WASM: "wasm", WEBGPU: "webgpu"}
CHATS = {id for id in OPEN if id.startswith("smollm2")}
QUICK = {
    WASM: {"minilm-l3", "ppocr4-det", "ppocr4-rec", "romanizer-dec", "silero-vad", "tashkeel-bilstm-int8"},
    WEBGPU: {"minilm-l3", "romanizer-dec", "silero-vad-seq"},
}
"""Models for every day; the others run nightly."""
FEW = {"smollm2-int4-contrib-prefill": 5}
"""Language models that run so many sizes every day."""
HOSTED = {WEBGPU: {"lgbm-decode-te5"}}
"""Models with nodes that need Python."""
MANY = {WASM: 40, WEBGPU: 64}
"""How many sizes language models run every night: onnxruntime takes 40 of those for GPUs, of which more are of 0."""


def combination(id: str, provider: str, is_quick: bool) -> Any:
    mark = pytest.mark.slow if is_quick else pytest.mark.nightly
    return pytest.param(id, provider, id=f"{id}-{TARGETS[provider]}", marks=mark)


@pytest.mark.parametrize(
    ("id", "provider"), [combination(id, provider, id in QUICK[provider]) for provider in TARGETS for id in OPEN]
)
def test_any_sizes(id: str, provider: str, tmp_path: Path) -> None:
    count, part = DRAWS[TARGETS[provider]]
    check(id, provider, tmp_path, MANY[provider] if id in CHATS else count, part)


@pytest.mark.slow
@pytest.mark.parametrize("id", FEW)
def test_a_few_sizes(id: str, tmp_path: Path) -> None:
    check(id, WASM, tmp_path, FEW[id], 0.3)


def check(id: str, provider: str, folder: Path, count: int, part: float) -> None:
    """Make a bundle, and fail with a line for each of the sizes that it is wrong at."""
    require_provider(provider)
    if id in HOSTED.get(provider, ()):
        with pytest.raises(NotImplemented, match="need Python"):
            bundle_of(Source(path(id)), [TARGETS[provider]])
        return
    file = folder / f"{id}.sdx"
    with file.open("wb") as written:
        written.writelines(bundle_of(Source(path(id)), [TARGETS[provider]]))
    ours = InferenceSession(file, providers=[provider])
    found = list(trials(id, ours, session(id), count, part))
    wrong = [trial for trial in found if not trial.outcome.is_right]
    if wrong:
        pytest.fail("\n".join(map(str, wrong)), pytrace=False)
    assert any(trial.outcome is Outcome.AGREED for trial in found)


@pytest.mark.parametrize("id", OPEN)
def test_sizes_are_as_the_list_says(id: str) -> None:
    """Those that are drawn have 0 and 1 among them where they may, and what the others tell."""
    rng = np.random.default_rng(0)
    found = [draw(id, rng) for _ in range(100)]
    for name, choices in OPEN[id].free.items():
        drawn = {sizes[name] for sizes in found}
        assert drawn <= {*choices}
        assert {0, 1, choices[-1]} & {*choices} <= drawn
    for name, parts in OPEN[id].sums.items():
        assert all(sizes[name] == sum(sizes[part] for part in parts) for sizes in found)


@pytest.mark.slow
@pytest.mark.parametrize("id", [id for id in OPEN if id not in CHATS])
def test_feeds_are_of_these_sizes(id: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(3):
        sizes = draw(id, rng)
        feeds = feeds_of(id, sizes, rng)
        assert {name: array.dtype for name, array in feeds.items()} == {
            name: np.dtype(dtype) for name, (dtype, *_) in MODELS[id].inputs.items()
        }
        numbers = {size for array in feeds.values() for size in array.shape}
        assert {*sizes.values()} <= numbers
