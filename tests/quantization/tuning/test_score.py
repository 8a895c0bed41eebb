"""Agreement, cosine and signal-to-noise beside NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from sardonyx.errors import InvalidArgument
from sardonyx.quantization.tuning.budget import Budget, all_met, budget
from sardonyx.quantization.tuning.score import EXACT, Score


def scored(name: str, *pairs: tuple[np.ndarray, np.ndarray]) -> Score:
    score = Score.of([name])
    for expected, found in pairs:
        score.add([expected], [found])
    return score


def test_figures_are_numpys(rng: np.random.Generator) -> None:
    pairs = []
    for rows in (1, 3, 5):
        expected = rng.normal(size=(rows, 7)).astype(np.float32)
        pairs.append((expected, (expected + rng.normal(0, 0.5, expected.shape)).astype(np.float32)))
    score = scored("logits", *pairs)
    same = np.concatenate([one.argmax(-1) == other.argmax(-1) for one, other in pairs])
    assert 0 < same.mean() < 1
    assert score.agreement == same.mean()
    cosines = [np.dot(one.ravel(), other.ravel()) / np.linalg.norm(one) / np.linalg.norm(other) for one, other in pairs]
    assert score.cosine == pytest.approx(np.mean(cosines), rel=1e-6)
    signal = sum(np.square(one, dtype=np.float64).sum() for one, _ in pairs)
    noise = sum(np.square(other.astype(np.float64) - one).sum() for one, other in pairs)
    assert score.snr == pytest.approx(10 * np.log10(signal / noise))


@pytest.mark.parametrize(
    ("shape", "axis"), [((2, 5), 1), ((2, 3, 5), 2), ((2, 5, 4, 3), 1)], ids=["classes", "positions", "pictures"]
)
def test_classes_lie_along_an_axis(shape: tuple[int, ...], axis: int, rng: np.random.Generator) -> None:
    one, other = rng.normal(size=(2, *shape)).astype(np.float32)
    assert scored("y", (one, other)).agreement == (one.argmax(axis) == other.argmax(axis)).mean()


def test_one_class_is_present_or_not() -> None:
    mask = np.float32([[0.1, 0.6], [0.4, 0.9]])[None, None]
    assert scored("mask", (mask, mask + np.float32([0.05, 0.0]))).agreement == 1
    assert scored("mask", (mask, 1 - mask)).agreement == 0
    logits = np.float32([[0.4], [-3.0]])
    assert scored("y", (logits, np.float32([[0.1], [-1.0]]))).agreement == 1
    assert scored("y", (logits, np.float32([[0.1], [1.0]]))).agreement == 0.5


def test_integers_are_decisions_and_features_are_not() -> None:
    labels = scored("label", (np.array([1, 2, 3]), np.array([1, 5, 3])))
    assert (labels.agreement, labels.cosine, labels.snr) == (2 / 3, None, None)
    features = scored("sentence_embedding", (np.ones((1, 4), np.float32), np.ones((1, 4), np.float32)))
    assert (features.agreement, features.cosine, features.snr) == (None, 1.0, EXACT)


@pytest.mark.parametrize("wrong", [np.full((1, 3), np.nan, np.float32), np.ones((1, 4), np.float32)])
def test_what_is_no_number_or_another_shape_has_nothing_in_common(wrong: np.ndarray) -> None:
    score = scored("y", (np.float32([[1, 2, 3]]), wrong))
    assert (score.cosine, score.snr) == (0, -EXACT)
    assert score.agreement == 0


def test_the_worst_output_counts() -> None:
    score = Score.of(["a", "b"])
    one = np.float32([[3, 4]])
    score.add([one, one], [one, np.float32([[3, -4]])])
    assert score.cosine == pytest.approx(-7 / 25)
    assert score.snr == pytest.approx(10 * np.log10(25 / 64))


def test_budgets() -> None:
    score = scored("y", (np.float32([[3, 4]]), np.float32([[3, 4.1]])))
    assert all_met([budget("agreement>=1"), budget("cosine >= 0.999"), budget("snr>=33dB")], score)
    assert not Budget("snr", 34.0).met(score)
    embedding = scored("embedding", (np.float32([[3, 4]]), np.float32([[3, 4]])))
    with pytest.raises(InvalidArgument, match=r"no output decides between classes \(embedding\); ask for cosine>=0.99"):
        budget("agreement>=0.9").met(embedding)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("accuracy>=0.9", "there is no metric 'accuracy'; there are agreement, cosine, snr"),
        ("agreement", "write agreement>=0.99, cosine>=0.995 or snr>=25"),
        ("agreement>=99", "agreement is the share of equal decisions, 0 to 1"),
        ("cosine>=0.9dB", "cosine is the cosine of the outputs"),
        ("snr>=20%", "snr is signal-to-noise in dB"),
        ("snr>=1.2.3", "write agreement>=0.99"),
    ],
)
def test_budgets_that_make_no_sense(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        budget(text)
    assert message in str(error.value)
