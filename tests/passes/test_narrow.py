"""Weights in fewer bits: what is stored, how near it is, and what is left alone."""

import numpy as np
import pytest

from sardonyx.common import dtypes
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Graph, Tensor, TensorType
from sardonyx.passes.narrow import BLOCK, FEWEST, Narrowing
from tests.passes.checking import graph_of, make_constant, run

USERS = {
    "conv": ("float32[1,32,5,5] x, float32[64,32,3,3] w", "y = Conv(x, w)", 0),
    "transposed": ("float32[1,64,4,4] x, float32[64,32,2,2] w", "y = ConvTranspose(x, w)", 1),
    "matmul": ("float32[N,64] x, float32[64,96] w", "y = MatMul(x, w)", 1),
    "batched": ("float32[N,3,4,64] x, float32[3,64,96] w", "y = MatMul(x, w)", 2),
    "gemm": ("float32[N,64] x, float32[64,96] w", "y = Gemm(x, w)", 1),
    "gemm-transposed": ("float32[N,64] x, float32[96,64] w", "y = Gemm<transB = 1>(x, w)", 0),
    "table": ("float32[96,64] w", "int64[2] i = {3, 90} y = Gather(w, i)", 0),
    "lstm": (
        "float32[5,1,16] x, float32[1,256,16] w, float32[1,256,64] r",
        "y = LSTM<hidden_size = 64>(x, w, r)",
        1,
    ),
}


def filled(inputs: str, body: str, scale: float = 1.0) -> tuple[Graph, dict[str, np.ndarray]]:
    """A graph whose weights are normal, each row of them with a size of its own."""
    graph, rng, arrays = graph_of(inputs, body), np.random.default_rng(5), {}
    for name in ("w", "r"):
        for value in [value for value in graph.inputs if value.name == name]:
            shape = tuple(map(int, value.shape or ()))
            sizes = np.exp(rng.normal(size=(shape[0], *[1] * (len(shape) - 1))))
            arrays[name] = (scale * sizes * rng.normal(size=shape)).astype(np.float32)
            make_constant(graph, name, arrays[name])
    return graph, arrays


def made(graph: Graph) -> list[str]:
    return [node.op_type for node in graph.nodes]


@pytest.mark.parametrize("name", USERS)
def test_integers_have_the_scales_of_their_channels(name: str) -> None:
    inputs, body, axis = USERS[name]
    graph, arrays = filled(inputs, body)
    Narrowing("int8").apply(graph)
    widening = [node for node in graph.nodes if node.op_type == "DequantizeLinear"]
    assert len(widening) == len(arrays)
    for node, array in zip(widening, arrays.values()):
        integers, scales = (value.constant.array() for value in node.inputs)  # type: ignore[union-attr]
        assert (integers.dtype, node.attribute("axis"), scales.shape) == (np.int8, axis, (array.shape[axis],))
        each = scales.reshape([-1 if k == axis else 1 for k in range(array.ndim)])
        assert (np.abs(integers * each.astype(float) - array) <= 0.5001 * each).all()
        assert np.abs(integers).max() == 127


@pytest.mark.parametrize("kind", ["float16", "int8", "int4"])
@pytest.mark.parametrize("name", USERS)
def test_results_are_near(name: str, kind: str) -> None:
    inputs, body, _ = USERS[name]
    (wanted,), graph = run(filled(inputs, body, 0.1)[0]), filled(inputs, body, 0.1)[0]
    Narrowing(kind).apply(graph)
    assert set(made(graph)) & {"Cast", "DequantizeLinear", "MatMulNBits", "GatherBlockQuantized"}
    (found,) = run(graph)
    assert np.abs(found - wanted).max() <= {"float16": 1e-3, "int8": 2e-2, "int4": 0.2}[kind] * np.abs(wanted).max()


@pytest.mark.parametrize(
    ("inputs", "body", "change"),
    [
        ("float32[N,63] x, float32[63,65] w", "y = MatMul(x, w)", None),  # fewer than FEWEST
        (f"float32[N,{FEWEST}] x, float32[{FEWEST}] w", "y = Add(x, w)", None),
        ("float32[N,64] x, float32[64,96] w", "y = MatMul(x, w)", np.nan),
        ("float32[N,64] x, float32[64,96] w", "y = MatMul(x, w)", np.inf),
        ("float64[N,64] x, float64[64,96] w", "y = MatMul(x, w)", None),
    ],
)
@pytest.mark.parametrize("kind", ["float32", "float16", "int8", "int4"])
def test_what_is_small_or_has_no_such_form_stays(inputs: str, body: str, change: float | None, kind: str) -> None:
    graph = graph_of(inputs, body)
    value = next(value for value in graph.inputs if value.name == "w")
    array = np.ones(tuple(map(int, value.shape or ())), (value.dtype or dtypes.float32).storage)
    if change is not None:
        array.flat[7] = change
    make_constant(graph, "w", array)
    before = made(graph)
    Narrowing(kind).apply(graph)
    assert made(graph) == before


def test_numbers_beyond_float16_stay_or_become_integers() -> None:
    for kind, expected in {"float16": ["MatMul"], "int8": ["DequantizeLinear", "MatMul"]}.items():
        graph, _ = filled(*USERS["matmul"][:2], scale=1e6)
        Narrowing(kind).apply(graph)
        assert made(graph) == expected


BLOCKS = {
    "matmul": ("float32[N,64] x, float32[64,96] w", "y = MatMul(x, w)", ["MatMulNBits"]),
    "deeper": ("float32[2,N,100] x, float32[100,96] w", "y = MatMul(x, w)", ["MatMulNBits"]),
    "gemm": ("float32[N,64] x, float32[64,96] w, float32[96] b", "y = Gemm(x, w, b)", ["MatMulNBits", "Add"]),
    "gemm-transposed": ("float32[N,64] x, float32[96,64] w", "y = Gemm<transB = 1>(x, w)", ["MatMulNBits"]),
    "activation": (
        "float32[N,64] x, float32[64,96] w, float32[1,96] b",
        'y = com.microsoft.FusedGemm<activation = "LeakyRelu", activation_alpha = 0.3>(x, w, b)',
        ["MatMulNBits", "Add", "LeakyRelu"],
    ),
    "table": ("float32[96,64] w, int64[2,N] i", "y = Gather(w, i)", ["Reshape", "GatherBlockQuantized", "Cast"]),
}
WHOLE = {
    "scaled": ("float32[N,64] x, float32[64,96] w", "y = Gemm<alpha = 0.5>(x, w)"),
    "turned": ("float32[64,N] x, float32[64,96] w", "y = Gemm<transA = 1>(x, w)"),
    "vector": ("float32[64] x, float32[64,96] w", "y = MatMul(x, w)"),
    "unknown": ("float32[...] x, float32[64,96] w", "y = MatMul(x, w)"),
    "short": ("float32[N,16] x, float32[16,512] w", "y = MatMul(x, w)"),
    "odd": ("float32[100,50] w, int64[2] i", "y = Gather(w, i)"),
    "columns": ("float32[96,64] w, int64[2] i", "y = Gather<axis = 1>(w, i)"),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_of_4_bits(name: str) -> None:
    inputs, body, expected = BLOCKS[name]
    graph, arrays = filled(inputs, body)
    exact, _ = filled(inputs, body)
    Narrowing("int4").apply(graph)
    assert made(graph) == expected
    held = next(node for node in graph.nodes if node.op_type in ("MatMulNBits", "Reshape"))
    (weight,) = arrays.values()
    rows = weight if name in ("gemm-transposed", "table") else weight.T
    n, k = rows.shape
    count = -(-k // BLOCK)
    operands = [*held.inputs[:1], *graph.nodes[1].inputs[2:]] if name == "table" else held.inputs[1:4]
    packed, scales, zeros = (value.constant.array() for value in operands)  # type: ignore[union-attr]
    assert (packed.shape, scales.shape) == ((n, count, BLOCK // 2), (n, count))
    assert scales.dtype == np.float16
    numbers, offsets = (
        (array[..., None] >> np.array([0, 4], np.uint8) & 15).reshape(n, -1)[:, :size]
        for array, size in ((packed, k), (zeros, count))
    )
    each, zero = (np.repeat(array.astype(float), BLOCK, axis=1)[:, :k] for array in (scales, offsets))
    wanted = (numbers - zero) * each
    assert (np.abs(wanted - rows) <= 0.52 * np.abs(each)).all()
    make_constant_again(exact, wanted if name in ("gemm-transposed", "table") else wanted.T)
    rng = np.random.default_rng(3)
    feeds = [
        rng.integers(-96, 96, [int(size) if size != "N" else 3 for size in value.shape or ()])
        if value.name == "i"
        else rng.normal(size=[int(size) if size != "N" else 3 for size in value.shape or ()]).astype(np.float32)
        for value in graph.inputs
    ]
    (found,), (near,) = run(graph, feeds), run(exact, feeds)
    np.testing.assert_allclose(found, near, rtol=0, atol=(1e-3 if name == "table" else 1e-5) * np.abs(near).max())


def make_constant_again(graph: Graph, array: np.ndarray) -> None:
    """Replace the weight by what its integers stand for."""
    value = next(value for value in graph.initializers if value.name == "w")
    value.constant = Tensor.of(array.astype(np.float32), dtypes.float32, "w")


@pytest.mark.parametrize("name", WHOLE)
def test_what_has_no_such_form_has_8_bits(name: str) -> None:
    graph, _ = filled(*WHOLE[name])
    Narrowing("int4").apply(graph)
    assert set(made(graph)) & {"DequantizeLinear", "Cast"}


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_scales_that_float16_has_not_are_float32(scale: float) -> None:
    (wanted,) = run(filled(*BLOCKS["matmul"][:2], scale)[0])
    graph, _ = filled(*BLOCKS["matmul"][:2], scale)
    Narrowing("int4").apply(graph)
    assert [value.dtype for value in graph.nodes[0].inputs[1:] if value] == [dtypes.uint8, dtypes.float32, dtypes.uint8]
    assert np.abs(run(graph)[0] - wanted).max() <= 0.2 * np.abs(wanted).max()


def test_a_matrix_of_two_products_is_packed_once() -> None:
    graph = graph_of("float32[N,64] x, float32[64,64] w", "h = MatMul(x, w) y = MatMul(h, w)")
    make_constant(graph, "w", np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32))
    for node in graph.nodes:
        node.outputs[0].type = TensorType(dtypes.float32, ("N", 64))
    Narrowing("int4").apply(graph)
    one, other = (node.inputs[1] for node in graph.nodes)
    assert made(graph) == ["MatMulNBits"] * 2
    assert one is other


def test_zeros_and_other_operands_are_kept() -> None:
    graph = graph_of("float32[N,64] x, float32[64,96] w", "y = MatMul(x, w)")
    make_constant(graph, "w", np.zeros((64, 96), np.float32))
    Narrowing("int8").apply(graph)
    assert not run(graph)[0].any()
    graph = graph_of("float32[64,96] w", "y = Softmax(w)")
    make_constant(graph, "w", np.ones((64, 96), np.float32))
    Narrowing("int8").apply(graph)
    assert made(graph) == ["Cast", "Softmax"]


def test_a_constant_of_two_nodes_is_stored_once() -> None:
    graph = graph_of("float32[N,64] x, float32[64,64] w", "h = MatMul(x, w) y = MatMul(h, w)")
    make_constant(graph, "w", np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32))
    Narrowing("int8").apply(graph)
    one, other = (node.inputs[0] for node in graph.nodes if node.op_type == "DequantizeLinear")
    assert one is other


def test_other_kinds_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="'int5', only as float32, float16, int8, int4"):
        Narrowing("int5")
