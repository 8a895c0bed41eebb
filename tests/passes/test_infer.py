"""What is inferred: on small graphs by name, on ONNX's node models against what they compute."""

import re

import numpy as np
import pytest

from sardonyx import ops
from sardonyx.common import dtypes
from sardonyx.model.ir import Graph, Tensor, TensorType, Value, build
from sardonyx.model.serde.reader import read
from sardonyx.ops.interpret import expand
from sardonyx.passes.infer import Inference, infer_types
from sardonyx.passes.uniform import LIKE_FIRST, UNIFORM, same_as_operand
from sardonyx.passes.upgrade import upgrade
from sardonyx.primitives.array import Array
from sardonyx.sizes.symbolic import Size, evaluate, poly
from tests.passes.checking import graph_of, make_constant

IF = "y = If(c) <then_branch = a () => (p) {{ p = Exp(x) }}, else_branch = b () => (q) {{ q = {} }}>"

CUT = "int64[1] z = {0} e = Shape(t) y = Slice(x, z, e)"

CASES = [
    ("float32[N,4] x", "y = Relu(x)", "float32[N,4]"),
    ("float32[N,4] x", "y = Concat<axis = 0>(x, x)", "float32[2*N,4]"),
    ("float32[N,4] x, float32[1,4] c", "y = Add(x, c)", "float32[N,4]"),
    ("float32[N,4] x, float32[N,4] c", "y = Add(x, c)", "float32[N,4]"),
    ("float32[N,4] x, float32[M,4] c", "y = Add(x, c)", "float32[*,4]"),
    ("float32[N,4] x, float32[4] c", "y = Mul(c, x)", "float32[N,4]"),
    ("float32[N,1] x, float32[N,4] c", "y = Mul(x, c)", "float32[N,4]"),
    ("float32[N,1] x, float32[1,M] c", "y = Mul(x, c)", "float32[N,M]"),
    ("int64[512] x, float32[N] t", CUT, "int64[min(512, N)]"),
    ("float32[512] x, float32[N] t", f"{CUT.replace('y =', 'c =')} y = Add(c, t)", "float32[N]"),
    ("float32[?,4] x", "y = Transpose(x)", "float32[4,*]"),
    ("float32[...] x", "y = Relu(x)", "?"),
    ("float32[...] x", "s = Shape(x) y = Size(s)", "?"),
    ("float32[B,S,12] x", "int64[4] s = {0, 0, 3, 4} y = Reshape(x, s)", "float32[B,S,3,4]"),
    ("float32[B,S,12] x", "int64[2] s = {-1, 12} y = Reshape(x, s)", "float32[B*S,12]"),
    ("float32[N] x", "n = Shape(x) y = ConstantOfShape(n)", "float32[N]"),
    ("float32[N] x, int64[2] s", "y = Reshape(x, s)", "float32[*,*]"),
    ("float32[N,3] x", "y = Squeeze(x)", "?"),
    ("float32[1,8] x, int64 n", "int64[1] z = {0} e = Unsqueeze(n, z) y = Slice(x, z, e, z)", "float32[*,8]"),
    ("float32[N] x", "y = ReduceSum<keepdims = 0>(x)", "float32[]"),
    ("float32[2] x", "y = com.example.Unknown(x)", "?"),
    ("float32[2] x", "float32[3] z = com.example.Unknown(x) y = Relu(z)", "?"),
    ("bool c, float32[N] x", IF.format("Neg(x)"), "float32[N]"),
    ("bool c, float32[N] x", IF.format("Concat<axis = 0>(x, x)"), "float32[*]"),
    ("bool c, float32[N] x", IF.format("Size(x)"), "?"),
]


@pytest.mark.parametrize(("inputs", "body", "expected"), CASES)
def test_types(inputs, body, expected):
    graph = graph_of(inputs, body)
    infer_types(graph)
    found = graph.outputs[0].type
    assert re.sub(r"\bd\d+", "*", str(found or "?")) == expected


def test_a_declared_type_without_proof_keeps_its_element_type_alone():
    graph = graph_of("float32[...] x", "int32[3] h = Shape(x) y = Neg(h)")
    infer_types(graph)
    assert graph.nodes[0].outputs[0].type == TensorType(graph.nodes[0].outputs[0].dtype)


def test_new_names_are_no_declared_ones():
    graph = graph_of("float32[d1,?] x, float32[d2] z", "y = Transpose(x) w = Neg(z)", "y, w")
    infer_types(graph)
    sizes = [*graph.outputs[0].shape, *graph.outputs[1].shape]
    assert len(set(sizes)) == 3


def test_elements_of_sizes():
    graph = graph_of("float32[N,4] x", "s = Shape(x) int64 two = 2 y = Mul(s, two)")
    facts = infer_types(graph)
    assert str(facts.elements(graph.outputs[0])) == "[2*N, 8]"
    assert facts.elements(graph.inputs[0]) is None


def test_large_constants_are_not_read():
    graph = graph_of("float32[N,100] x, float32[100,3] w", "y = MatMul(x, w)")
    make_constant(graph, "w", np.zeros((100, 3), np.float32))
    graph.initializers[0].constant = Tensor(dtypes.float32, (100, 3), lambda: pytest.fail("the constant was read"))
    infer_types(graph)
    assert str(graph.outputs[0].type) == "float32[N,3]"


# ---- ONNX's node models, with every size of the inputs made symbolic


def agrees(found: Size, actual: int, known: dict[str, int]) -> bool:
    """Whether a size evaluates to the actual one; a new symbol may stand for anything, but for one thing only."""
    unknown = poly(found).symbols() - known.keys()
    if str(found) in unknown:
        known[str(found)] = actual
    return bool(unknown) or evaluate(poly(found).json(), known) == actual


def check_array(found: Array, actual: Array, known: dict[str, int]) -> None:
    assert found.dtype is actual.dtype
    assert found.rank == actual.rank
    assert all(agrees(one, int(other), known) for one, other in zip(found.shape, actual.shape))
    if found.sizes is not None:
        assert all(agrees(one, other, known) for one, other in zip(found.sizes.flat, actual.value.flat))
    if found.value is not None:
        np.testing.assert_array_equal(found.value, actual.value)


def symbolic_input(value: Value, array: np.ndarray, number: int, shared: bool, known: dict[str, int]) -> bool:
    """Give the sizes of an input names, equal ones the same name if they are shared; False for a shape, say."""
    if array.dtype.kind in "iub" and array.ndim < 2 and array.size <= 8:
        return False
    names = [f"s{size}" if shared else f"v{number}_{axis}" for axis, size in enumerate(array.shape)]
    known.update(zip(names, array.shape))
    value.type = TensorType(value.dtype, tuple(names))
    return True


@pytest.mark.parametrize("shared", [False, True])
def test_whatever_is_inferred_is_true(onnx_cases, shared):
    checked = 0
    for _, data, feeds in onnx_cases:
        graph = upgrade(read(data)).graph
        known: dict[str, int] = {}
        environment: dict[int, Array | None] = {}
        for number, (value, array) in enumerate(zip(list(graph.inputs), feeds)):
            environment[value] = Array(value.dtype, array.shape, array)
            if not symbolic_input(value, array, number, shared, known):
                make_constant(graph, value.name, array)
        facts = Inference(graph)
        for node in graph.nodes:
            facts.infer(node)
            try:
                with np.errstate(all="ignore"):
                    expand(node, environment)
            except Exception:  # not yet known, or not on its own
                break
            for value in node.outputs:
                found, actual = facts.array(value), environment.get(value)
                if found is not None and actual is not None:
                    check_array(found, actual, known)
                    checked += 1
    assert checked > 1000


# ---- what is known without an expansion


@pytest.mark.parametrize("op_type", sorted(UNIFORM | LIKE_FIRST))
def test_results_like_operands_are_those_of_expansions(op_type, monkeypatch):
    samples = [each for each in ops.find("", op_type).samples if each.outputs == 1]
    assert samples
    for given in samples:
        arrays = [None if array is None else np.asarray(array) for array in given.arrays()]
        values = [
            a if a is None else Value(f"x{k}", TensorType(dtypes.of(a.dtype), a.shape)) for k, a in enumerate(arrays)
        ]
        made = build.node(op_type, values, attributes=given.attributes)
        graph = Graph(inputs=[value for value in values if value], nodes=[made], outputs=made.outputs)
        found = []
        for shortcut in (same_as_operand, lambda node, operands: None):
            monkeypatch.setattr("sardonyx.passes.infer.same_as_operand", shortcut)
            infer_types(graph)
            found.append(str(made.outputs[0].type))
        assert found[0] == found[1], given


def test_equal_layers_are_expanded_once(monkeypatch):
    expanded = []
    original = Inference._expand
    monkeypatch.setattr(Inference, "_expand", lambda self, node: expanded.append(node) or original(self, node))
    layers = " ".join(f"r{k} = Transpose(x{k}) x{k + 1} = Transpose(r{k})" for k in range(5))
    graph = graph_of("float32[N,4] x0", layers, "x5")
    infer_types(graph)
    assert len(expanded) == 2
    assert str(graph.outputs[0].type) == "float32[N,4]"


def test_sizes_that_depend_on_data_differ_from_layer_to_layer():
    graph = graph_of("float32[4] x", "a = NonZero(x) b = NonZero(x)", "a, b")
    infer_types(graph)
    assert graph.outputs[0].shape[1] != graph.outputs[1].shape[1]
