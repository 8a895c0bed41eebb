"""Bundles and sessions of models whose sizes are open: relations are found, and 0, 1 and more have their plans."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import onnx.numpy_helper
import onnx.parser
import onnxruntime
import pytest

import sardonyx
from sardonyx.common import dtypes
from sardonyx.compiler.open_sizes import OpenSizes
from sardonyx.errors import InvalidArgument, RuntimeException
from sardonyx.model.ir import TensorType, Value
from sardonyx.plans.bundle import Bundle
from tests.engine.graphs import model
from tests.engine.providers import NUMPY, PROVIDERS, require_provider

WASM, WEBGPU = "WasmExecutionProvider", "WebGpuExecutionProvider"
TARGETS = {"wasm": WASM, "webgpu": WEBGPU}
CACHE = model(
    """g (float[P, 4] past, float[S, 4] new, float[T, 4] mask) => (float[T, 4] y) {
        all = Concat <axis = 0> (past, new)
        y = Add (all, mask)
    }"""
)
BROADCAST = model("g (float[A, B] x, float[C, D] y) => (float[E, F] z) { z = Mul (x, y) }")
FREE = model("g (float[N] x, float[M] y) => (float[K] z) { z = Concat <axis = 0> (x, y) }")
LIMITED = model(
    """g (float[B, S, 2] x) => (float[B, S, 2] y) <float[1, 6, 2] table = {0,1,2,3,4,5,6,7,8,9,10,11}> {
        shape = Shape (x)
        one = Constant <value_ints = [1]> ()
        length = Gather (shape, one)
        zero = Constant <value_ints = [0]> ()
        rows = Slice (table, zero, length, one)
        y = Add (x, rows)
    }"""
)
BRANCHES = model(
    """g (int64 rate, float[N] x) => (float[2, M] y) {
        fast = Constant <value_int = 16> ()
        is_fast = Equal (rate, fast)
        y = If (is_fast) <
            then_branch = t () => (float[2, K] a) {
                two = Constant <value_ints = [2, -1]> ()
                a = Reshape (x, two)
            },
            else_branch = e () => (float[2, K] b) {
                four = Constant <value_ints = [4, -1]> ()
                quarters = Reshape (x, four)
                halves = Constant <value_ints = [2, -1]> ()
                b = Reshape (quarters, halves)
            }>
    }"""
)
KEPT = model(
    """g (bool[1] cached, float[E, 2] given, float[P, 2] kept) => (float[K, 2] y) {
        y = If (cached) <
            then_branch = t () => (float[M, 2] a) { a = Add (kept, given) },
            else_branch = e () => (float[N, 2] b) { b = Neg (given) }>
    }"""
)
COUNTED = model(
    """g (int64[N] x) => (float[M] y, float[K] z) {
        rows = ReduceMax <keepdims = 1> (x)
        frames = ConstantOfShape (rows)
        size = Shape (frames)
        count = Squeeze (size)
        limit = Cast <to = 1> (count)
        zero = Constant <value_float = 0.0> ()
        one = Constant <value_float = 1.0> ()
        two = Constant <value_float = 2.0> ()
        y = Range (zero, limit, one)
        z = Range (two, limit, two)
    }"""
)
FRAMES = """
                frames = Conv <strides = [64]> (x, {weights})
                from = Constant <value_ints = [1]> ()
                to = Constant <value_ints = [4]> ()
                axes = Constant <value_ints = [2]> ()
                some = Slice (frames, from, to, axes)
                all = Concat <axis = 2> (some, frames, some)
                {name} = Conv (all, seven)
"""
SOUNDS = model(
    f"""g (int64 rate, float[1, 1, N] x, float[1, 1, 64] slow, float[1, 1, 64] quick, float[1, 1, 7] seven)
        => (float[1, 1, M] y) {{
        fast = Constant <value_int = 16> ()
        is_fast = Equal (rate, fast)
        y = If (is_fast) <
            then_branch = t () => (float[1, 1, K] a) {{ {FRAMES.format(name="a", weights="quick")} }},
            else_branch = e () => (float[1, 1, K] b) {{ {FRAMES.format(name="b", weights="slow")} }}>
    }}"""
)
PATCHES = """g (float[1, 1, H, W] x, float[1, 1, 8, 8] w, float[%d] places, float[1, 1] first) => (float[1, M] y) {
        patches = Conv <strides = [8, 8]> (x, w)
        row = Flatten (patches)
        all = Concat <axis = 1> (first, row)
        y = Add (all, places)
    }"""
PICTURE = model("g (float[1, 1, ?, ?] x) => (float[1, 1, H, W] y) { y = Relu (x) }")


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def session_of(data: bytes, target: str = "wasm", **given: Any) -> sardonyx.InferenceSession:
    require_provider(TARGETS[target])
    return sardonyx.InferenceSession(sardonyx.compile(data, target, **given), providers=[TARGETS[target]])


def told(data: bytes, **given: Any) -> tuple[list[str], list[str]]:
    """What a bundle says that it takes, and what it does not."""
    target = Bundle(sardonyx.compile(data, **given)).manifest["targets"]["wasm"]
    return list(dict.fromkeys(plan["accepts"] for plan in target["plans"])), target["refuses"]


def with_weights(data: bytes, fed: int) -> bytes:
    """The model, whose inputs after those that are fed are weights."""
    proto = onnx.load_from_string(data)
    for value in list(proto.graph.input)[fed:]:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        proto.graph.initializer.append(onnx.numpy_helper.from_array(floats(*shape), value.name))
        proto.graph.input.remove(value)
    return bytes(proto.SerializeToString())


# ---- relations


@pytest.mark.parametrize("target", TARGETS)
def test_what_the_graph_forces_of_sizes_is_found(target: str) -> None:
    session = session_of(CACHE, target)
    for past, new in ((0, 5), (3, 1), (1, 1), (1, 0), (0, 1), (7, 2), (0, 0), (40, 1)):
        feeds = {"past": floats(past, 4), "new": floats(new, 4), "mask": floats(past + new, 4)}
        wanted = np.concatenate([feeds["past"], feeds["new"]]) + feeds["mask"]
        np.testing.assert_array_equal(session.run(None, feeds)[0], wanted)
    lines, _ = told(CACHE)
    assert lines == [
        "past float32[P, 4], new float32[S, 4], mask float32[P + S, 4]; any P; any S; T = P + S",
    ]
    with pytest.raises(
        InvalidArgument, match=r"not for \[2, 4\], \[3, 4\], \[6, 4\].*as it takes\n  past .*T = P \+ S"
    ):
        session.run(None, {"past": floats(2, 4), "new": floats(3, 4), "mask": floats(6, 4)})


def test_numbers_that_contradict_are_refused_by_the_node_that_forces_others() -> None:
    with pytest.raises(InvalidArgument, match=r"T is P \+ S, 7 here and not 9: else Add 'y': shapes .* do not broad"):
        sardonyx.compile(CACHE, sizes={"P": "?4", "S": "?3", "T": "?9"})
    assert told(CACHE, sizes={"T": "?9", "S": "?3"}) == told(CACHE)  # the rest follows
    assert told(CACHE, sizes={"T": "P+S"}) == told(CACHE)


def test_a_number_may_be_forced() -> None:
    data = model("g (float[N, K] x) => (float[N, K] y) <float[3] c = {1, 2, 3}> { y = Add (x, c) }")
    assert told(data) == (["x float32[N, 3]; any N; K = 3"], [])
    with pytest.raises(InvalidArgument, match="K is 3, 3 here and not 4: else Add 'y'"):
        sardonyx.compile(data, sizes={"K": "?4"})


def test_sizes_that_a_branch_forces_are_found() -> None:
    """Of the first numbers that are made up, too few frames are left, which only the branches know."""
    data = with_weights(SOUNDS, 2)
    session, theirs = session_of(data), onnxruntime.InferenceSession(data)
    for rate, count in itertools.product((16, 8), (192, 256, 1000)):
        feeds = {"rate": np.array(rate), "x": floats(1, 1, count)}
        np.testing.assert_allclose(session.run(None, feeds)[0], theirs.run(None, feeds)[0], atol=1e-4)


def test_sizes_that_only_few_make_sense_of_are_found() -> None:
    """A square has 16 patches, and so have other pictures."""
    data = with_weights(model(PATCHES % 17), 1)
    assert told(data)[0] == ["x float32[1, 1, H, W]; any H; any W; (H//8)*(W//8) == 16"]
    session, theirs = session_of(data), onnxruntime.InferenceSession(data)
    for height, width in ((32, 32), (32, 39), (16, 64), (8, 128)):
        feeds = {"x": floats(1, 1, height, width)}
        np.testing.assert_allclose(session.run(None, feeds)[0], theirs.run(None, feeds)[0], atol=1e-5)
    with pytest.raises(InvalidArgument, match=r"\(H//8\)\*\(W//8\) == 16"):
        session.run(None, {"x": floats(1, 1, 40, 40)})


def test_what_few_sizes_make_sense_of_says_why() -> None:
    """No square has 17 patches; of none, the one place that there is, is stretched."""
    lines, refused = told(with_weights(model(PATCHES % 18), 1))
    assert lines == ["x float32[1, 1, H, W]; any H; any W; (H//8)*(W//8) == 0"]
    (line,) = refused
    assert re.fullmatch(r"H = \d+, W = \d+: Add 'y': shapes .* do not broadcast at axis -1", line)


def test_relations_that_only_a_person_knows() -> None:
    session = session_of(FREE, sizes={"M": "2*N+1"})
    for n in (0, 1, 4):
        feeds = {"x": floats(n), "y": floats(2 * n + 1)}
        np.testing.assert_array_equal(session.run(None, feeds)[0], np.concatenate([feeds["x"], feeds["y"]]))
    with pytest.raises(InvalidArgument, match="M = 1 \\+ 2\\*N"):
        session.run(None, {"x": floats(2), "y": floats(4)})


@pytest.mark.parametrize("target", TARGETS)
def test_sizes_that_broadcast(target: str) -> None:
    session = session_of(BROADCAST, target)
    for a, b, c, d in (
        (3, 5, 3, 5),
        (1, 5, 3, 5),
        (3, 5, 1, 5),
        (3, 1, 3, 5),
        (3, 5, 3, 1),
        (1, 1, 1, 1),
        (0, 2, 0, 2),
    ):
        x, y = floats(a, b), floats(c, d)
        np.testing.assert_array_equal(session.run(None, {"x": x, "y": y})[0], x * y)


# ---- names


@pytest.mark.parametrize(
    ("sizes", "accepted"),
    [
        ({"N": 4}, "x float32[4], y float32[M]; any M"),
        ({"N": "4", "M": "N+1"}, "x float32[4], y float32[5]"),
        ({"N": "?4"}, "x float32[N], y float32[M]; any N; any M"),
        ({"N": "?"}, "x float32[N], y float32[M]; any N; any M"),
    ],
)
def test_sizes_by_name(sizes: dict[str, int | str], accepted: str) -> None:
    assert told(FREE, sizes=sizes) == ([accepted], [])


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"L": 4}, "there is no open size 'L'; the model has N, M"),
        ({"M": "K+1"}, "there is no open size 'K'; the model has N, M"),
        ({"M": "M+1"}, "size M=M\\+1 tells M by itself"),
        ({"M": "N+"}, "size M=N\\+: 'N\\+' is no size: write numbers and names"),
        ({"M": "N+1", "N": 3, "x.shape[0]": 3}, "there is no open size 'x.shape\\[0\\]'; the model has N, M"),
    ],
)
def test_names_and_words_that_make_no_sense(sizes: dict[str, int | str], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        sardonyx.compile(FREE, sizes=sizes)


def test_a_shape_of_another_rank_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"input 'x' is float32\[N\], and cannot be 2x2"):
        sardonyx.compile(FREE, shapes={"x": [2, 2]})


def test_a_size_without_a_name_has_that_of_its_place() -> None:
    assert told(PICTURE) == (
        ["x float32[1, 1, x.shape[2], x.shape[3]]; any x.shape[2]; any x.shape[3]"],
        [],
    )
    session = session_of(PICTURE, sizes={"x.shape[2]": 3})
    x = floats(1, 1, 3, 7)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], np.maximum(x, 0))


def test_free_dimension_overrides_hold_for_bundles() -> None:
    options = sardonyx.SessionOptions()
    options.add_free_dimension_override_by_name("N", 4)
    assert told(FREE, options=options) == told(FREE, sizes={"N": 4})


# ---- what is taken


def test_limits_are_said_with_their_reason() -> None:
    accepted, refused = told(LIMITED)
    assert accepted == ["x float32[B, S, 2]; any B; 1 to 6 S"]
    assert len(refused) == 1
    assert refused[0].startswith("B = 2, S = 7: Add 'y': shapes [2,7,2] and [1,6,2] do not broadcast")
    session = session_of(LIMITED)
    table = np.arange(12, dtype=np.float32).reshape(1, 6, 2)
    for batch, length in ((1, 1), (3, 6), (0, 2), (2, 0)):
        x = floats(batch, length, 2)
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], x + table[:, :length])


def test_a_bundle_that_would_take_nothing_is_an_error() -> None:
    data = model(
        "g (float[N] x) => (float[K] y) <float[3] c = {1, 2, 3}, float[2] d = {1, 2}> { a = Add (c, d) y = Add (x, a) }"
    )
    with pytest.raises(sardonyx.errors.SardonyxError, match=r"do not broadcast.*made up for N .*--size N=\?16"):
        sardonyx.compile(data)


def test_sizes_that_are_made_up_may_be_too_large_for_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a page addresses have 32 bits, and weights may be inputs."""
    kind = TensorType(dtypes.float32, ("A", "B"))
    with pytest.raises(sardonyx.errors.SardonyxError, match="input 'x' of 4294967296x4294967296 wants"):
        OpenSizes([Value("x", kind)]).feeds({"A": 2**32, "B": 2**32}, {})
    text = "g (float[N, C, L, H, W] x, float[M, C, A, B, D] w) => (float[N, M, J, K, P] y) { y = Conv (x, w) }"
    data = model(text)
    with monkeypatch.context() as patch:
        patch.setattr("sys.maxsize", 2**31 - 1)
        bundle = sardonyx.compile(data)
    require_provider(WASM)
    session = sardonyx.InferenceSession(bundle, providers=[WASM])
    x, w = floats(1, 2, 3, 4, 5), floats(5, 2, 2, 2, 3)
    (wanted,) = onnxruntime.InferenceSession(data).run(None, {"x": x, "w": w})
    np.testing.assert_allclose(session.run(None, {"x": x, "w": w})[0], wanted, rtol=1e-4, atol=1e-5)


def test_an_input_without_a_shape_wants_one() -> None:
    data = model("g (float[] x, float[N] w, float[] z) => (float[] y) { a = Mul (x, w) y = Add (a, z) }")
    with pytest.raises(InvalidArgument, match=r"inputs 'x', 'z' have no shape in the model: .* x=\?1x\?16, a \?"):
        sardonyx.compile(data)
    with pytest.raises(InvalidArgument, match="input 'z' has no shape in the model"):
        sardonyx.compile(data, shapes={"x": ["?2", 3]})
    session = session_of(data, shapes={"x": ["?2", 3], "z": []})
    x, w = floats(4, 3), floats(3)
    np.testing.assert_array_equal(session.run(None, {"x": x, "w": w, "z": np.float32(2)})[0], x * w + 2)


@pytest.mark.parametrize("target", TARGETS)
def test_both_branches_are_there_where_an_input_chooses(target: str) -> None:
    session = session_of(BRANCHES, target)
    for rate, width in ((16, 3), (8, 4), (16, 5), (8, 0)):
        x = floats(2 * width)
        found = session.run(None, {"rate": np.array(rate), "x": x})[0]
        np.testing.assert_array_equal(found, x.reshape(2, width))


@pytest.mark.parametrize("target", TARGETS)
def test_a_branch_forces_sizes_that_the_other_one_leaves_open(target: str) -> None:
    """As decoders with two branches do, whose encoder's results are kept from the second run on."""
    session, theirs = session_of(KEPT, target), onnxruntime.InferenceSession(KEPT)
    for given, kept, cached in ((3, 0, False), (3, 3, True), (1, 1, True), (2, 7, False), (40, 40, True)):
        feeds = {"cached": np.array([cached]), "given": floats(given, 2), "kept": floats(kept, 2)}
        np.testing.assert_array_equal(session.run(None, feeds)[0], theirs.run(None, feeds)[0])


@pytest.mark.parametrize("target", TARGETS)
def test_ranges_of_floats_that_are_whole_are_as_long_as_their_size(target: str) -> None:
    """As models that speak count their frames: one plan is for any number of them."""
    session, theirs = session_of(COUNTED, target), onnxruntime.InferenceSession(COUNTED)
    for most in (5, 1, 2, 1000, 3):
        feeds = {"x": np.array([1, most], np.int64)}
        for found, wanted in zip(session.run(None, feeds), theirs.run(None, feeds), strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_what_elements_decide_is_said_with_the_input() -> None:
    data = model(
        """g (int64 rate, float[8] x) => (float[2, M] y) {
            fast = Constant <value_int = 16> ()
            is_fast = Equal (rate, fast)
            y = If (is_fast) <
                then_branch = t () => (float[2, K] a) { s = Constant <value_ints = [3, -1]> () a = Reshape (x, s) },
                else_branch = e () => (float[2, K] b) { s = Constant <value_ints = [2, -1]> () b = Reshape (x, s) }>
        }"""
    )
    _, refused = told(data)
    assert len(refused) == 1
    assert refused[0].startswith("elements of inputs that decide otherwise: Reshape 'a': cannot reshape [8] to [3,")
    session = session_of(data)
    assert session.run(None, {"rate": np.array(8), "x": floats(8)})[0].shape == (2, 4)
    with pytest.raises(InvalidArgument, match=r"has no plan for what elements of 'rate' decide; .*--value rate=..."):
        session.run(None, {"rate": np.array(16), "x": floats(8)})


def test_constants_are_stored_once_for_plans_and_targets() -> None:
    rng = np.random.default_rng(0)
    graph = onnx.parser.parse_graph(
        """g (float[B, 32, H, W] x) => (float[B, 80, h, w] y) {
            a = Conv <pads = [1, 1, 1, 1]> (x, k)
            b = Relu (a)
            y = Conv (b, l)
        }"""
    )
    kernels = {"k": rng.normal(size=(48, 32, 3, 3)), "l": rng.normal(size=(80, 48, 1, 1))}
    graph.initializer.extend(
        onnx.numpy_helper.from_array(each.astype(np.float32), name) for name, each in kernels.items()
    )
    data = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
    bundle = Bundle(sardonyx.compile(data.SerializeToString(), ["wasm", "webgpu"], compress=False))
    stored = sum(bundle.sections[name].nbytes for name in bundle.manifest["weights"])
    assert stored < 1.05 * sum(4 * each.size for each in kernels.values())


# ---- sessions


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("first", [(1, 1), (1, 4), (3, 4)])
def test_a_session_that_met_two_sizes_compiles_nothing_for_a_third(provider: str, first: tuple[int, int]) -> None:
    require_provider(provider)
    session = sardonyx.InferenceSession(BROADCAST, providers=[provider])
    reference = onnxruntime.InferenceSession(BROADCAST, providers=["CPUExecutionProvider"])
    made = None
    for rows, columns in (first, (2, 5), (1, 1), (1, 6), (4, 1), (3, 3)):
        feeds = {"x": floats(rows, columns), "y": floats(rows, columns)}
        np.testing.assert_array_equal(session.run(None, feeds)[0], reference.run(None, feeds)[0])
        if (rows, columns) == (2, 5):
            made = len(session.plans)
    assert made == len(session.plans)


def test_warm_up_makes_all_plans() -> None:
    session = sardonyx.InferenceSession(BROADCAST, providers=[NUMPY])
    session.warm_up()
    made = session.compiled
    assert made
    for x, y in (((2, 3), (2, 3)), ((1, 3), (2, 3)), ((2, 3), (2, 1)), ((1, 1), (1, 1))):
        session.run(None, {"x": floats(*x), "y": floats(*y)})
    assert session.compiled == made


# ---- sizes of 0 and 1 in kernels


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("pool", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize(
    "attributes", ["kernel_shape = [1, 2], strides = [1, 2]", "kernel_shape = [2, 3], strides = [2, 3]"]
)
def test_a_window_may_stick_out_by_less_than_a_stride(provider: str, pool: str, attributes: str) -> None:
    require_provider(provider)
    data = model(f"g (float[N, 1, H, W] x) => (float[N, 1, h, w] y) {{ y = {pool} <{attributes}> (x) }}")
    session = sardonyx.InferenceSession(data, providers=[provider])
    reference = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    for shape in ((2, 1, 5, 7), (1, 1, 2, 1), (1, 1, 1, 1), (1, 1, 1, 2), (3, 1, 4, 4)):
        feeds = {"x": np.abs(floats(*shape)) + 1}
        np.testing.assert_allclose(session.run(None, feeds)[0], reference.run(None, feeds)[0], rtol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_a_convolution_of_nothing_gives_nothing(target: str) -> None:
    rng = np.random.default_rng(0)
    graph = onnx.parser.parse_graph(
        "g (float[B, 32, 3, W] x) => (float[B, 32, 3, W] y) { y = Conv <pads = [1, 1, 1, 1]> (x, k) }"
    )
    graph.initializer.append(onnx.numpy_helper.from_array(rng.normal(size=(32, 32, 3, 3)).astype(np.float32), "k"))
    data = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
    session = session_of(data.SerializeToString(), target)
    for batch, width in ((0, 4), (2, 0), (1, 1), (2, 9)):
        assert session.run(None, {"x": floats(batch, 32, 3, width)})[0].shape == (batch, 32, 3, width)


@pytest.mark.parametrize("target", TARGETS)
def test_rows_may_have_to_be_several(target: str) -> None:
    """One row, as of a batch, makes no sense where four are taken."""
    data = model(
        "g (float[N, 3] x) => (float[4, 3] y, int64[4, 3] i) <int64[1] k = {4}> { y, i = TopK <axis = 0> (x, k) }"
    )
    session, reference = session_of(data, target), onnxruntime.InferenceSession(data)
    for rows in (4, 5, 40):
        feeds = {"x": floats(rows, 3)}
        for found, wanted in zip(session.run(None, feeds), reference.run(None, feeds), strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_nothing_is_found_in_nothing(provider: str) -> None:
    require_provider(provider)
    data = model(
        """g (float[N, 4] x, float[4, 1] w) => (float[M, 1] y) {
            sums = MatMul (x, w)
            found = NonZero (sums)
            first = Constant <value_int = 0> ()
            places = Gather (found, first)
            some = Gather (sums, places)
            shape = Shape (sums)
            y = Expand (some, shape)
        }"""
    )
    session, reference = sardonyx.InferenceSession(data, providers=[provider]), onnxruntime.InferenceSession(data)
    for rows in (0, 3, 0, 1):
        feeds = {"x": np.arange(1, 4 * rows + 1, dtype=np.float32).reshape(rows, 4), "w": np.ones((4, 1), np.float32)}
        np.testing.assert_array_equal(session.run(None, feeds)[0], reference.run(None, feeds)[0])


@pytest.mark.parametrize("target", TARGETS)
def test_whether_anything_was_found_has_plans_for_both(target: str) -> None:
    data = model(
        """g (float[N, 4] x, float[4, 1] w) => (float[1] y) {
            weighed = MatMul (x, w)
            zero = Constant <value_float = 0.0> ()
            isLarge = Greater (weighed, zero)
            found = NonZero (isLarge)
            places = Transpose (found)
            some = GatherND (weighed, places)
            none = Constant <value_int = 0> ()
            count = Size (some)
            any = Greater (count, none)
            y = If (any) <
                then_branch = t () => (float[1] a) { a = ReduceMax (some) },
                else_branch = e () => (float[1] b) { b = Constant <value_floats = [-1.0]> () }>
        }"""
    )
    session, reference = session_of(data, target), onnxruntime.InferenceSession(data)
    w = np.ones((4, 1), np.float32)
    for x in (floats(3, 4), -np.abs(floats(3, 4)), np.abs(floats(1, 4)), floats(0, 4)):
        found, wanted = session.run(None, {"x": x, "w": w})[0], reference.run(None, {"x": x, "w": w})[0]
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


AGREED = model(
    """g (float[N, 3] x, float[3] w) => (float[1, K, 3] y, float[M] z) {
        weighed = MatMul (x, w)
        zero = Constant <value_float = 0.0> ()
        isLarge = Greater (weighed, zero)
        found = NonZero (isLarge)
        first = Constant <value_ints = [0]> ()
        places = Squeeze (found, first)
        rows = Gather (x, places)
        ones = Cast <to = 7> (isLarge)
        counted = ReduceSum <keepdims = 1> (ones)
        one = Constant <value_ints = [1]> ()
        three = Constant <value_ints = [3]> ()
        shape = Concat <axis = 0> (one, counted, three)
        y = Reshape (rows, shape)
        begin = Constant <value_int = 0> ()
        step = Constant <value_int = 1> ()
        limit = Squeeze (counted)
        range = Range (begin, limit, step)
        numbers = Cast <to = 1> (range)
        some = MatMul (rows, w)
        z = Add (some, numbers)
    }"""
)
"""What was found, and how much that is counted to be, are two numbers that only the run tells."""


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_the_run_tells_agrees(provider: str) -> None:
    require_provider(provider)
    session = sardonyx.InferenceSession(AGREED, providers=[provider])
    assert_agreed(session)
    assert not any(plan.is_beginning for plan in session.plans)


@pytest.mark.parametrize("target", TARGETS)
def test_what_the_run_tells_agrees_in_a_bundle(target: str) -> None:
    assert_agreed(session_of(AGREED, target))


def assert_agreed(session: sardonyx.InferenceSession) -> None:
    reference = onnxruntime.InferenceSession(AGREED)
    for rows in (5, 9, 2, 40):
        feeds = {"x": floats(rows, 3), "w": np.ones(3, np.float32)}
        for found, wanted in zip(session.run(None, feeds), reference.run(None, feeds), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5)


MASKED = model(
    """g (float[B, 2, S, 8] q, float[B, 2, T, 8] k, float[B, 2, T, 8] v, int64[B, 1, 1, U] mask)
        => (float[B, 2, S, 8] y) {
        turned = Transpose <perm = [0, 1, 3, 2]> (k)
        products = MatMul (q, turned)
        root = Constant <value_float = 2.5> ()
        scaled = Div (products, root)
        bounds = Constant <value_float = -10000.0> ()
        hidden = Cast <to = 1> (mask)
        finite = Mul (hidden, bounds)
        scores = Add (scaled, finite)
        powers = Softmax <axis = -1> (scores)
        y = MatMul (powers, v)
    }"""
)
"""Attention whose mask has a name of its own for the keys."""


def masked(batches: int, queries: int, keys: int) -> dict[str, np.ndarray]:
    shapes = {"q": (batches, 2, queries, 8), "k": (batches, 2, keys, 8), "v": (batches, 2, keys, 8)}
    mask = (np.arange(keys) > np.arange(batches)[:, None]).astype(np.int64)
    return {name: floats(*shape) for name, shape in shapes.items()} | {"mask": mask.reshape(batches, 1, 1, keys)}


@pytest.mark.parametrize("target", TARGETS)
def test_a_mask_with_a_name_of_its_own(target: str) -> None:
    session, reference = session_of(MASKED, target), onnxruntime.InferenceSession(MASKED)
    for sizes in ((2, 3, 5), (1, 3, 5), (3, 2, 1), (1, 1, 1), (4, 1, 9)):
        feeds = masked(*sizes)
        np.testing.assert_allclose(session.run(None, feeds)[0], reference.run(None, feeds)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_one_key_and_a_mask_of_several(provider: str) -> None:
    require_provider(provider)
    session = sardonyx.InferenceSession(MASKED, providers=[provider])
    feeds = masked(2, 3, 1) | {"mask": np.zeros((2, 1, 1, 4), np.int64)}
    with pytest.raises(RuntimeException, match=r"\[2,2,3,1\] are scores of 1 keys, and a mask or bias is of 4"):
        session.run(None, feeds)


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_at_all_is_a_size_too(target: str) -> None:
    """All outputs are empty then, and no other plan is for that: the first row is not there."""
    data = model(
        """g (float[B, N, 2] x) => (float[B, N, 2] y) {
            zero = Constant <value_ints = [0]> ()
            one = Constant <value_ints = [1]> ()
            first = Slice (x, zero, one, one)
            y = Mul (x, first)
        }"""
    )
    session, reference = session_of(data, target), onnxruntime.InferenceSession(data)
    for sizes in itertools.product((0, 1, 5), repeat=2):
        x = floats(*sizes, 2)
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], reference.run(None, {"x": x})[0], strict=True)
