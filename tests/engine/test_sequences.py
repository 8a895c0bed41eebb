"""Sequences, optionals and maps: fed, returned, carried through control flow; against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import sardonyx
from sardonyx.errors import Fail, InvalidArgument, RuntimeException
from sardonyx.ops import control
from sardonyx.plans.plan import Plan
from sardonyx.runtime.replay import replay
from tests.engine.graphs import model
from tests.engine.providers import NUMPY, PROVIDERS
from tests.support import eager

EDIT = """
g (seq(float[?]) s, float[N] x, int64 at)
    => (seq(float[?]) longer, float[M] taken, int64 count, float[K] joined, seq(float[?]) r)
{
  longer = SequenceInsert (s, x, at)
  taken = SequenceAt (longer, at)
  shorter = SequenceErase (longer, at)
  count = SequenceLength (shorter)
  joined = ConcatFromSequence <axis = 0> (longer)
  r = SequenceMap (longer, x) <body = each (float[P] a, float[N] b) => (float[P] c) {
    top = ReduceMax <keepdims = 0> (b)
    c = Add (a, top)
  }>
}
"""

SPLIT = """
g (float[N, 4] x, int64[K] sizes)
    => (seq(float[?]) rows, seq(float[?]) parts, seq(float[?]) pairs, float[P, 4] stacked)
{
  rows = SplitToSequence <axis = 0, keepdims = 0> (x)
  parts = SplitToSequence <axis = 1> (x, sizes)
  two = Constant <value_int = 2> ()
  pairs = SplitToSequence <axis = -2> (x, two)
  stacked = ConcatFromSequence <axis = 0, new_axis = 1> (rows)
}
"""

BRANCHES = """
g (seq(float[?]) s, bool c, int64 at) => (seq(float[?]) same, seq(float[?]) other, float[M] taken) {
  same = If (c) <
    then_branch = t () => (seq(float[?]) a) { a = Identity (s) },
    else_branch = e () => (seq(float[?]) b) {
      two = Constant <value_float = 2.0> ()
      b = SequenceMap (s) <body = each (float[N] v) => (float[N] w) { w = Mul (v, two) }>
    }
  >
  zero = Constant <value_int = 0> ()
  first = SequenceAt (same, zero)
  other = If (c) <
    then_branch = t2 () => (seq(float[?]) a2) { a2 = SequenceErase (s) },
    else_branch = e2 () => (seq(float[?]) b2) { b2 = SequenceInsert (s, first) }
  >
  taken = If (c) <
    then_branch = t3 () => (float[M] a3) { a3 = SequenceAt (s, at) },
    else_branch = e3 () => (float[M] b3) { m = SequenceAt (s, at)  b3 = Neg (m) }
  >
}
"""

GROW = """
g (int64 n, float limit, float[N] x) => (seq(float[?]) s, float[N] last, float[T] sums) {
  none = SequenceEmpty ()
  yes = Constant <value = bool {1}> ()
  s, last, sums = Loop (n, yes, none, x) <
    body = step (int64 i, bool going, seq(float[?]) items, float[N] v)
        => (bool on, seq(float[?]) more, float[N] w, float sum)
    {
      w = Add (v, x)
      more = SequenceInsert (items, w)
      sum = ReduceSum <keepdims = 0> (w)
      on = Less (sum, limit)
    }>
}
"""
"""A sequence is carried, and the data say when to stop."""

WEIGHED = """
g (int64 n, float limit, float[4, 4] a, float[4] x) => (seq(float[?]) s) {
  none = SequenceEmpty ()
  yes = Constant <value = bool {1}> ()
  s, last = Loop (n, yes, none, x) <
    body = step (int64 i, bool going, seq(float[?]) items, float[4] v) => (bool on, seq(float[?]) more, float[4] w) {
      w = MatMul (a, v)
      more = SequenceInsert (items, w)
      sum = ReduceSum <keepdims = 0> (w)
      on = Less (sum, limit)
    }>
}
"""
"""Likewise, but the condition is too dear to be computed for a guess."""

CAPTURED = """
g (seq(float[?]) s, float[2] x) => (float[2] y, float[T] sums) {
  n = SequenceLength (s)
  yes = Constant <value = bool {1}> ()
  y, sums = Loop (n, yes, x) <body = step (int64 i, bool going, float[2] v) => (bool on, float[2] w, float sum) {
    on = Identity (going)
    item = SequenceAt (s, i)
    w = Add (v, item)
    sum = ReduceSum <keepdims = 0> (item)
  }>
}
"""

INSIDE = """
g (float[4, 2] x, int64 n) => (float[2] y, float[T, 2] rows) {
  yes = Constant <value = bool {1}> ()
  zero = Constant <value = float[2] {0, 0}> ()
  y, rows = Loop (n, yes, zero) <body = step (int64 i, bool going, float[2] v) => (bool on, float[2] w, float[2] row) {
    on = Identity (going)
    parts = SplitToSequence <axis = 0, keepdims = 0> (x)
    row = SequenceAt (parts, i)
    w = Add (v, row)
  }>
}
"""
"""Nothing but tensors is carried, and each iteration takes another element."""

OPTIONAL = """
g (optional(float[N]) a, optional(seq(float[?])) b, float[K] x)
    => (bool has, bool any, float[M] y, optional(float[N]) back)
{
  has = OptionalHasElement (a)
  any = OptionalHasElement (b)
  y = If (any) <
    then_branch = t () => (float[M] t0) { s = OptionalGetElement (b)  t0 = ConcatFromSequence <axis = 0> (s) },
    else_branch = e () => (float[M] e0) { e0 = Neg (x) }
  >
  back = Identity (a)
}
"""

FUNCTION = """
<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
g (seq(float[?]) s, int64 n) => (seq(float[?]) t, float[M] y) {
  t = local.repeat (s, n)
  y = ConcatFromSequence <axis = 0> (t)
}
<domain: "local", opset_import: ["" : 21]>
repeat (items, count) => (result) {
  yes = Constant <value = bool {1}> ()
  zero = Constant <value_int = 0> ()
  result = Loop (count, yes, items) <
    body = step (int64 i, bool going, seq(float[?]) held) => (bool on, seq(float[?]) more)
  {
    on = Identity (going)
    first = SequenceAt (held, zero)
    twice = Add (first, first)
    more = SequenceInsert (held, twice, zero)
  }>
}
"""


def arrays(*lengths: int) -> list[np.ndarray]:
    rng = np.random.default_rng(sum(lengths))
    return [rng.normal(size=length).astype(np.float32) for length in lengths]


def assert_same(ours: Any, theirs: Any) -> None:
    """Assert that outputs are arranged in the same way, of the same types and nearly equal."""
    assert type(ours) is type(theirs)
    if isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
    elif isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        assert ours == pytest.approx(theirs, rel=1e-6)
    elif isinstance(theirs, np.ndarray):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5, strict=True)
    else:
        assert ours == theirs


def _ports(session: Any) -> list[Any]:
    return [*session.get_inputs(), *session.get_outputs()]


def compare(provider: str, data: bytes, calls: list[dict[str, Any]]) -> sardonyx.InferenceSession:
    session = sardonyx.InferenceSession(data, providers=[provider])
    reference = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    for ours, theirs in zip(_ports(session), _ports(reference), strict=True):
        assert (ours.name, ours.type) == (theirs.name, theirs.type)
    for feeds in calls:
        assert_same(session.run(None, feeds), reference.run(None, feeds))
    return session


@pytest.mark.parametrize("provider", PROVIDERS)
def test_insert_take_erase_join_map(provider: str) -> None:
    (x,) = arrays(5)
    calls = [
        {"s": arrays(*lengths), "x": x, "at": np.array(at)}
        for lengths, at in [((2, 3), 0), ((4, 4), 0), ((2, 3), -1), ((2, 3, 4), 2), ((7, 7), 0), ((1,), 1)]
    ]
    session = compare(provider, model(EDIT), calls)
    assert session.compiled == 4  # a plan for each length and position, whatever the sizes
    assert set(session.plans[0].placement) <= {0, -1}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_split(provider: str) -> None:
    rng = np.random.default_rng(0)
    calls = [
        {"x": rng.normal(size=(n, 4)).astype("f4"), "sizes": np.array(sizes)}
        for n, sizes in [(3, [1, 3]), (3, [2, 2]), (5, [4]), (2, [1, 1, 2])]
    ]
    compare(provider, model(SPLIT), calls)
    session = sardonyx.InferenceSession(model(SPLIT), providers=[provider])
    with pytest.raises(RuntimeException, match=r"split \[.*\] does not sum to the 4 elements of axis 1"):
        session.run(None, {**calls[0], "sizes": np.array([1, 1])})


@pytest.mark.parametrize("provider", PROVIDERS)
def test_branches_with_sequences(provider: str) -> None:
    calls = [
        {"s": arrays(*lengths), "c": np.array(c), "at": np.array(at)}
        for lengths, c, at in [((3, 3), True, 1), ((3, 3), False, 0), ((3, 2), True, 0), ((2, 2), False, 1)]
    ]
    compare(provider, model(BRANCHES), calls)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_loop_that_carries_a_sequence(provider: str) -> None:
    x = np.array([1, 2], np.float32)
    calls = [
        {"n": np.array(n), "limit": np.array(limit, np.float32), "x": x} for n, limit in [(3, 99), (50, 20), (1, 99)]
    ]
    session = compare(provider, model(GROW), calls)
    items, last, sums = session.run(None, {**calls[0], "n": np.array(0)})
    assert (items, sums.shape, sums.dtype) == ([], (0,), np.float32)
    np.testing.assert_array_equal(last, x)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_loop_whose_end_only_the_run_tells(provider: str) -> None:
    a = np.eye(4, dtype=np.float32) * np.float32(1.25)
    x = np.ones(4, np.float32)
    calls = [{"n": np.array(1000), "limit": np.array(limit, np.float32), "a": a, "x": x} for limit in (6, 9000, 0)]
    compare(provider, model(WEIGHED), calls)


def test_loop_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "MOST_TURNS", 20)
    at_front = "front = Constant <value_int = 0> ()  more = SequenceInsert (items, w, front)"
    graph = GROW.replace("more = SequenceInsert (items, w)", at_front)
    session = sardonyx.InferenceSession(model(graph), providers=[NUMPY])
    feeds = {"n": np.array(1 << 40), "limit": np.array(np.inf, np.float32), "x": np.zeros(1, np.float32)}
    with pytest.raises(RuntimeException, match=r"Loop 's': makes more than 20 iterations.*with Concat"):
        session.run(None, feeds)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_loop_over_a_sequence_around_it(provider: str) -> None:
    x = np.array([1, 2], np.float32)
    session = compare(provider, model(CAPTURED), [{"s": arrays(*[2] * count), "x": x} for count in (1, 3, 12)])
    y, sums = session.run(None, {"s": [], "x": x})
    np.testing.assert_array_equal(y, x)
    assert sums.size == 0


@pytest.mark.parametrize("provider", PROVIDERS)
def test_sequence_within_an_iteration(provider: str) -> None:
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    compare(provider, model(INSIDE), [{"x": x, "n": np.array(n)} for n in (4, 2, 1)])


@pytest.mark.parametrize("provider", PROVIDERS)
def test_optionals(provider: str) -> None:
    a, x, *items = arrays(3, 4, 2, 5)
    calls = [
        {"a": a, "b": items, "x": x},
        {"a": None, "b": items, "x": x},
        {"a": a, "b": None, "x": x},
        {"x": x},
    ]
    session = compare(provider, model(OPTIONAL), calls)
    assert session.compiled == 4
    assert session.get_inputs()[0].type == "optional(tensor(float))"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_sequences_through_functions(provider: str) -> None:
    data = onnx.parser.parse_model(FUNCTION).SerializeToString()
    compare(provider, data, [{"s": arrays(2, 3), "n": np.array(n)} for n in (0, 1, 3)])


def test_eager() -> None:
    proto = onnx.load_from_string(model(EDIT))
    (x,) = arrays(2)
    feeds = {"s": arrays(3, 1), "x": x, "at": np.array(1)}
    reference = onnxruntime.InferenceSession(model(EDIT), providers=["CPUExecutionProvider"])
    assert_same(eager.evaluate(proto, feeds), reference.run(None, feeds))


def test_plans_say_how_outputs_are_arranged() -> None:
    session = sardonyx.InferenceSession(model(EDIT), providers=[NUMPY])
    feeds = {"s": arrays(2, 3), "x": arrays(5)[0], "at": np.array(0)}
    wanted = session.run(None, feeds)
    plan = Plan.from_json(session.plans[0].to_json())
    assert plan.arguments == [["tensor"] * 2, "tensor", "tensor"]
    assert plan.results == [["tensor"] * 3, "tensor", "tensor", "tensor", ["tensor"] * 3]
    assert [port.name for port in plan.inputs] == ["s[0]", "s[1]", "x", "at"]
    flat = {"s[0]": feeds["s"][0], "s[1]": feeds["s"][1], "x": feeds["x"], "at": feeds["at"]}
    found = replay(plan, flat)
    assert_same(found[:3], wanted[0])
    assert_same(found[-3:], wanted[-1])


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({"s": np.zeros((2, 3), np.float32)}, r"input 's' is a seq\(tensor\(float\)\): give a list, not a ndarray"),
        ({"s": None}, r"input 's' is a seq\(tensor\(float\)\): give a list, not nothing"),
        ({"s": [np.zeros(2)]}, r"input 's\[0\]' wants float, not NumPy's float64; use astype"),
        ({"x": None}, "Missing Input: x; None is fed for what the model declares as float32"),
        ({"at": np.array(9)}, r"SequenceInsert 'longer': position 9 is out of range for a sequence of 1; use -1..1"),
    ],
)
def test_errors_say_what_to_feed(feeds: Mapping[str, Any], message: str) -> None:
    session = sardonyx.InferenceSession(model(EDIT), providers=[NUMPY])
    with pytest.raises((Fail, InvalidArgument, RuntimeException), match=message):
        session.run(None, {"s": arrays(2), "x": arrays(2)[0], "at": np.array(0), **feeds})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("y = Relu (s)", "Relu 'y': takes tensors, and 's' is a sequence; take an element with SequenceAt"),
        ("e = OptionalGetElement (o)  y = Relu (e)", "OptionalGetElement 'e': the optional is empty"),
        ("y = Relu (o)", "Relu 'y': takes tensors, and 'o' is an optional without element"),
        ("t = SequenceEmpty ()  y = ConcatFromSequence <axis = 0> (t)", "'y': the sequence is empty"),
        ("t = SequenceEmpty ()  u = SequenceErase (t)  y = ConcatFromSequence <axis = 0> (u)", "nothing to erase"),
    ],
)
def test_errors_of_operators(body: str, message: str) -> None:
    data = model(f"g (seq(float[?]) s, optional(float[N]) o) => (float[M] y) {{ {body} }}")
    session = sardonyx.InferenceSession(data, providers=[NUMPY])
    with pytest.raises(RuntimeException, match=message):
        session.run(None, {"s": arrays(2), "o": None})


# ---- maps


def maps_model(node: onnx.NodeProto, inputs: dict[str, Any], output: Any) -> bytes:
    """A model of one node of ai.onnx.ml; types are element types of tensors, or TypeProtos."""
    values = [helper.make_value_info(name, _type(kind)) for name, kind in (*inputs.items(), ("y", output))]
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3)]
    graph = helper.make_graph([node], "maps", values[:-1], values[-1:])
    return bytes(helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString())


def _type(kind: Any) -> onnx.TypeProto:
    return helper.make_tensor_type_proto(kind, None) if isinstance(kind, int) else kind


def map_type(key: int, value: int) -> onnx.TypeProto:
    return helper.make_map_type_proto(key, helper.make_tensor_type_proto(value, []))


def ml(name: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(name, ["x"], ["y"], domain="ai.onnx.ml", **attributes)


FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("labels", "key"),
    [({"classlabels_int64s": [3, 1, 7]}, INT64), ({"classlabels_strings": ["cat", "ant", "bee"]}, STRING)],
    ids=["int64", "string"],
)
def test_zip_map(provider: str, labels: dict[str, Any], key: int) -> None:
    output = helper.make_sequence_type_proto(map_type(key, FLOAT))
    data = maps_model(ml("ZipMap", **labels), {"x": FLOAT}, output)
    rng = np.random.default_rng(0)
    calls = [{"x": rng.random((n, 3), np.float32)} for n in (2, 5, 0)] + [{"x": rng.random(3, np.float32)}]
    session = compare(provider, data, calls)
    assert session.compiled == 2  # one for each rank
    with pytest.raises(RuntimeException, match=r"ZipMap 'y': has 3 class labels, which .* is no matrix of scores for"):
        session.run(None, {"x": np.zeros((2, 4), np.float32)})


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("node", "types", "calls"),
    [
        (
            ml("DictVectorizer", string_vocabulary=["a", "b", "c"]),
            (map_type(STRING, FLOAT), FLOAT),
            [{"c": 1.5, "q": 3.0, "a": 2.0}, {"b": 1.0}],
        ),
        (ml("DictVectorizer", int64_vocabulary=[3, 1, 7]), (map_type(INT64, FLOAT), FLOAT), [{7: 1.5, 9: 3.0, 1: 2.0}]),
        (ml("CastMap", cast_to="TO_FLOAT"), (map_type(INT64, FLOAT), FLOAT), [{4: 1.5, -1: -2.75, 0: 3.5}]),
        (ml("CastMap", cast_to="TO_INT64"), (map_type(INT64, FLOAT), INT64), [{4: 1.5, 1: -2.75, 0: 3.5}]),
        (
            ml("CastMap", cast_to="TO_FLOAT", map_form="SPARSE", max_map=3),
            (map_type(INT64, FLOAT), FLOAT),
            [{4: 1.5, 1: -2.75}, {2: 1.0}],
        ),
    ],
    ids=["words", "numbers", "dense", "integers", "sparse"],
)
def test_tensors_of_maps(provider: str, node: onnx.NodeProto, types: tuple[Any, Any], calls: list[Any]) -> None:
    data = maps_model(node, {"x": types[0]}, types[1])
    compare(provider, data, [{"x": call} for call in calls])


@pytest.mark.parametrize("provider", PROVIDERS)
def test_maps_of_strings(provider: str) -> None:
    """onnxruntime cannot be fed such maps."""
    vectorize = maps_model(ml("DictVectorizer", int64_vocabulary=[3, 1]), {"x": map_type(INT64, STRING)}, STRING)
    (words,) = sardonyx.InferenceSession(vectorize, providers=[provider]).run(None, {"x": {1: "one", 2: "two"}})
    assert words.tolist() == [["", "one"]]
    cast = maps_model(ml("CastMap", cast_to="TO_FLOAT"), {"x": map_type(INT64, STRING)}, FLOAT)
    (numbers,) = sardonyx.InferenceSession(cast, providers=[provider]).run(None, {"x": {5: "2.5", 1: "-1"}})
    assert numbers.tolist() == [[-1, 2.5]]


def test_errors_of_maps() -> None:
    data = maps_model(ml("DictVectorizer", int64_vocabulary=[3, 1]), {"x": map_type(INT64, FLOAT)}, FLOAT)
    session = sardonyx.InferenceSession(data, providers=[NUMPY])
    assert session.get_inputs()[0].type == "map(int64,tensor(float))"
    with pytest.raises(InvalidArgument, match="give a dict, not a list"):
        session.run(None, {"x": [1.0]})
    with pytest.raises(InvalidArgument, match="the key 'one' is no int64"):
        session.run(None, {"x": {"one": 1.0}})
    with pytest.raises(InvalidArgument, match="could not convert string to float"):
        session.run(None, {"x": {1: "one"}})


def test_inputs_of_any_rank() -> None:
    data = model("g (float x) => (float y) { y = Neg (x) }")
    proto = onnx.load_from_string(data)
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    session = sardonyx.InferenceSession(proto.SerializeToString(), providers=[NUMPY])
    for shape in [(2, 3), (4,), (), (2, 3, 4), (3, 2)]:
        assert session.run(None, {"x": np.ones(shape, np.float32)})[0].shape == shape
