"""Inlining, against onnxruntime, which knows functions."""

import numpy as np
import onnx
import onnx.inliner
import onnxruntime
import pytest

import sardonyx
from sardonyx import errors
from sardonyx.errors import InvalidGraph
from sardonyx.model.ir import Model
from sardonyx.model.ir.checker import check
from sardonyx.model.ir.compare import difference
from sardonyx.model.ir.text import format_model, parse_model
from sardonyx.model.serde.inline import inline_functions
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.writer import write
from sardonyx.passes.upgrade import NEWEST, lift

HEAD = '<ir_version: 10, opset_import: ["" : 21, "local" : 1]> '
BODY = '<domain: "local", opset_import: ["" : 21, "local" : 1]> '


def assert_same_results(text: str) -> Model:
    """That inlining changes no result; gives the inlined model."""
    model = parse_model(HEAD + text)
    inlined = inline_functions(model)
    check(inlined)
    data = write(inlined)
    onnx.checker.check_model(data)
    assert difference(read(data), inlined) == ""
    assert not inlined.functions
    feeds = {value.name: np.linspace(-1, 2, 4, dtype="f4") for value in model.graph.inputs}
    if "c" in feeds:
        feeds["c"] = np.array(True)
    for one, other in zip(run(write(model), feeds), run(data, feeds), strict=True):
        np.testing.assert_array_equal(one, other)
    return inlined


def run(data: bytes, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    return onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, feeds)


def operators(model: Model) -> list[str]:
    return [node.op_type for node in model.graph.all_nodes()]


def test_a_call_becomes_the_nodes_of_the_function():
    model = assert_same_results(f"""m (float[4] x) => (float[4] y) {{ [one] a = local.f(x) y = local.f(a) }}
        {BODY} f (x) => (y) {{ t = Neg(x) y = Exp(t) }}""")
    assert operators(model) == ["Neg", "Exp", "Neg", "Exp"]
    assert [value.name for node in model.graph.nodes for value in node.outputs] == ["one/t", "a", "f/t", "y"]
    assert model.opset_imports == {"": 21}


def test_functions_that_call_functions():
    model = assert_same_results(f"""m (float[4] x) => (float[4] y) {{ y = local.g(x) }}
        {BODY} g (x) => (y) {{ a = local.f(x) b = local.f(a) y = Add(a, b) }}
        {BODY} f (x) => (y) {{ t = Neg(x) y = Exp(t) }}""")
    assert operators(model) == ["Neg", "Exp", "Neg", "Exp", "Add"]


def test_attributes_are_given_left_to_their_defaults_or_left_out():
    model = assert_same_results(f"""m (float[4] x) => (float[4] y, float[4] z) {{
            y = local.f <alpha = 0.5> (x)
            z = local.f <alpha = 0.25, beta = 3.0> (x)
        }}
        {BODY} f <alpha, beta: float = 2.0> (x) => (y) {{
            b = Constant <value_float: float = @beta> ()
            l = LeakyRelu <alpha: float = @alpha> (x)
            y = Mul(l, b)
        }}""")
    found = [node.attributes for node in model.graph.nodes]
    assert [each["alpha"].value for each in found if "alpha" in each] == [0.5, 0.25]
    assert [each["value_float"].value for each in found if "value_float" in each] == [2.0, 3.0]
    model = assert_same_results(
        f"""m (float[4] x) => (float[4] y) {{ y = local.f(x) }}
        {BODY} f <alpha> (x) => (y) {{ y = LeakyRelu <alpha: float = @alpha> (x) }}"""
    )
    assert not model.graph.nodes[0].attributes


def test_attributes_pass_through_calls_and_into_subgraphs():
    model = assert_same_results(f"""m (float[4] x, bool c) => (float[4] y) {{ y = local.g <a = 0.5> (c, x) }}
        {BODY} g <a> (c, x) => (y) {{ y = local.f <alpha: float = @a> (c, x) }}
        {BODY} f <alpha> (c, x) => (y) {{
            n = Neg(x)
            y = If (c) <
                then_branch = t () => (p) {{ p = LeakyRelu <alpha: float = @alpha> (n) }},
                else_branch = e () => (p) {{ p = Identity(x) }}
            >
        }}""")
    assert operators(model) == ["Neg", "If", "LeakyRelu", "Identity"]


def test_calls_in_subgraphs():
    model = assert_same_results(f"""m (float[4] x, bool c) => (float[4] y) {{
            y = If (c) <
                then_branch = t () => (p) {{ q = local.f(x) p = Abs(q) }},
                else_branch = e () => (p) {{ p = local.f(x) }}
            >
        }}
        {BODY} f (x) => (y) {{ t = Neg(x) y = Exp(t) }}""")
    assert sorted(operators(model)) == ["Abs", "Exp", "Exp", "If", "Neg", "Neg"]


def test_outputs_that_are_inputs_or_come_twice_or_are_unused():
    head = HEAD + "m (float[4] x) => (float[4] a, float[4] b, float[4] d)"
    model = parse_model(f"""{head} {{ a, b = local.f(x) "", d = local.g(x) }}
        {BODY} f (x) => (x, x) {{ }}
        {BODY} g (x) => (n, e) {{ n = Neg(x) e = Exp(n) }}""")
    plain = parse_model(f"{head} {{ a = Identity(x) b = Identity(x) n = Neg(x) d = Exp(n) }}")
    found = inline_functions(model)
    check(found)
    assert difference(found.graph, plain.graph, names=False) == ""


def test_missing_inputs_stay_missing():
    model = assert_same_results(f"""m (float[4] x) => (float[4] y) {{ y = local.f(x) }}
        {BODY} f (x, low, high) => (y) {{ y = Clip(x, low, high) }}""")
    assert model.graph.nodes[0].inputs == [model.graph.inputs[0], None, None]


def test_the_given_model_stays_as_it_is():
    text = f"{HEAD} m (float[4] x) => (float[4] y) {{ y = local.f(x) }} {BODY} f (x) => (y) {{ y = Neg(x) }}"
    model = parse_model(text)
    before = format_model(model)
    inline_functions(model)
    assert format_model(model) == before
    assert model.graph.outputs[0].producer is model.graph.nodes[0]


def test_a_model_without_functions_is_returned_itself():
    model = parse_model(HEAD + "m (float[4] x) => (y) { y = Neg(x) }")
    assert inline_functions(model) is model


def test_versions_that_nothing_uses_may_differ():
    text = f"""{HEAD} m (float[4] x) => (y) {{ y = local.f(x) }}
        <domain: "local", opset_import: ["" : 18, "other" : 3]> f (x) => (y) {{ y = other.Op(x) }}"""
    assert inline_functions(parse_model(text)).opset_imports == {"": 21, "other": 3}


def test_versions_that_differ():
    text = f"""{HEAD} m (float[4] x) => (y) {{ y = local.f(x) }}
        <domain: "local", opset_import: ["" : 18]> f (x) => (y) {{ y = Neg(x) }}"""
    with pytest.raises(errors.NotImplemented, match=r"function 'f' is written for ai.onnx 18, the model for 21"):
        inline_functions(parse_model(text))


def test_versions_that_differ_are_lifted():
    """Softmax with its axis by reference, ReduceSum whose axes became an input, and a graph inside."""
    text = f"""{HEAD} m (float[4, 3] x, bool b) => (float[4, 1] y) {{ z = local.f <k = 1>(x, b) y = Abs(z) }}
        <domain: "local", opset_import: ["" : 12]> f <k>(x, b) => (y) {{
            s = Softmax <axis: int = @k> (x)
            y = If(b) <then_branch = t () => (p) {{ p = ReduceSum <axes = [1]> (s) }},
                       else_branch = e () => (q) {{ q = ReduceMax <axes = [1]> (s) }}>
        }}"""
    model = inline_functions(parse_model(text), lift=lift, newest=NEWEST)
    assert model.opset_imports == {"": NEWEST[""]}
    x = np.array([[1, 2, 3], [0, 0, 0], [-1, 0, 1], [5, 5, 9]], np.float32)
    chances = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
    session = sardonyx.InferenceSession(write(parse_model(text)), providers=["NumpyExecutionProvider"])
    for flag, wanted in ((True, chances.sum(1, keepdims=True)), (False, chances.max(1, keepdims=True))):
        (found,) = session.run(None, {"x": x, "b": np.array(flag)})
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_a_function_that_calls_itself():
    text = f"""{HEAD} m (float[4] x) => (y) {{ y = local.f(x) }}
        {BODY} f (x) => (y) {{ y = local.g(x) }} {BODY} g (x) => (y) {{ y = local.f(x) }}"""
    with pytest.raises(InvalidGraph, match=r"calls itself: f -> g -> f"):
        inline_functions(parse_model(text))


@pytest.mark.parametrize("body", ["a = local.f{i}(x) y = local.f{i}(a)", "a = local.f{i}(x) y = Add(a, a)"])
def test_an_expansion_above_the_limit(body):
    functions = [f"{BODY} f{i + 1} (x) => (y) {{ {body.format(i=i)} }}" for i in range(40)]
    functions.append(f"{BODY} f0 (x) => (y) {{ y = Neg(x) }}")
    model = parse_model(f"{HEAD} m (float[4] x) => (y) {{ y = local.f40(x) }} {' '.join(functions)}")
    if "Add" in body:
        assert len(inline_functions(model, limit=100).graph.nodes) == 41
    else:
        with pytest.raises(InvalidGraph, match=r"inlining f40 -> f39 -> .* makes more than 1,000 nodes"):
            inline_functions(model, limit=1000)


def test_two_thousand_functions_that_call_each_other():
    functions = [f"{BODY} f{i + 1} (x) => (y) {{ y = local.f{i}(x) }}" for i in range(2000)]
    functions.append(f"{BODY} f0 (x) => (y) {{ y = Neg(x) }}")
    text = f"{HEAD} m (float[4] x) => (y) {{ y = local.f2000(x) }} {' '.join(functions)}"
    (node,) = inline_functions(parse_model(text)).graph.nodes
    assert node.op_type == "Neg"
    assert len(node.outputs[0].name) < 200


def test_calls_that_do_not_fit():
    text = f"{HEAD} m (float[4] x) => (y) {{ [n] y = local.f(x, x) }} {BODY} f (x) => (y) {{ y = Neg(x) }}"
    with pytest.raises(InvalidGraph, match=r"local.f 'n': 2 inputs and 1 outputs, where function 'f' has 1 and 1"):
        inline_functions(parse_model(text))
    text = text.replace("local.f(x, x)", "local.f <g = a () => () {}> (x)")
    with pytest.raises(errors.NotImplemented, match=r"local.f 'n': a function that is given a graph"):
        inline_functions(parse_model(text))


def test_the_functions_of_onnx_operators_inline_as_onnx_does():
    schema = onnx.defs.get_schema("MeanVarianceNormalization", 13)
    text = HEAD + "m (float[1,4,1,1] x) => (float[1,4,1,1] y) { y = local.MeanVarianceNormalization <axes = [1]> (x) }"
    proto = onnx.load_from_string(write(parse_model(text)))
    function = proto.functions.add()
    function.CopyFrom(schema.function_body)
    function.domain = "local"
    for each in function.opset_import:
        each.version = 21
    ours = inline_functions(read(proto.SerializeToString()))
    theirs = onnx.inliner.inline_local_functions(proto)
    assert operators(ours) == [node.op_type for node in theirs.graph.node]
    feeds = {"x": np.arange(4, dtype="f4").reshape(1, 4, 1, 1)}
    (one,), (other,) = run(theirs.SerializeToString(), feeds), run(write(ours), feeds)
    np.testing.assert_array_equal(one, other)
