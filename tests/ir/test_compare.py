"""What counts as a difference."""

import copy

import numpy as np
import pytest

from sardonyx.common import dtypes
from sardonyx.model.ir import Tensor, TensorType
from sardonyx.model.ir.compare import difference, equal
from sardonyx.model.ir.text import parse_graph, parse_model

TEXT = """<ir_version: 10, opset_import: ["" : 21]>
main (float32[2] x, bool c) => (y) {
  float32[2] w = {1, nan}
  sparse_tensor(float32[4]) z = float32[1] {1} @ int64[1] {2}
  [n] a, b = Op <i = 1, l = [1.5, nan], t = float32[2] {1, 2}> (x, w, "")
  y = If(c) <then_branch = t () => (p) { p = Neg(b) }>
}
<domain: "l", opset_import: ["" : 21]> f <k, j: int = 1> (x) => (y) { y = Neg <k: int = @k> (x) }"""


def test_a_model_equals_itself_and_a_copy():
    model = parse_model(TEXT)
    assert equal(model, model)
    assert equal(model, parse_model(TEXT))
    assert equal(model.graph, parse_model(TEXT).graph)
    assert difference(model, model.graph) == "a Model is no Graph"


CHANGES = {
    "ir_version is 10 and 9": lambda m: setattr(m, "ir_version", 9),
    "opset_imports is": lambda m: m.opset_imports.update({"a": 1}),
    "name is 'main' and 'other'": lambda m: setattr(m.graph, "name", "other"),
    "inputs: 2 and 1": lambda m: m.graph.inputs.pop(),
    "inputs: 'x': type is": lambda m: setattr(m.graph.inputs[0], "type", TensorType(dtypes.float64, (2,))),
    "initializers: 1 and 0": lambda m: m.graph.initializers.clear(),
    "1 and 0 sparse initializers": lambda m: m.graph.sparse_initializers.clear(),
    "'w': the data differ": lambda m: setattr(
        m.graph.initializers[0], "constant", Tensor.of(np.ones(2, "f4"), dtypes.float32)
    ),
    "'z': values: dtype is float32": lambda m: setattr(m.graph.sparse_initializers[0][1].values, "dtype", dtypes.int32),
    "'z': shape is": lambda m: setattr(m.graph.sparse_initializers[0][1], "shape", (5,)),
    "2 and 1 nodes": lambda m: m.graph.nodes.pop(),
    "Op 'n': op_type is 'Op' and 'Po'": lambda m: setattr(m.graph.nodes[0], "op_type", "Po"),
    "Op 'n': inputs: ['x', 'w', ''] and ['x', 'w', 'c']": lambda m: m.graph.nodes[0].inputs.__setitem__(
        2, m.graph.inputs[1]
    ),
    "Op 'n': inputs: 3 and 2": lambda m: m.graph.nodes[0].inputs.pop(),
    "outputs: 2 and 1": lambda m: m.graph.nodes[0].outputs.pop(0),
    "attributes ['i', 'l', 't'] and ['l', 't']": lambda m: m.graph.nodes[0].attributes.pop("i"),
    "attribute 'i': 1 and 2": lambda m: setattr(m.graph.nodes[0].attributes["i"], "value", 2),
    "attribute 'l': 2 and 1 elements": lambda m: m.graph.nodes[0].attribute("l").pop(),
    "attribute 'l': 1.5 and 2.5": lambda m: m.graph.nodes[0].attribute("l").__setitem__(0, 2.5),
    "attribute 'then_branch': Neg 'p': inputs: ['b'] and ['a']": lambda m: (
        m.graph.nodes[1].attribute("then_branch").nodes[0].inputs.__setitem__(0, m.graph.nodes[0].outputs[0])
    ),
    "outputs: ['y'] and ['x']": lambda m: m.graph.outputs.__setitem__(0, m.graph.inputs[0]),
    "functions: ": lambda m: m.functions.clear(),
    "function f: attributes is ['k'] and []": lambda m: m.functions["l", "f", ""].attributes.clear(),
    "function f: attribute 'j': 1 and 2": lambda m: setattr(m.functions["l", "f", ""].defaults["j"], "value", 2),
    "attribute 'k': reference is 'k' and 'j'": lambda m: setattr(
        m.functions["l", "f", ""].graph.nodes[0].attributes["k"], "reference", "j"
    ),
    "doc is '' and 'why'": lambda m: setattr(m.graph.nodes[0], "doc", "why"),
    "metadata is {} and {'a': 'b'}": lambda m: m.graph.inputs[0].metadata.update(a="b"),
}


@pytest.mark.parametrize("reason", CHANGES)
def test_each_change_is_seen(reason):
    model = parse_model(TEXT)
    CHANGES[reason](model)
    assert reason in difference(parse_model(TEXT), model)
    if "doc" in reason or "metadata" in reason:
        assert equal(parse_model(TEXT), model, docs=False)
    if "name is" in reason:
        assert equal(parse_model(TEXT), model, names=False)


def test_names_may_be_left_aside():
    one = parse_graph("(x) => (y) { a = Neg(x) y = Add(a, x) }")
    other = parse_graph("g (u) => (v) { [n] w = Neg(u) v = Add(w, u) }")
    assert not equal(one, other)
    assert equal(one, other, names=False)
    assert not equal(one, parse_graph("g (u) => (v) { w = Neg(u) v = Add(u, w) }"), names=False)


def test_lists_of_any_sort_are_compared_by_their_elements():
    one = parse_graph("(x) => (y) { y = Op <a = [1, 2]> (x) }")
    other = copy.deepcopy(one)
    other.nodes[0].attributes["a"].value = (1, 2)
    assert equal(one, other)
