"""Products of one input become one product where a session asks for it, and give what onnxruntime gives."""

import numpy as np
import onnxruntime
import pytest

from sardonyx import InferenceSession
from sardonyx.api.options import SessionOptions
from sardonyx.model.ir import Graph
from sardonyx.model.ir.checker import check as check_model
from sardonyx.model.ir.model import Model
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.writer import write
from sardonyx.passes import projections
from sardonyx.passes.journal import Journal
from sardonyx.passes.levels import GraphOptimizationLevel as Level
from sardonyx.passes.pipeline import prepare
from sardonyx.passes.projections import merge_projections
from tests.models import assert_close, inputs, path, reference
from tests.passes.checking import IMPORTS, graph_of, make_constant

PROVIDERS = [pytest.param(f"{name}ExecutionProvider", id=name.lower()) for name in ("Numpy", "Wasm")]
MATRIX, STACK = "float32[B,4] x", "float32[B,S,4] x"
THREE = "float32[4,3] u, float32[4,5] v, float32[4,2] w"
TURNED = "float32[3,4] u, float32[5,4] v"
BIASES = "float32[3] a, float32[5] b"
PAIR = "p = MatMul(x, u) q = MatMul(x, v)"
PRODUCTS = f"{PAIR} r = MatMul(x, w)"
NBITS = """uint8[{0},2,8] b{0}, float32[{0},2] s{0}, uint8[{0}] z{0}"""
BLOCKS = "com.microsoft.MatMulNBits<K = 32, N = {0}, bits = 4, block_size = 16>(x, b{0}, s{0}"

MERGED = {
    "vector": (f"float32[4] x, {THREE}", PRODUCTS, "p, q, r", "MatMul Split"),
    "matrix": (f"{MATRIX}, {THREE}", PRODUCTS, "p, q, r", "MatMul Split"),
    "stack": (f"{STACK}, {THREE}", PRODUCTS, "r, p, q", "MatMul Split"),
    "one after another": (
        f"{STACK}, {THREE}, float32[3,1] k, float32[3,2] l",
        f"{PAIR} r = MatMul(p, k) s = MatMul(p, l)",
        "q, r, s",
        "MatMul Split MatMul Split",
    ),
    "float64": ("float64[B,4] x, float64[4,3] u, float64[4,5] v", PAIR, "p, q", "MatMul Split"),
    "biases of a matrix": (
        f"{MATRIX}, {THREE}, {BIASES}",
        "h = MatMul(x, u) p = Add(h, a) k = MatMul(x, v) q = Add(b, k)",
        "p, q",
        "Gemm Split",
    ),
    "biases of a stack, of some": (
        f"{STACK}, {THREE}, {BIASES}",
        "h = MatMul(x, u) p = Add(h, a) r = MatMul(x, w) k = MatMul(x, v) q = Add(b, k)",
        "p, q, r",
        "MatMul Add Split",
    ),
    "a bias of a product that is used elsewhere": (
        f"{STACK}, {THREE}, {BIASES}",
        "h = MatMul(x, u) p = Add(h, a) q = MatMul(x, v)",
        "p, q, h",
        "MatMul Split Add",
    ),
    "what is no bias": (
        f"{STACK}, {THREE}, float32[1,1,3] a",
        "h = MatMul(x, u) p = Add(h, a) q = MatMul(x, v)",
        "p, q",
        "MatMul Split Add",
    ),
    "Gemm": (
        f"{MATRIX}, {TURNED}, {BIASES}",
        "p = Gemm<transB = 1, alpha = 0.5>(x, u, a) q = Gemm<transB = 1, alpha = 0.5>(x, v, b)",
        "p, q",
        "Gemm Split",
    ),
    "Gemm of what is turned": (
        f"float32[4,B] x, {THREE}",
        "p = Gemm<transA = 1>(x, u) q = Gemm<transA = 1>(x, v)",
        "p, q",
        "Gemm Split",
    ),
    "Gemm and activation": (
        f"{MATRIX}, {TURNED}, {BIASES}",
        "h = Gemm<transB = 1>(x, u, a) p = Relu(h) k = Gemm<transB = 1>(x, v, b) q = Relu(k)",
        "p, q",
        "FusedGemm Split",
    ),
    "blocks": (
        f"float32[B,2,32] x, {NBITS.format(4)}, {NBITS.format(6)}",
        f"p = {BLOCKS.format(4)}, z4) q = {BLOCKS.format(6)}, z6)",
        "p, q",
        "MatMulNBits Split",
    ),
    "blocks and biases": (
        f"float32[B,2,32] x, {NBITS.format(4)}, {NBITS.format(6)}, float32[4] d, float32[6] e",
        f"""p = {BLOCKS.format(4)}, "", "", d) q = {BLOCKS.format(6)}, "", "", e)""",
        "p, q",
        "MatMulNBits Split",
    ),
    "in a branch": (
        f"{STACK}, bool c, {THREE}",
        """i = If(c) <then_branch = t () => (s) { p = MatMul(x, u) q = MatMul(x, v) s = Concat<axis = -1>(p, q) },
                      else_branch = e () => (r) { r = Sin(x) }>""",
        "i",
        "If MatMul Split Concat Sin",
    ),
    "used in a branch": (
        f"{STACK}, bool c, {THREE}",
        """p = MatMul(x, u) q = MatMul(x, v)
           i = If(c) <then_branch = t () => (s) { s = Sin(p) }, else_branch = e () => (r) { r = Cos(q) }>""",
        "i",
        "MatMul Split If Sin Cos",
    ),
}
LEFT = {
    "weights in other use": (f"{STACK}, {THREE}", f"{PAIR} h = Sin(x) s = MatMul(h, u)", "p, q, s"),
    "weights twice": ("float32[4,4] x, float32[4,4] u", "p = MatMul(x, u) q = MatMul(p, u)", "q"),
    "weights in use in a branch": (
        f"{STACK}, bool c, {THREE}",
        f"""{PAIR} h = Sin(x)
            i = If(c) <then_branch = t () => (s) {{ s = MatMul(h, u) }},
                          else_branch = e () => (r) {{ r = MatMul(h, v) }}>""",
        "p, q, i",
    ),
    "other inputs": (f"{STACK}, {THREE}", "h = Sin(x) p = MatMul(x, u) q = MatMul(h, v)", "p, q"),
    "another K": (
        f"{STACK}, float32[4,3] u, float32[3,5] v",
        "p = MatMul(x, u) q = MatMul(p, v)",
        "q",
    ),
    "another dtype": (
        f"{STACK}, float32[4,3] u, float16[4,5] v",
        "h = Cast<to = 10>(x) p = MatMul(x, u) q = MatMul(h, v)",
        "p, q",
    ),
    "stacks of weights": (f"{STACK}, float32[4,3] u, float32[1,4,5] v", PAIR, "p, q"),
    "other attributes": (
        f"{MATRIX}, {THREE}",
        "p = Gemm<alpha = 0.5>(x, u) q = Gemm<alpha = 0.25>(x, v)",
        "p, q",
    ),
    "other activations": (
        f"{MATRIX}, {TURNED}",
        "h = Gemm<transB = 1>(x, u) p = Relu(h) k = Gemm<transB = 1>(x, v) q = Tanh(k)",
        "p, q",
    ),
    "a matrix to add": (
        f"float32[2,4] x, {THREE}, float32[2,3] a, float32[2,5] b",
        "p = Gemm(x, u, a) q = Gemm(x, v, b)",
        "p, q",
    ),
    "zero points for some": (
        f"float32[B,2,32] x, {NBITS.format(4)}, {NBITS.format(6)}",
        f"p = {BLOCKS.format(4)}, z4) q = {BLOCKS.format(6)})",
        "p, q",
    ),
}


def made(given: str, body: str, outputs: str) -> Model:
    """A model whose inputs but x and c are random weights."""
    graph = graph_of(given, body, outputs)
    rng = np.random.default_rng(3)
    for value in list(graph.inputs):
        if value.name not in ("x", "c"):
            whole = value.dtype.kind == "uint"
            array = rng.integers(0, 256, value.shape) if whole else rng.normal(size=value.shape)
            make_constant(graph, value.name, array.astype(value.dtype.storage))
    return Model(graph, {"": 21, "com.microsoft": 1})


def feeds(model: Model) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(4)
    x = model.graph.inputs[0]
    shape = [size if isinstance(size, int) else 3 for size in x.shape]
    found = {"x": rng.normal(size=shape).astype(x.dtype.storage), "c": np.array(True)}
    return {value.name: found[value.name] for value in model.graph.inputs}


def asking() -> SessionOptions:
    options = SessionOptions()
    options.add_session_config_entry("optimization.merge_projections", "1")
    return options


def operators(graph: Graph) -> list[str]:
    return [node.op_type for node in graph.all_nodes()]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("case", MERGED)
def test_merged_products_give_what_onnxruntime_gives(case, provider):
    given, body, outputs, expected = MERGED[case]
    model = made(given, body, outputs)
    prepared = prepare(model, asking())
    check_model(prepared)
    assert operators(prepared.graph) == expected.split()
    arrays, data = feeds(model), write(model)
    found = InferenceSession(data, asking(), providers=[provider]).run(None, arrays)
    wanted = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, arrays)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("case", LEFT)
def test_other_products_are_left_alone(case):
    model = made(*LEFT[case])
    assert operators(prepare(model, asking()).graph) == operators(prepare(model, SessionOptions()).graph)


def test_merging_is_asked_for():
    model = made(*MERGED["stack"][:3])
    separate = ["MatMul"] * 3
    assert operators(prepare(model, SessionOptions()).graph) == separate
    assert operators(prepare(model, asking(), ["merge_projections"]).graph) == separate
    options = asking()
    options.graph_optimization_level = Level.ORT_ENABLE_BASIC
    assert operators(prepare(model, options).graph) == separate


def test_weights_are_merged_once_and_given_up():
    graph = prepare(made(*MERGED["biases of a stack, of some"][:3]), asking()).graph
    assert [value.constant.shape for value in graph.initializers] == [(4, 10), (10,), (3,)]
    assert graph.initializers[2].constant.array().tolist() == [3, 2, 5]


def test_weights_that_can_be_fed_are_left_alone():
    model = made(f"{STACK}, {THREE}", PRODUCTS, "p, q, r")
    fed = model.graph.initializers[0]
    model.graph.inputs.append(fed)
    graph = prepare(model, asking()).graph
    assert operators(graph) == ["MatMul", "MatMul", "Split"]
    assert [value.name for value in graph.inputs] == ["x", "u"]
    assert graph.initializers[0].name == "u"
    assert graph.initializers[0].constant is fed.constant


def test_a_product_has_at_most_so_much_of_weights(monkeypatch):
    monkeypatch.setattr(projections, "LARGEST", 4 * 4 * 8)
    model = made(f"{STACK}, {THREE}", PRODUCTS, "p, q, r")
    assert operators(prepare(model, asking()).graph) == ["MatMul", "Split", "MatMul"]


def test_merging_is_recorded_and_ends_at_the_limit(capsys):
    body = f"{PAIR} h = Sin(x) r = MatMul(h, w) s = MatMul(h, k)"
    graph = made(f"{STACK}, {THREE}, float32[4,1] k", body, "p, q, r, s").graph
    journal = Journal(limit=1, shown=True)
    merge_projections(graph, journal)
    check_model(Model(graph, IMPORTS))
    assert operators(graph) == ["MatMul", "Split", "Sin", "MatMul", "MatMul"]
    assert capsys.readouterr().err.startswith("merge_projections: MatMul(x, u) -> MatMul(x, ")


@pytest.mark.slow
@pytest.mark.parametrize("provider", PROVIDERS)
def test_attention_is_found_before_its_projections_are_merged(provider):
    model = read(path("minilm-l3"))
    before, after = (operators(prepare(model, options).graph) for options in (SessionOptions(), asking()))
    assert before.count("Attention") == after.count("Attention") == after.count("Split") - before.count("Split") == 3
    assert before.count("MatMul") - after.count("MatMul") == 6
    session = InferenceSession(path("minilm-l3"), asking(), providers=[provider])
    assert_close("minilm-l3", session.run(None, inputs("minilm-l3")), reference("minilm-l3"))
