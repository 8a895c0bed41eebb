"""Operators on strings, and encoders, against onnxruntime or Python beyond what their samples try."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from sardonyx import InferenceSession
from sardonyx.errors import RuntimeException
from tests.engine.providers import PROVIDERS, require_provider

FLOATS = [
    0.1,
    1 / 3,
    1e-5,
    1e8,
    123456789,
    -0.0,
    0,
    np.nan,
    np.inf,
    -np.inf,
    3.4e38,
    1e7,
    100000,
    314.15926,
    0.47892547,
]
NUMERALS = ["1.5", "1e-5", "1E8", "INF", "+INF", "-inf", "NaN", "+1", " 2 ", "-0", "0.1", "7"]
VERSIONS = {"ai.onnx.ml": 4, "com.microsoft": 1}


def words(*texts: str) -> np.ndarray:
    return np.array(texts, object)


def model(op_type: str, x: np.ndarray, domain: str = "", version: int = 0, **attributes: Any) -> bytes:
    """The bytes of a model of one node, whose input declares its shape."""
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    node = helper.make_node(op_type, ["x"], ["y"], domain=domain, **attributes)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", kind, x.shape)], [onnx.ValueInfoProto(name="y")]
    )
    imports = [helper.make_opsetid("", 21)]
    if domain:
        imports.append(helper.make_opsetid(domain, version or VERSIONS[domain]))
    return bytes(helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString())


def both(op_type: str, x: np.ndarray, provider: str, **attributes: Any) -> tuple[np.ndarray, np.ndarray]:
    """What Sardonyx and what onnxruntime make of it."""
    require_provider(provider)
    data = model(op_type, x, **attributes)
    reference = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    return InferenceSession(data, providers=[provider]).run(None, {"x": x})[0], reference.run(None, {"x": x})[0]


def assert_same(op_type: str, x: np.ndarray, provider: str = "NumpyExecutionProvider", **attributes: Any) -> None:
    found, wanted = both(op_type, x, provider, **attributes)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int64, np.uint8, np.bool_])
def test_numbers_are_written_as_by_onnxruntime(dtype: type[np.generic]) -> None:
    with np.errstate(all="ignore"):
        x = np.array(FLOATS if np.issubdtype(dtype, np.floating) else [0, 1, 5]).astype(dtype)
    assert_same("Cast", x, to=TensorProto.STRING)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16])
def test_floats_are_read_as_by_onnxruntime(kind: int) -> None:
    assert_same("Cast", words(*NUMERALS), to=kind)


@pytest.mark.parametrize("kind", [TensorProto.INT64, TensorProto.INT8, TensorProto.UINT8, TensorProto.BOOL])
def test_integers_are_read_as_by_onnxruntime(kind: int) -> None:
    assert_same("Cast", words("1", "-7", "+3", " 2", "300", "1.5"), to=kind)


@pytest.mark.parametrize("case", ["LOWER", "UPPER", "NONE"])
@pytest.mark.parametrize("exact", [0, 1])
@pytest.mark.parametrize("shape", [(4,), (1, 4)])
def test_normalizer(case: str, exact: int, shape: tuple[int, ...]) -> None:
    x = words("Monday", "monday", "Tuesday", "MONDAY").reshape(shape)
    options = {"case_change_action": case, "is_case_sensitive": exact, "locale": "C"}
    assert_same("StringNormalizer", x, stopwords=["monday"], **options)
    assert_same("StringNormalizer", x, stopwords=["monday", "MONDAY", "Monday", "Tuesday"], **options)
    assert_same("StringNormalizer", x, **options)


@pytest.mark.parametrize(
    "pattern",
    [
        *(r"\w+@\w+\.(com|org)", "a*", r"[^\n]*", "(?i)ABC", r"\d{2,}", ".*", "a|ab", "^abc$", r"\S+\s\S+", ""),
        *(r"\pL+", r"[\p{L}\p{Nd}_]{2,}", r"\P{L}*", r"[^\p{Lu}]+", r"\p{^L}+", r"[\]\pN\PL]+"),
    ],
)
def test_patterns(pattern: str) -> None:
    assert_same(
        "RegexFullMatch", words("a@b.com", "abc", "", "aaa", "12", "ab", "a b", "é", "١٢", "a\n"), pattern=pattern
    )


@pytest.mark.parametrize(
    "how",
    [
        {"separators": [" "]},
        {"separators": [",", r"\s+"]},
        {"separators": ["a", "ab"]},
        {"separators": [""]},
        {"tokenexp": r"\b\w\w+\b"},
        {"tokenexp": "[a-zA-Z0-9_]+"},
        {"tokenexp": "a*"},
    ],
    ids=str,
)
@pytest.mark.parametrize("mark", [0, 1])
def test_tokens(how: dict[str, Any], mark: int) -> None:
    x = words("a cat, a dog", "", "abab,  b_1", "é a").reshape(2, 2)
    options: dict[str, Any] = {"mark": mark, "mincharnum": 1, "pad_value": "#", **how}
    for each in (x, x[0], x[:1, 1:]):
        assert_same("Tokenizer", each, domain="com.microsoft", **options)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("spread", [1, 3, 10**10], ids=["dense", "near", "sparse"])
@pytest.mark.parametrize("count", [1, 2, 3, 100])
def test_keys_are_found(provider: str, spread: int, count: int) -> None:
    rng = np.random.default_rng(count)
    keys = rng.permutation(count) * spread - 7
    values = rng.normal(size=count).astype(np.float32)
    x = np.concatenate([keys, keys + 1, [np.iinfo(np.int64).max, np.iinfo(np.int64).min]])
    attributes: dict[str, Any] = {"keys_int64s": keys, "values_floats": values, "default_float": 0.25}
    assert_same("LabelEncoder", x, provider, domain="ai.onnx.ml", **attributes)


@pytest.mark.parametrize("dtype", [np.int32, np.int16, np.float64, np.object_])
def test_keys_and_values_may_be_tensors(dtype: type[np.generic]) -> None:
    keys = np.array([3, 1, 7]).astype(str if dtype is np.object_ else dtype).astype(dtype)
    tensors = {
        "keys_tensor": keys,
        "values_tensor": np.array([5, 6, -4], np.int16),
        "default_tensor": np.array([9], np.int16),
    }
    attributes = {name: onnx.numpy_helper.from_array(array) for name, array in tensors.items()}
    x = np.concatenate([keys, keys[:1] + keys[:1]])
    found = InferenceSession(model("LabelEncoder", x, "ai.onnx.ml", **attributes)).run(None, {"x": x})[0]
    assert found.dtype == np.int16
    assert found.tolist() == [5, 6, -4, 9]


def test_the_last_of_equal_keys_counts() -> None:
    x = np.array([1, 2])
    data = model("LabelEncoder", x, "ai.onnx.ml", keys_int64s=[1, 2, 1], values_int64s=[10, 20, 30])
    assert InferenceSession(data).run(None, {"x": x})[0].tolist() == [30, 20]


@pytest.mark.parametrize("x", [words("b", "c", "a"), np.array([1, 5, 0])], ids=["strings", "integers"])
def test_classes_of_the_first_operator_set(x: np.ndarray) -> None:
    assert_same("LabelEncoder", x, domain="ai.onnx.ml", version=1, classes_strings=["a", "b"])


def test_unknown_categories_stop_the_run_where_they_are_forbidden() -> None:
    x = words("a", "b")
    session = InferenceSession(model("OneHotEncoder", x, "ai.onnx.ml", cats_strings=["b", "a"], zeros=0))
    assert session.run(None, {"x": x})[0].tolist() == [[0, 1], [1, 0]]
    with pytest.raises(RuntimeException, match=r"OneHotEncoder 'y'.*no category"):
        session.run(None, {"x": words("a", "z")})


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize(("least", "most", "skips"), [(1, 1, 0), (1, 3, 0), (2, 3, 2), (3, 3, 1)])
def test_ngrams(provider: str, mode: str, least: int, most: int, skips: int) -> None:
    rng = np.random.default_rng(least + most)
    grams = [np.unique(rng.integers(0, 4, (6, n)), axis=0) for n in (1, 2, 3)]
    count = sum(map(len, grams))
    attributes: dict[str, Any] = {
        "pool_strings": [f"w{item}" for each in grams for item in each.reshape(-1)],
        "ngram_counts": np.cumsum([0, *(each.size for each in grams[:-1])]).tolist(),
        "ngram_indexes": rng.permutation(count).tolist(),
        "weights": rng.random(count).astype(np.float32).tolist(),
    }
    x = np.array([[f"w{item}" for item in row] for row in rng.integers(0, 6, (3, 12))], object)
    for each in (x, x[0], x[:, :2]):
        options = {"mode": mode, "min_gram_length": least, "max_gram_length": most, "max_skip_count": skips}
        found, wanted = both("TfIdfVectorizer", each, provider, **options, **attributes)
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
