"""Threads of the NumPy provider share a segment: the same bits as one thread, and nobody is left waiting."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest

import sardonyx
from sardonyx import numpy_backend
from sardonyx.common import crew as crews
from sardonyx.common.crew import Crew
from sardonyx.common.termination import governed
from sardonyx.errors import Fail, RuntimeException
from sardonyx.numpy_backend import executable, sharing
from sardonyx.numpy_backend.division import Access, Bound, Cut, Division, access, even
from sardonyx.numpy_backend.room import Room
from sardonyx.numpy_backend.sharing import Walk, stages
from tests.engine.providers import NUMPY

RUNS = executable.FIRST + 3


class Always:
    """The way is the shared one."""

    def next(self) -> int:
        return 1

    def took(self, way: int, seconds: float) -> None:
        pass


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """All that can be divided is, in every run; gives how many parts each stage has."""
    seen: list[int] = []
    make = executable.stages

    def counted(*args: Any) -> list[list[sharing.Part]]:
        made = make(*args)
        seen.extend(sum(map(bool, stage)) for stage in made)
        return made

    monkeypatch.setattr(executable, "stages", counted)
    monkeypatch.setattr(executable, "SHARED", 0)
    monkeypatch.setattr(executable, "Trial", Always)
    monkeypatch.setattr(sharing, "LARGE", 0.0)
    monkeypatch.setattr(crews, "LATE", 60.0)
    return seen


GRAPHS = {
    "convolutions": """g (float[1, 32, 40, 41] x, float[64, 32, 3, 3] w, float[64, 64, 1, 1] v)
        => (float[N, C, H, W] y) {
        a = Conv <pads = [1, 1, 1, 1]> (x, w)
        b = Relu (a)
        c = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 0, 0]> (b)
        d = Conv (c, v)
        e = Sigmoid (d)
        y = AveragePool <kernel_shape = [2, 3], pads = [1, 1, 1, 1]> (e) }""",
    "few sums": """g (float[1, 64, 60, 61] x, float[24, 64, 3, 5] w) => (float[N, C, H, W] y) {
        y = Conv <pads = [0, 2, 1, 1], dilations = [2, 1]> (x, w) }""",
    "strides": """g (float[1, 16, 90, 50] x, float[128, 16, 5, 3] w) => (float[N, C, H, W] y) {
        y = Conv <strides = [2, 3], pads = [2, 1, 0, 1]> (x, w) }""",
    "filters": """g (float[1, 256, 7, 7] x, float[256, 256, 3, 3] w) => (float[N, C, H, W] y) {
        a = Conv <pads = [1, 1, 1, 1]> (x, w)
        y = Tanh (a) }""",
    "more than few sums": """g (float[1, 64, 20, 20] x, float[64, 64, 3, 3] w) => (float[N, C, H, W] y) {
        a = Conv <pads = [1, 1, 1, 1]> (x, w)
        y = Tanh (a) }""",
    "filters of bands": """g (float[1, 16, 40, 41] x, float[96, 16, 3, 3] w) => (float[N, C, H, W] y) {
        y = Conv <pads = [1, 1, 1, 1]> (x, w) }""",
    "places": """g (float[1, 64, 56, 56] x, float[100, 64, 1, 1] w, float[128, 100, 1, 1] v) => (float[N, C, H, W] y) {
        a = Conv (x, w)
        b = Relu (a)
        y = Conv (b, v) }""",
    "two images": """g (float[2, 32, 60, 61] x, float[64, 32, 3, 3] w) => (float[N, C, H, W] y) {
        y = Conv <pads = [1, 1, 1, 1]> (x, w) }""",
    "halves": """g (float16[1, 32, 60, 61] x, float16[64, 32, 3, 3] w) => (float16[N, C, H, W] y) {
        y = Conv <pads = [1, 1, 1, 1]> (x, w) }""",
    "groups": """g (float[1, 12, 30, 31] x, float[24, 4, 3, 3] w) => (float[N, C, H, W] y) {
        y = Conv <group = 3> (x, w) }""",
    "images": """g (float[5, 3, 20, 21] x, float[4, 3, 3, 3] w) => (float[N, C, H, W] y) {
        y = Conv <pads = [1, 0, 1, 0]> (x, w) }""",
    "one axis": """g (float[1, 32, 3001] x, float[64, 32, 5] w) => (float[N, C, L] y) {
        a = Conv <pads = [2, 2]> (x, w)
        y = Relu (a) }""",
    "doubles": """g (double[1, 32, 40, 41] x, double[64, 32, 3, 3] w) => (double[N, C, H, W] y) {
        a = Conv (x, w)
        y = Exp (a) }""",
    "transposed": """g (float[3, 8, 9, 10] x, float[8, 4, 3, 3] w) => (float[N, C, H, W] y) {
        y = ConvTranspose <strides = [2, 2]> (x, w) }""",
    "layers": """g (float[1, 300, 96] x, float[96, 192] w, float[192, 96] v, float[96] s) => (float[N, T, C] y) {
        a = LayerNormalization (x, s)
        b = MatMul (a, w)
        c = Gelu (b)
        d = MatMul (c, v)
        e = Add (d, x)
        y = Softmax (e) }""",
    "columns": """g (float[20, 500] x, float[500, 900] w) => (float[N, C] y) {
        a = MatMul (x, w)
        y = Softmax (a) }""",
    "heads": """g (float[1, 6, 70, 16] q, float[1, 6, 16, 70] k) => (float[N, H, T, S] y) {
        a = MatMul (q, k)
        b = Softmax (a)
        y = Transpose <perm = [0, 2, 1, 3]> (b) }""",
    "sums": """g (float[64, 1000] x, float[64, 3] z) => (float[1, 1000] y, float[64, 1] a, float[1, 3] b) {
        y = ReduceSum <keepdims = 1> (x, zero)
        a = ReduceMean (x, one)
        b = ReduceSum (z, zero) }""",
    "integers": """g (int8[40, 600] x, int8[600, 700] w) => (int32[N, C] y) { y = MatMulInteger (x, w) }""",
}


def model(text: str) -> onnx.ModelProto:
    made = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 20]> {text}')
    for name, axis in (("zero", 0), ("one", 1)):
        made.graph.initializer.append(onnx.numpy_helper.from_array(np.array([axis]), name))
    return made


def feeds(made: onnx.ModelProto) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    result = {}
    for value in made.graph.input:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        result[value.name] = (rng.normal(size=shape) * (40 if dtype.kind == "i" else 1)).astype(dtype)
    return result


def session(text: str, count: int) -> sardonyx.InferenceSession:
    options = sardonyx.SessionOptions()
    options.intra_op_num_threads = count
    return sardonyx.InferenceSession(model(text).SerializeToString(), options, [NUMPY])


@pytest.mark.parametrize("name", GRAPHS)
def test_the_bits_do_not_depend_on_threads(name: str, eager: list[int]) -> None:
    fed = feeds(model(GRAPHS[name]))
    expected = session(GRAPHS[name], 1).run(None, fed)
    assert not eager
    for count in (2, 3, 4):
        shared = session(GRAPHS[name], count)
        for _ in range(RUNS):
            for found, value in zip(shared.run(None, fed), expected, strict=True):
                np.testing.assert_array_equal(found, value)
    assert max(eager) >= 3


def test_who_finds_the_team_busy_works_alone(eager: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    shared, fed = session(GRAPHS["filters"], 2), feeds(model(GRAPHS["filters"]))
    expected = [shared.run(None, fed)[0] for _ in range(RUNS)]
    walks: list[int] = []
    monkeypatch.setattr(executable, "Walk", lambda made: walks.append(1) or Walk(made))
    team = numpy_backend._device(2).team  # type: ignore[attr-defined]
    (found,) = team.turn.run(lambda: shared.run(None, fed), list)
    np.testing.assert_array_equal(found, expected[0])
    assert not walks
    np.testing.assert_array_equal(shared.run(None, fed)[0], expected[0])
    assert walks


def test_an_error_names_its_launch(eager: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    shared, fed = session(GRAPHS["filters"], 2), feeds(model(GRAPHS["filters"]))
    before = [shared.run(None, fed)[0] for _ in range(RUNS)]

    with monkeypatch.context() as patch:
        patch.setattr(executable, "Walk", failing)
        with pytest.raises(RuntimeException, match=r"Conv.*: ValueError: on purpose"):
            shared.run(None, fed)
    np.testing.assert_array_equal(shared.run(None, fed)[0], before[0])


def failing(made: list[list[sharing.Part]]) -> Walk:
    """A run whose first launch fails."""
    (number, _), *_ = made[0][0]
    return Walk([[[(number, on_purpose)]] * len(made[0]), *made[1:]])


def on_purpose() -> None:
    raise ValueError("on purpose")


def walk(calls: Sequence[Sequence[Any]]) -> Walk:
    return Walk([[[(number, call)] for call in line] for number, line in enumerate(calls)])


def test_who_sleeps_is_not_waited_for() -> None:
    done: list[str] = []
    walk([[lambda: done.append("a"), lambda: done.append("b")], [lambda: done.append("c")]]).share(0, 2)
    assert sorted(done[:2]) == ["a", "b"]
    assert done[2:] == ["c"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("thread", [0, 1])
def test_an_error_frees_who_waits(error: type[BaseException], thread: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crews, "LATE", 60.0)
    both = threading.Barrier(2)
    after: list[int] = []

    def fail() -> None:
        both.wait(10)
        raise error("mine")

    crew = Crew(2)
    for _ in range(3):
        calls = [lambda: both.wait(10)]
        calls.insert(thread, fail)
        failed = walk([calls, [lambda: after.append(1)]])
        with pytest.raises(error, match="mine"):
            crew.join(failed.share)
        assert failed.failed == 0
    assert not after
    crew.dismiss()


def test_a_run_that_is_ended_frees_who_waits() -> None:
    class Options:
        terminate = False

    options, both, after = Options(), threading.Barrier(2), list[int]()

    def stop() -> None:
        both.wait(10)
        options.terminate = True

    crew = Crew(2)
    ended = walk([[stop, lambda: both.wait(10)], [lambda: after.append(1), lambda: after.append(2)]])
    with governed(options), pytest.raises(Fail, match="terminate"):  # type: ignore[arg-type]
        crew.join(ended.share)
    crew.dismiss()
    assert 1 not in after


def bound(array: np.ndarray, writes: bool, axis: int | None, ends: Sequence[int] = ()) -> Bound:
    """A launch that touches one array, in two parts."""
    whole, parts = [access(array, writes)], [access(array, writes, axis, ends)]
    return Bound(len, lambda: whole, lambda rooms, cuts: Division([len, len], parts))


@pytest.mark.parametrize(
    ("first", "second", "count"),
    [
        ((True, 0, (2, 4)), (False, 0, (2, 4)), 1),
        ((True, 0, (2, 4)), (True, 0, (2, 4)), 1),
        ((True, 0, (2, 4)), (False, 0, (1, 4)), 2),
        ((True, 0, (2, 4)), (False, None), 2),
        ((True, 1, (2, 6)), (False, 0, (2, 4)), 2),
        ((False, None), (True, 1, (2, 6)), 2),
        ((False, None), (False, 0, (2, 4)), 1),
    ],
)
def test_threads_wait_where_parts_meet(first: Any, second: Any, count: int) -> None:
    array = np.zeros((4, 6))
    assert len(stages([bound(array, *first), bound(array, *second)], [1.0, 1.0], [Room(), Room()])) == count
    assert len(stages([bound(array, *first), bound(np.zeros(9), True, None)], [1.0, 1.0], [Room(), Room()])) == 1
    assert stages([bound(array, *first)], [0.0], [Room(), Room()]) == []


def test_cuts_are_ranges_that_repeat() -> None:
    array = np.zeros((3, 4, 6), np.int8)
    assert access(array, True, 1, (2, 4)).cut == Cut(access(array, True).start % 24, 24, (12, 24))
    assert access(array.transpose(1, 0, 2), True, 0, (2, 4)).cut == access(array, True, 1, (2, 4)).cut
    backwards = access(array[:, ::-1], True, 1, (2, 4))
    assert backwards == access(array, True)
    assert access(array[:0], True) == (*2 * (access(array, True).start,), None, True)
    assert access(np.broadcast_to(array[:1], array.shape), False, 0, (1, 3)).cut is None
    assert not Access(0, 8, None, True).disturbs(Access(8, 9, None, True))
    assert even(10, 3) == (3, 6, 10)
