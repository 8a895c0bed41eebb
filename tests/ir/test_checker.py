"""Each rule of the checker, broken once."""

import time
from array import array

import numpy as np
import pytest

from sardonyx.common import dtypes
from sardonyx.errors import InvalidGraph
from sardonyx.model.ir import Attribute, Graph, Model, Node, Tensor, TensorType, Value
from sardonyx.model.ir.checker import check
from sardonyx.model.ir.text import parse_graph, parse_model


def model(text: str) -> Model:
    return Model(parse_graph(text), {"": 21})


NESTED = """(bool c, float32[2] x) => (y) {
    a = Neg(x)
    y = If(c) <then_branch = t () => (p) { b = Exp(a) p = Identity(b) }, else_branch = e () => (q) { q = Identity(x) }>
}"""


def test_sound_models_pass():
    check(model("(float32[3] x) => (y) { float32[3] w = {1,2,3}  y = Add(x, w) }"))
    check(model('(float32[3] x) => (y) { [n] y, "" = Dropout(x, "", "") }'))
    check(model(NESTED))
    check(Model(Graph()))


def test_a_value_is_made_before_it_is_used():
    broken = model("(x) => (z) { [one] y = Neg(x) [two] z = Exp(y) }")
    broken.graph.nodes.reverse()
    with pytest.raises(InvalidGraph, match=r"Exp 'two': input 0, 'y', is made later, or out of sight, by Neg 'one'"):
        check(broken)


def test_a_value_comes_from_somewhere():
    broken = model("(x) => (y) { y = Neg(x) }")
    broken.graph.nodes[0].inputs.append(Value("stray"))
    with pytest.raises(InvalidGraph, match=r"Neg 'y': input 1, 'stray', is defined nowhere"):
        check(broken)


def test_a_node_may_not_use_its_own_outputs_not_even_in_a_subgraph():
    broken = model("(x) => (y) { y = Neg(x) }")
    broken.graph.nodes[0].inputs = broken.graph.outputs[:]
    with pytest.raises(InvalidGraph, match=r"is made later"):
        check(broken)
    broken = model(NESTED)
    next(broken.graph.nodes[1].subgraphs()).nodes[0].inputs = broken.graph.outputs[:]
    with pytest.raises(InvalidGraph, match=r"Exp 'b': input 0, 'y', is made later, or out of sight, by If 'y'"):
        check(broken)


def test_values_of_a_subgraph_stay_in_it():
    broken = model(NESTED)
    then_branch, else_branch = broken.graph.nodes[1].subgraphs()
    else_branch.nodes[0].inputs = then_branch.nodes[0].outputs
    with pytest.raises(InvalidGraph, match=r"Identity 'q': input 0, 'b', is made later, or out of sight, by Exp 'b'"):
        check(broken)


def test_outputs_are_defined():
    broken = model(NESTED)
    broken.graph.outputs = [Value("lost")]
    with pytest.raises(InvalidGraph, match=r"graph 'graph': its output 'lost' is not defined in it"):
        check(broken)


@pytest.mark.parametrize("where", ["inputs", "initializers", "outputs"])
def test_a_value_is_defined_once(where):
    broken = model("(x) => (y) { float32 w = {1} y = Add(x, w) }")
    graph = broken.graph
    if where == "outputs":
        graph.nodes[0].outputs = graph.inputs[:]
        graph.inputs[0].producer = graph.nodes[0]
    else:
        getattr(graph, where).append(getattr(graph, where)[0])
    with pytest.raises(InvalidGraph, match=r"'[xw]' is defined"):
        check(broken)


def test_a_producer_is_the_node_that_makes_the_value():
    broken = model("(x) => (y) { y = Neg(x) }")
    broken.graph.outputs[0].producer = None
    with pytest.raises(InvalidGraph, match=r"'y' is defined by Neg 'y', but its producer is None"):
        check(broken)


def test_domains_are_imported():
    broken = model("(x) => (y) { [n] y = com.microsoft.Gelu(x) }")
    with pytest.raises(
        InvalidGraph, match=r"com.microsoft.Gelu 'n': the domain 'com.microsoft' is not .* \('ai.onnx'\)"
    ):
        check(broken)
    broken.opset_imports = {}
    with pytest.raises(InvalidGraph, match=r"the model imports no operator set"):
        check(broken)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", 1.5),
        ("float", "a"),
        ("string", 1),
        ("tensor", np.zeros(1)),
        ("graph", None),
        ("ints", 1),
        ("ints", [1, 2.5]),
        ("ints", array("f", [1.0])),
        ("strings", "ab"),
        ("type_proto", "float"),
        ("complex", 1),
        ("complexs", [1]),
    ],
)
def test_attributes_hold_what_their_kind_says(kind, value):
    node = Node("Op", [], [], {"a": Attribute("a", kind, value)}, name="n")
    with pytest.raises(InvalidGraph, match=rf"Op 'n': attribute 'a' (is of|has the unknown) kind '?{kind}"):
        check(Model(Graph(nodes=[node]), {"": 21}))


@pytest.mark.parametrize(
    ("kind", "value"), [("ints", array("q", [1])), ("floats", array("f")), ("floats", (1, 2.5)), ("string", b"\xff")]
)
def test_attributes_of_other_sequences(kind, value):
    check(Model(Graph(nodes=[Node("Op", [], [], {"a": Attribute("a", kind, value)})]), {"": 21}))


def test_references_stand_in_functions_only():
    text = """<ir_version: 10, opset_import: ["" : 21, "l" : 1]> g (x) => (y) { [n] y = l.f(x) }
        <domain: "l", opset_import: ["" : 21]> f <a> (x) => (y) { [m] y = LeakyRelu <alpha: float = @a> (x) }"""
    broken = parse_model(text)
    check(broken)
    broken.functions["l", "f", ""].attributes.clear()
    with pytest.raises(InvalidGraph, match=r"attribute 'alpha' refers to 'a', which function 'f' does not have"):
        check(broken)
    broken.graph.nodes[0].attributes["alpha"] = Attribute("alpha", "float", None, "a")
    with pytest.raises(InvalidGraph, match=r"attribute 'alpha' refers to 'a', which only a function's node may do"):
        check(broken)


@pytest.mark.parametrize("shape", [(3,), (2, 2), ("N", 3), None])
def test_initializers_agree_with_their_types(shape):
    sound = model("(float32[2,3] x) => (y) { float32[2,3] w = {1,2,3,4,5,6} y = Add(x, w) }")
    sound.graph.initializers[0].type = TensorType(dtypes.float32, shape)
    if shape in (("N", 3), None):
        check(sound)
    else:
        with pytest.raises(InvalidGraph, match=r"initializer 'w' is float32\[2,3\], declared is float32"):
            check(sound)
    sound.graph.initializers[0].type = TensorType(dtypes.float64, shape)
    with pytest.raises(InvalidGraph, match=r"initializer 'w' is float32\[2,3\], declared is float64"):
        check(sound)
    sound.graph.initializers[0].constant = None
    with pytest.raises(InvalidGraph, match=r"initializer 'w' has no constant"):
        check(sound)


def test_functions_do_not_call_themselves():
    text = """<ir_version: 10, opset_import: ["" : 21]> g (x) => (y) { y = Neg(x) }
        <domain: "l", opset_import: ["l" : 1]> f (x) => (y) { y = l.h(x) }
        <domain: "l", opset_import: ["l" : 1]> h (x) => (y) { y = l.h(x) }"""
    with pytest.raises(InvalidGraph, match=r"a function calls itself: h -> h"):
        check(parse_model(text))


def test_time_is_linear():
    x = Value("x")
    nodes, last = [], x
    w = Value("w", constant=Tensor.of(np.zeros(1), dtypes.float64))
    for _ in range(20_000):
        nodes.append(Node("Add", [last, w], [Value("v")]))
        last = nodes[-1].outputs[0]
    started = time.perf_counter()
    check(Model(Graph([x], [last], nodes, [w]), {"": 21}))
    assert time.perf_counter() - started < 1


def test_nesting_does_not_recurse():
    graph = Graph()
    for _ in range(3000):
        graph = Graph(nodes=[Node("If", [], [], {"then_branch": Attribute("then_branch", "graph", graph)})])
    check(Model(graph, {"": 21}))
