"""Arguments that make no sense: an error that names them, never one of Python's own from somewhere inside."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

from sardonyx import InferenceSession, IOBinding, OrtValue
from sardonyx.errors import InvalidArgument, NoSuchFile, RuntimeException

TEXT = '<ir_version: 10, opset_import: ["": 21]> g (float[N, 2] x) => (float[N, 2] y) { y = Neg(x) }'
MODEL = onnx.parser.parse_model(TEXT)
DATA = MODEL.SerializeToString()
X = np.ones((1, 2), np.float32)
SHAPE = OrtValue.ortvalue_from_shape_and_type


class Broken:
    """What gives an error of its own where NumPy wants an array."""

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise KeyError("nothing")


@pytest.fixture(scope="module")
def session() -> InferenceSession:
    return InferenceSession(DATA, providers=["NumpyExecutionProvider"])


@pytest.mark.parametrize(
    ("feed", "message"),
    [
        (None, "feed a dictionary of arrays by the names of inputs, 'x', not a NoneType"),
        ([X], "not a list"),
        ("x", "not a str"),
        ({"x": [[1.0], [2.0, 3.0]]}, "input 'x' is given a list, of which no array can be made"),
        ({"x": Broken()}, "input 'x' is given a Broken, of which no array can be made"),
    ],
    ids=["none", "list", "text", "ragged", "broken"],
)
def test_feeds(feed: Any, message: str, session: InferenceSession) -> None:
    with pytest.raises(InvalidArgument, match=message):
        session.run(None, feed)


@pytest.mark.parametrize("names", ["y", 1, b"y"])
def test_names_of_outputs(names: Any, session: InferenceSession) -> None:
    with pytest.raises(InvalidArgument, match=r"by a list of names, or None|no output"):
        session.run(names, {"x": X})


def test_options(session: InferenceSession) -> None:
    calls: dict[str, Callable[[], Any]] = {
        "run_options: give a RunOptions, not a int": lambda: session.run(None, {"x": X}, 5),  # type: ignore[arg-type]
        "sess_options: give a SessionOptions, not a str": lambda: InferenceSession(DATA, "x"),  # type: ignore[arg-type]
        "iobinding: give a IOBinding, not a dict": lambda: session.run_with_iobinding({}),  # type: ignore[arg-type]
    }
    for message, call in calls.items():
        with pytest.raises(TypeError, match=message):
            call()


@pytest.mark.parametrize("model", [5, None, MODEL])
def test_what_is_no_model(model: Any) -> None:
    with pytest.raises(TypeError, match=r"Unable to load from type .*: a model is a path, or bytes"):
        InferenceSession(model)
    with pytest.raises(NoSuchFile, match=r"a\\x00b does not exist"):
        InferenceSession("a\0b")


class Answer:
    """What a page's `fetch` gives."""

    async def bytes(self) -> bytes:
        return DATA


def test_answers_of_a_server() -> None:
    """As Pyodide's `pyfetch` gives them: bytes that have to be awaited."""
    with pytest.raises(TypeError, match=r"or bytes, which its bytes\(\) gives$"):
        InferenceSession(Answer())  # type: ignore[arg-type]
    coming = Answer().bytes()
    with pytest.raises(TypeError, match=r"or bytes; `await` gives what it will be$"):
        InferenceSession(coming)  # type: ignore[arg-type]
    assert InferenceSession(asyncio.run(coming)).get_inputs()[0].name == "x"


def test_copies(session: InferenceSession) -> None:
    for call in (pickle.dumps, copy.deepcopy):
        with pytest.raises(
            TypeError, match=r"cannot be pickled, nor copied in depth: .* keep the model's path or bytes"
        ):
            call(session)
    (y,) = copy.copy(session).run(None, {"x": X})
    assert y.tolist() == [[-1, -1]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: b.bind_input("x", "cpu", 0, np.float32, (1, 2), 0), r"a tensor of \[1, 2\] cannot lie at address 0"),
        (lambda b: b.bind_input("x", "cpu", 0, np.float32, (-1, -2), X.ctypes.data), r"\[-1, -2\] has a size below 0"),
        (lambda b: SHAPE([-1], np.float32), r"\[-1\] has a size below 0"),
        (lambda b: SHAPE("ab", np.float32), "a shape is a list of whole numbers, not 'ab'"),
        (lambda b: SHAPE([1 << 50], np.float32), "a tensor of .* wants [0-9,]+ bytes"),
    ],
)
def test_addresses_and_shapes(call: Callable[[IOBinding], Any], message: str, session: InferenceSession) -> None:
    with pytest.raises((InvalidArgument, RuntimeException), match=message):
        call(session.io_binding())
