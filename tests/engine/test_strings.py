"""Strings are ids inside, on every provider; functions of the host make new ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import onnxruntime
import pytest

import sardonyx
from sardonyx import primitives as p
from sardonyx.api import runner
from sardonyx.common import dtypes
from sardonyx.common.strings import RunStrings, StaleStringsError, StringTable
from sardonyx.errors import InvalidArgument, NotImplemented, RuntimeException
from sardonyx.host import host_function
from sardonyx.ops.operator import Operator
from sardonyx.plans.plan import Host, Plan
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.runtime.replay import replay
from tests.engine.graphs import model
from tests.engine.providers import NUMPY, PROVIDERS

MOVES = """
g (string[N] x, int64[K] i, string[1] s)
    => (string[K] y, bool[N] e, string[M] c, string[N] w, string[2, R] r)
{
  pets = Constant <value_strings = ["cat", "dog"]> ()
  cat = Constant <value_string = "cat"> ()
  y = Gather (x, i)
  e = Equal (x, cat)
  c = Concat <axis = 0> (x, pets)
  w = Where (e, s, x)
  both = Constant <value_ints = [2, -1]> ()
  r = Reshape (c, both)
}
"""
SPLIT = """
g (string[N] x) => (string[N, K] y, int64[N] n, bool[N, K] e, int64[2] s, string[N] t)
{
  y, n = StringSplit (x)
  cat = Constant <value_string = "cat"> ()
  e = Equal (y, cat)
  s = Shape (y)
  t = StringConcat (x, cat)
}
"""
GROWING = """
g (string[N] x, int64 n) => (string[M] y, string[T, N] z)
{
  one = Constant <value_int = 1> ()
  c = Cast <to = 9> (one)
  y, z = Loop (n, c, x) <body = body (int64 i, bool c, string[K] a) => (bool d, string[L] longer, string[N] marked) {
    d = Identity (c)
    dot = Constant <value_string = "."> ()
    marked = StringConcat (x, dot)
    longer = Concat <axis = 0> (a, marked)
  }>
}
"""


def words(*texts: str) -> np.ndarray:
    return np.array(texts, object)


def run(text: str, provider: str = NUMPY, **feeds: np.ndarray) -> list[np.ndarray]:
    return sardonyx.InferenceSession(model(text), providers=[provider]).run(None, feeds)


def oracle(text: str, **feeds: np.ndarray) -> list[np.ndarray]:
    reference = onnxruntime.InferenceSession(model(text), providers=["CPUExecutionProvider"])
    return list(reference.run(None, feeds))


FEEDS = {
    MOVES: {"x": words("cat", "bird", "é", "dog"), "i": np.array([2, 0, 0]), "s": words("hit")},
    SPLIT: {"x": words("a cat", "", "cat dog cat")},
    GROWING: {"x": words("a", "b."), "n": np.array(3)},
}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("text", FEEDS, ids=["moves", "split", "growing"])
def test_as_onnxruntime(provider: str, text: str) -> None:
    for found, wanted in zip(run(text, provider, **FEEDS[text]), oracle(text, **FEEDS[text]), strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("text", FEEDS, ids=["moves", "split", "growing"])
def test_replays_from_json(text: str) -> None:
    made = sardonyx.InferenceSession(model(text), providers=[NUMPY])
    expected = made.run(None, FEEDS[text])
    plan = Plan.from_json(made.plans[0].to_json())
    for found, wanted in zip(replay(plan, FEEDS[text]), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert all(sub.strings is plan.strings for subs in plan.functions for sub in subs)


@pytest.mark.parametrize("given", [np.array(["é", "b"]), words("é", "b"), np.array(["é".encode(), b"b"]), ["é", "b"]])
def test_kinds_of_arrays_that_are_strings(given: np.ndarray) -> None:
    (found,) = run("g (string[N] x) => (string[N] y) { y = Identity (x) }", x=given)
    assert found.dtype == object
    assert found.tolist() == ["é", "b"]


def test_objects_become_what_they_print_as_in_onnxruntime() -> None:
    text, x = "g (string[N] x) => (string[N] y) { y = Identity (x) }", np.array([1.5, None, "a", np.nan], object)
    assert run(text, x=x)[0].tolist() == oracle(text, x=x)[0].tolist()


def test_room_that_nothing_fills_holds_empty_strings() -> None:
    text = "g (string[N] x) => (string[M] y) { width = Constant <value_ints = [1, 0]> ()  y = Pad (x, width) }"
    assert run(text, x=words("a"))[0].tolist() == ["", "a"]


def test_numbers_are_no_strings() -> None:
    with pytest.raises(InvalidArgument, match="'x' wants string, not NumPy's float64"):
        run("g (string[N] x) => (string[N] y) { y = Identity (x) }", x=np.ones(2))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("y = Add (x, x)", "Add 'y'.*add takes elements of kind float, int, uint, not string"),
        ("y = Less (x, x)", "Less 'y'.*not string"),
        ("y = ArgMax (x)", "ArgMax 'y'.*reduce does not take strings"),
        ("y = StringConcat (n, n)", "StringConcat 'y'.*strings are needed, not float32"),
        ('y = RegexFullMatch <pattern = "("> (x)', r"RegexFullMatch 'y'.*'\(' is no regular expression"),
        ("y = Cast <to = 1> (x)", "Cast 'y': could not convert string to float: 'b'"),
    ],
)
def test_what_cannot_be_done_is_named(body: str, message: str) -> None:
    with pytest.raises(RuntimeException, match=message):
        run(f"g (string[N] x, float[N] n) => (y) {{ {body} }}", x=words("b"), n=np.ones(1, np.float32))


def test_what_depends_on_constants_alone_is_computed_once() -> None:
    text = """
    g (string[N] x) => (string[N] y) {
      a = Constant <value_strings = ["p q"]> ()
      parts, n = StringSplit (a)
      s = Constant <value_strings = ["!"]> ()
      last = StringConcat (parts, s)
      one = Constant <value_ints = [1]> ()
      z = Constant <value_ints = [0]> ()
      row = Squeeze (last, z)
      q = Gather (row, one)
      f = Cast <to = 1> (n)
      t = Cast <to = 8> (f)
      e = Equal (x, q)
      y = Where (e, q, t)
    }"""
    made = sardonyx.InferenceSession(model(text), providers=[NUMPY])
    assert made.run(None, {"x": words("q!", "x")})[0].tolist() == ["q!", "2"]
    assert not any(isinstance(step, Host) for step in made.plans[0].steps)


def test_what_runs_bring_is_forgotten() -> None:
    made = sardonyx.InferenceSession(model(MOVES), providers=[NUMPY])
    made.run(None, FEEDS[MOVES])
    before = list(made.plans[0].strings)
    for k in range(3):
        made.run(None, {**FEEDS[MOVES], "x": words(f"new {k}", "cat", "x", "y")})
    assert list(made.plans[0].strings) == before == ["", "cat", "dog"]
    assert made.compiled == 1


def test_folded_strings_are_saved(tmp_path: Path) -> None:
    text = """
    g (string[N] x) => (string[M] y) {
      a = Constant <value_strings = ["p", "é"]> ()
      b = StringConcat (a, a)
      y = Concat <axis = 0> (x, b)
    }"""
    options = sardonyx.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "saved.onnx")
    sardonyx.InferenceSession(model(text), options, providers=[NUMPY])
    saved = onnxruntime.InferenceSession(options.optimized_model_filepath, providers=["CPUExecutionProvider"])
    assert saved.run(None, {"x": words("x")})[0].tolist() == ["x", "pp", "éé"]


# ---- functions of the host


@pytest.fixture
def spelling() -> None:
    """An operator that a third party might bring: numbers written out, twice, and those of them that are above 0."""

    @host_function("test.spell")
    def spell(x: np.ndarray, *, digits: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
        if digits < 0:
            raise KeyError("digits")
        return np.array([[f"{item:.{digits}f}" for item in x.tolist()]] * rows, object), x[x > 0]

    class Spell(Operator, domain="test"):
        digits: int = 1
        rows: int = 2

        def expand(self, x: Array) -> tuple[Array, ...]:
            results = [(dtypes.string, (2, *x.shape)), (x.dtype, (None,))]
            return p.host("test.spell", x, results=results, digits=self.digits, rows=self.rows)


def spell(provider: str, attributes: str = "digits = 2") -> sardonyx.InferenceSession:
    text = f"""
    <ir_version: 10, opset_import: ["" : 21, "test" : 1]>
    g (float[N] x) => (string[A, B] y, float[C] z) {{
      t = Mul (x, x)
      y, u = test.Spell <{attributes}> (t)
      z = Add (u, u)
    }}"""
    return sardonyx.InferenceSession(onnx.parser.parse_model(text).SerializeToString(), providers=[provider])


@pytest.mark.usefixtures("spelling")
@pytest.mark.parametrize("provider", PROVIDERS)
def test_functions_of_third_parties(provider: str) -> None:
    made = spell(provider)
    for x in (np.array([1.5, 0, 3], np.float32), np.array([0, 0], np.float32), np.zeros(0, np.float32)):
        y, z = made.run(None, {"x": x})
        assert y.tolist() == [[f"{item * item:.2f}" for item in x]] * 2
        np.testing.assert_array_equal(z, 2 * x[x > 0] ** 2)
    plan = Plan.from_json(made.plans[0].to_json())
    assert replay(plan, {"x": np.ones(1, np.float32)})[0].tolist() == [["1.00"], ["1.00"]]
    (step,) = (step for step in plan.steps if isinstance(step, Host))
    assert (step.function, step.attributes) == ("test.spell", {"digits": 2, "rows": 2})


@pytest.mark.usefixtures("spelling")
def test_what_functions_do_wrong_is_named() -> None:
    x = np.ones(3, np.float32)
    with pytest.raises(RuntimeException, match=r"Spell 'y'.*result 0 of test.spell is \[5, 3\], not \[2, 3\]"):
        spell(NUMPY, "rows = 5").run(None, {"x": x})
    with pytest.raises(RuntimeException, match=r"Spell 'y'.*digits"):
        spell(NUMPY, "digits = -1").run(None, {"x": x})
    plan = spell(NUMPY)
    plan.run(None, {"x": x})
    text = plan.plans[0].to_json().replace("test.spell", "test.unheard")
    with pytest.raises(NotImplemented, match=r"no host function 'test.unheard' is registered"):
        replay(Plan.from_json(text), {"x": x})


# ---- ids


def test_ids_of_runs_are_negative_and_their_own() -> None:
    table = StringTable(["", "cat"])
    one, other = RunStrings(table), RunStrings(table)
    assert one.encode(words("dog", "cat", "", "cow", "dog")).tolist() == [-1, 1, 0, -2, -1]
    assert other.encode(words("cow")).tolist() == [-1]
    assert one.decode(np.array([[-2], [1]], np.int32)).tolist() == [["cow"], ["cat"]]
    assert len(table) == 2


def test_a_run_starts_again_when_its_strings_become_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    table = StringTable()
    run_strings = RunStrings(table)
    run_strings.encode(words("dog"))
    table.encode(words("cow"))
    run_strings.check()
    table.encode(words("dog"))
    with pytest.raises(StaleStringsError):
        run_strings.check()

    failing = iter([True, False])

    class Late(RunStrings):
        def check(self) -> None:
            if next(failing, False):
                raise StaleStringsError

    monkeypatch.setattr(runner, "RunStrings", Late)
    assert run(SPLIT, x=words("a cat"))[0].tolist() == [["a", "cat"]]
    assert next(failing, None) is None


def test_constants_of_strings_need_a_table() -> None:
    with pytest.raises(TypeError, match="strings are numbered in a trace"):
        constant(words("a"))
    with StringTable() as table:
        found = constant(words("a", "", "a"))
        assert found.value is not None
        assert table.decode(found.value).tolist() == ["a", "", "a"]
