"""Bundles: the file format, what a bundle takes, and that Python runs them like the model."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import onnx.numpy_helper
import onnx.parser
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sardonyx import InferenceSession
from sardonyx.api.bundling import bundle_of
from sardonyx.demo import assets
from sardonyx.errors import InvalidArgument, NotImplemented
from sardonyx.plans.bundle import VERSION, Bundle
from sardonyx.plans.bundle.deflated import BLOCK, deflate, inflate
from sardonyx.plans.plan_cache import Source
from tests.engine.graphs import model
from tests.engine.loops import DECLARED, form
from tests.engine.providers import require_provider

WASM, WEBGPU = "WasmExecutionProvider", "WebGpuExecutionProvider"
ADD = model("g (float[N, 3] x, float[N, 3] y) => (float[N, 3] z) { z = Add (x, y) }")
LOOP = model(
    """g (int64 n, float[2] x) => (float[2] y, float[K, 2] all) {
        y, all = Loop <body = b (int64 i, bool go, float[2] v) => (bool on, float[2] w, float[2] s) {
            on = Identity (go)
            w = Add (v, v)
            s = Identity (w)
        }> (n, , x)
    }"""
)
FOUND = model("g (float[8] x) => (int64[1, K] i) { i = NonZero (x) }")
BRANCH = model(
    """g (bool c, float[2] x) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] a) { a = Neg (x) },
                    else_branch = e () => (float[2] b) { b = Mul (x, x) }>
    }"""
)

DECODER = model(
    """g (bool[1] use_cache_branch, float[B, E, 2] encoder_hidden_states, float[B, 4, E, 2] past)
        => (float[B, 4, K, 2] present) {
        present = If (use_cache_branch) <
            then_branch = t () => (float[B, 4, M, 2] a) { a = Identity (past) },
            else_branch = e () => (float[B, 4, N, 2] b) {
                axes = Constant <value = int64[1] {1}> ()
                one = Unsqueeze (encoder_hidden_states, axes)
                b = Concat <axis = 1> (one, one, one, one)
            }>
    }"""
)


def made(data: bytes, targets: tuple[str, ...] = ("wasm",), *buckets: dict[str, Any], compress: bool = False) -> bytes:
    return b"".join(bundle_of(Source(data), targets, buckets or [{}], compress=compress))


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "compressed"])
def digits(request: pytest.FixtureRequest) -> bytes:
    return made((assets() / "digits.onnx").read_bytes(), ("wasm", "webgpu"), compress=request.param)


# ---- running


@pytest.mark.parametrize("provider", [WASM, WEBGPU])
def test_a_bundle_runs_like_its_model(digits: bytes, provider: str) -> None:
    require_provider(provider)
    feeds = {"image": np.random.default_rng(0).random((3, 1, 28, 28), np.float32)}
    session = InferenceSession(digits, providers=[provider])
    assert session.get_providers() == [provider]
    (found,) = session.run(None, feeds)
    (wanted,) = InferenceSession(assets() / "digits.onnx", providers=["NumpyExecutionProvider"]).run(None, feeds)
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert [(x.name, x.shape) for x in session.get_inputs()] == [("image", ["N", 1, 28, 28])]


@pytest.mark.parametrize("provider", [WASM, WEBGPU])
def test_quantized_weights_are_stored_as_they_are(provider: str) -> None:
    require_provider(provider)
    rng = np.random.default_rng(3)
    integers = rng.integers(-128, 128, (64, 80), np.int8)
    held = onnx.load_from_string(
        model(
            """g (float[N, 64] x) => (float[N, 80] y) {
                f = Cast <to = 1> (q)
                w = Mul (f, s)
                y = MatMul (x, w)
            }"""
        )
    )
    scale = np.float32(0.01)
    held.graph.initializer.extend(
        [onnx.numpy_helper.from_array(integers, "q"), onnx.numpy_helper.from_array(scale, "s")]
    )
    bundle = made(held.SerializeToString(), ("wasm" if provider == WASM else "webgpu",))
    stored = Bundle(bundle).manifest["weights"].values()
    assert sum(np.prod(shape, dtype=int) for dtype, shape in stored if dtype == "int8") == integers.size
    assert all(np.prod(shape, dtype=int) < 100 for dtype, shape in stored if dtype != "int8")
    x = rng.normal(size=(5, 64)).astype(np.float32)
    (found,) = InferenceSession(bundle, providers=[provider]).run(None, {"x": x})
    np.testing.assert_allclose(found, x.astype(float) @ (integers * 0.01), atol=1e-4)


@pytest.mark.parametrize("provider", [WASM, WEBGPU])
def test_control_flow_and_sizes_that_data_tell(provider: str) -> None:
    require_provider(provider)
    target = "wasm" if provider == WASM else "webgpu"
    x = np.array([1, 2], np.float32)
    loop = InferenceSession(made(LOOP, (target,)), providers=[provider])
    for n in (3, 0, 5):
        y, every = loop.run(None, {"n": np.int64(n), "x": x})
        np.testing.assert_array_equal(y, x * 2**n)
        np.testing.assert_array_equal(every, [x * 2**k for k in range(1, n + 1)] or np.empty((0, 2)))
    for number, going in DECLARED[:2]:
        data = model(form("together", number, going))
        feeds = {"n": np.array(3), "x": np.ones((6, 2), np.float32)}
        wanted = InferenceSession(data, providers=["NumpyExecutionProvider"]).run(None, feeds)
        found = InferenceSession(made(data, (target,)), providers=[provider]).run(None, feeds)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other, strict=True)
    branch = InferenceSession(made(BRANCH, (target,)), providers=[provider])
    for c, wanted in ((True, -x), (False, x * x)):
        np.testing.assert_array_equal(branch.run(None, {"c": np.bool_(c), "x": x})[0], wanted)
    nonzero = InferenceSession(made(FOUND, (target,)), providers=[provider])
    for values in ([0, 1, 0, 2, 0, 0, 0, 3], [0] * 8):
        (found,) = nonzero.run(None, {"x": np.array(values, np.float32)})
        np.testing.assert_array_equal(found, np.array(np.nonzero(values)))


def test_a_file(tmp_path: Any, digits: bytes) -> None:
    require_provider(WASM)
    file = tmp_path / "digits.sdx"
    file.write_bytes(digits)
    assert InferenceSession(file).run(None, {"image": np.zeros((1, 1, 28, 28), np.float32)})[0].shape == (1, 10)


def test_an_open_size_stays_open() -> None:
    require_provider(WASM)
    session = InferenceSession(made(ADD))
    for n in (1, 7, 0):
        x = np.full((n, 3), n, np.float32)
        np.testing.assert_array_equal(session.run(None, {"x": x, "y": x})[0], 2 * x)


def test_a_decoder_keeps_nothing_of_its_encoder_at_first() -> None:
    """transformers' exports call the length of what is kept as the encoder's; onnxruntime takes both."""
    kept = "past_key_values.0.encoder.key"
    proto = onnx.load_from_string(DECODER)
    branch = proto.graph.node[0].attribute[0].g
    proto.graph.input[2].name = branch.node[0].input[0] = kept
    data = proto.SerializeToString()
    session, theirs = InferenceSession(made(data)), onnxruntime.InferenceSession(data)
    assert session.get_inputs()[2].shape == ["B", 4, "past_E", 2]
    state = np.arange(24, dtype=np.float32)
    for length, past, cached in ((3, 0, False), (1, 0, False), (3, 3, True), (2, 1, True)):
        feeds = {
            "use_cache_branch": np.array([cached]),
            "encoder_hidden_states": state[: 2 * length].reshape(1, length, 2),
            kept: state[: 8 * past].reshape(1, 4, past, 2),
        }
        np.testing.assert_array_equal(session.run(None, feeds)[0], theirs.run(None, feeds)[0])


def test_several_shapes_in_one_bundle() -> None:
    require_provider(WASM)
    data = made(ADD, ("wasm",), {"x": [2, 3]}, {"x": [4, 3], "y": [4, 3]})
    session = InferenceSession(data)
    for n in (4, 2, 4):
        x = np.full((n, 3), n, np.float32)
        np.testing.assert_array_equal(session.run(None, {"x": x, "y": x})[0], 2 * x)
    with pytest.raises(
        InvalidArgument,
        match=r"not for \[3, 3\], \[3, 3\]; compile it for them, as it takes\n  x float32\[2, 3\], y float32",
    ):
        session.run(None, {name: np.zeros((3, 3), np.float32) for name in "xy"})


def test_the_same_input_gives_the_same_bytes(digits: bytes) -> None:
    sections = Bundle(digits).sections
    compress = any(section.width for section in sections.values())
    assert made((assets() / "digits.onnx").read_bytes(), ("wasm", "webgpu"), compress=compress) == digits
    assert list(sections)[:2] == ["wasm", "wgsl"]
    assert list(sections)[-1] == "wasm-simd"


# ---- what cannot be bundled, or run


def test_nodes_for_the_host_are_named() -> None:
    text = model(
        'g (string[2] x) => (string[2] y) { [cleaner] y = StringNormalizer <case_change_action = "LOWER"> (x) }'
    )
    with pytest.raises(NotImplemented, match=r"need Python, and .* a bundle for wasm: StringNormalizer 'cleaner'"):
        made(text)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="no target 'cuda'; use wasm or webgpu"):
        made(ADD, ("cuda",))
    with pytest.raises(InvalidArgument, match=r"input 'x' is float32\[N,3\], and cannot be 2x4"):
        made(ADD, ("wasm",), {"x": [2, 4]})
    with pytest.raises(InvalidArgument, match="there is no input 'z'; the model has 'x', 'y'"):
        made(ADD, ("wasm",), {"z": [2, 4]})
    with pytest.raises(InvalidArgument, match="has code for WasmExecutionProvider"):
        InferenceSession(made(ADD), providers=["NumpyExecutionProvider"])


# ---- the format


@settings(deadline=None)
@given(st.integers(0, 1 << 20))
def test_no_byte_is_lost_unnoticed(cut: int) -> None:
    data = made(ADD)
    with pytest.raises(InvalidArgument, match="is no bundle" if cut % len(data) < 8 else "is cut off"):
        Bundle(data[: cut % len(data)], "x.sdx")


@settings(deadline=None)
@given(st.integers(0, 1 << 20), st.integers(1, 255), st.booleans())
def test_no_byte_is_changed_unnoticed(place: int, change: int, compress: bool) -> None:
    """But for the zeros between sections."""
    data = bytearray(made(ADD, compress=compress))
    sections = Bundle(data).sections.values()
    filled = [*range(min(s.offset for s in sections) - 64), *(k for s in sections for k in range(s.offset, sum(s[:2])))]
    data[filled[place % len(filled)]] ^= change
    with pytest.raises(InvalidArgument, match=r"is damaged|is no bundle"):
        list(map(Bundle(data, "x.sdx").section, Bundle(data).sections))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64, np.int64, np.uint8])
@pytest.mark.parametrize("count", [1, BLOCK // 8, 100_000])
def test_deflated_elements(dtype: type, count: int) -> None:
    data = (np.random.default_rng(count).standard_normal(count) * 20).astype(np.int8).astype(dtype).tobytes()
    small = deflate(data, np.dtype(dtype).itemsize)
    assert inflate(small, len(data), np.dtype(dtype).itemsize).tobytes() == data
    assert count == 1 or len(small) < len(data)


def test_codes_of_four_bits_take_four_bits() -> None:
    """Quantized weights have a byte each here, and neither repetitions found by chance nor runs to spare."""
    codes = np.clip(np.random.default_rng(0).standard_normal(400_000) * 3 + 8, 0, 15).astype(np.uint8)
    shares = np.bincount(codes) / codes.size
    assert len(deflate(codes.tobytes(), 1)) * 8 < 1.03 * codes.size * -(shares * np.log2(shares)).sum()
    rows = np.tile(codes[:1000], 400)
    assert len(deflate(rows.tobytes(), 1)) < 0.05 * rows.size


def test_what_is_not_deflated_data_is_refused() -> None:
    """What an attacker writes has the right checksums; it must end where it says."""
    data = deflate(bytes(100_000), 4)
    for wrong, nbytes in ((data, 99_996), (data, 100_004), (data[:-1], 100_000), (data + b"0", 100_000), (b"abc", 3)):
        with pytest.raises(ValueError, match=r"bytes instead of|Error -3"):
            inflate(wrong, nbytes, 4)


def test_weights_take_less_room() -> None:
    """Normal numbers have few exponents."""
    weight = np.random.default_rng(0).standard_normal(60_000).astype(np.float32)
    source = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 18]> g (float[60000] x) => (float[60000] y) { y = Add (x, w) }'
    )
    source.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    plain, small = (made(source.SerializeToString(), compress=compress) for compress in (False, True))
    assert len(plain) - len(small) > 0.15 * weight.nbytes
    require_provider(WASM)
    x = np.zeros_like(weight)
    for data in (plain, small):
        np.testing.assert_array_equal(InferenceSession(data).run(None, {"x": x})[0], weight)


def test_other_versions_say_so() -> None:
    data = bytearray(made(ADD))
    struct.pack_into("<I", data, 8, VERSION + 1)
    struct.pack_into("<I", data, 24, zlib.crc32(data[:24]))
    with pytest.raises(InvalidArgument, match=f"version {VERSION + 1} of the format.*compile the model anew"):
        InferenceSession(bytes(data))


PLACES = model(
    """g (float[N, 4] x) => (float[N, 4] y, float[N] z) {
        rows = Shape <end = 1> (x)
        begin = Constant <value_int = 0> ()
        step = Constant <value_int = 1> ()
        limit = Squeeze (rows)
        numbers = Range (begin, limit, step)
        places = Cast <to = 11> (numbers)
        scale = Constant <value = double {0.01}> ()
        turns = Mul (places, scale)
        wave = Cos (turns)
        z = Cast <to = 1> (wave)
        is_far = Greater (turns, scale)
        last = Constant <value_ints = [1]> ()
        column = Unsqueeze (z, last)
        sum = Add (x, column)
        mask = Cast <to = 1> (is_far)
        masks = Unsqueeze (mask, last)
        y = Mul (sum, masks)
    }"""
)


@pytest.mark.parametrize("provider", [WASM, WEBGPU])
def test_float64_within_a_model(provider: str) -> None:
    """WebGPU computes it in float32, since a bundle has no other device."""
    require_provider(provider)
    target = "wasm" if provider == WASM else "webgpu"
    session = InferenceSession(made(PLACES, (target,)), providers=[provider])
    reference = onnxruntime.InferenceSession(PLACES)
    for rows in (3, 1, 40):
        feeds = {"x": np.random.default_rng(rows).random((rows, 4), np.float32)}
        for found, wanted in zip(session.run(None, feeds), reference.run(None, feeds), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_bundle_keeps_the_types_of_inputs_and_outputs() -> None:
    data = model("g (double[N] x) => (double[N] y) { y = Cos (x) }")
    with pytest.raises(NotImplemented, match=r"Cos 'y'; compile for wasm"):
        made(data, ("webgpu",))
