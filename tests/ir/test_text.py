"""The text form: what it reads, what it prints, and what it says of mistakes."""

import math

import numpy as np
import onnx
import pytest

from sardonyx.common import dtypes
from sardonyx.errors import InvalidGraph
from sardonyx.model.ir import (
    Attribute,
    Graph,
    MapType,
    Model,
    Node,
    OptionalType,
    SequenceType,
    SparseTensor,
    SparseTensorType,
    Tensor,
    TensorType,
    Value,
)
from sardonyx.model.ir.compare import difference
from sardonyx.model.ir.text import format_graph, format_model, format_type, parse_graph, parse_model
from sardonyx.model.serde.reader import read

MODEL = """\
<
  ir_version: 10,
  opset_import: ["" : 21, "com.microsoft" : 1],
  producer_name: "pytorch",
  doc_string: "a \\"doc\\", on two\\nlines",
  metadata_props: ["k": "v"]
>
main (float32[N,4] x, bool c, float32[2] b = float32[2] {0.5, -1.0}) => (float32[N,2] y, seq(float32[...]) s) {
  float32[4,2] w = {0.5, -1.0, 0.0, 2.0, 1.0, 1.0, 3.0, 0.25}
  sparse_tensor(float32[4]) z = float32[2] {1.0, 2.0} @ int64[2] {0, 3}
  [/layer/MatMul] float32[N,2] onnx::MatMul_1 = MatMul(x, w)
  x.1, "" = com.microsoft.Gelu <alpha = 0.1, axes = [0, 1], mode = "a\\nb"> (onnx::MatMul_1, "", b)
  y = If(c) <
    then_branch = then () => (float32[N,2] "odd name") {
      "odd name" = Identity(x.1)
    },
    else_branch = else () => (p) {
      float32 two = {2.0}
      p = Mul(x.1, two)
    }
  >
  s = SequenceConstruct(y, y)
}

<domain: "local", opset_import: ["" : 21], overload: "v2">
f <alpha, beta: float = 1.0> (x) => (y) {
  y = LeakyRelu <alpha: float = @alpha> (x)
}
"""


class TestPrinting:
    def test_what_is_printed_is_what_was_read(self):
        assert format_model(parse_model(MODEL)) == MODEL

    def test_large_tensors_are_a_hash(self):
        graph = parse_graph(f"(x) => (y) {{ float32[20] w = {{{', '.join(['1'] * 20)}}} y = Add(x, w) }}")
        text = format_graph(graph)
        assert "float32[20] w = {... " in text
        again = parse_graph(text)
        assert format_graph(graph, limit=None).count("1.0") == 20
        with pytest.raises(InvalidGraph, match="left out of the text"):
            again.initializers[0].constant.array()
        graph.initializers[0].constant = Tensor.of(np.zeros(20, "f4"), dtypes.float32)
        assert format_graph(graph) != text

    def test_long_attributes_are_cut(self):
        graph = parse_graph(f"(x) => (y) {{ y = Op <a = [{', '.join('0' * 20)}]> (x) }}")
        assert f"<a = [{'0, ' * 16}... 4 more]>" in format_graph(graph)
        with pytest.raises(InvalidGraph, match="elements were left out"):
            parse_graph(format_graph(graph))
        assert difference(graph, parse_graph(format_graph(graph, limit=None))) == ""

    def test_long_lists_of_inputs_take_a_line_each(self):
        names = [f"float32[1,1] a_rather_long_name_{i}" for i in range(5)]
        text = format_graph(parse_graph(f"({', '.join(names)}) => () {{}}"))
        assert text.splitlines()[1] == "  float32[1,1] a_rather_long_name_0,"

    def test_values_of_one_name_are_told_apart(self):
        x = Value("x")
        nodes = [Node("Neg", [x], [Value("x")])]
        nodes.append(Node("Neg", nodes[0].outputs, [Value("")]))
        nodes.append(Node("Neg", nodes[1].outputs, [Value("y")]))
        text = format_graph(Graph([x], nodes[2].outputs, nodes))
        assert [line.strip() for line in text.splitlines()[1:4]] == [
            "x_1 = Neg(x)",
            "value_1 = Neg(x_1)",
            "y = Neg(value_1)",
        ]

    @pytest.mark.parametrize(
        ("kind", "text"),
        [
            (TensorType(dtypes.float32, ()), "float32"),
            (TensorType(dtypes.float32, None), "float32[...]"),
            (TensorType(dtypes.bfloat16, ("N", 2, None, "a b")), 'bfloat16[N,2,?,"a b"]'),
            (TensorType(None, (2,)), "undefined[2]"),
            (SparseTensorType(dtypes.int4, (2,)), "sparse_tensor(int4[2])"),
            (SequenceType(OptionalType(TensorType(dtypes.string, (1,)))), "seq(optional(string[1]))"),
            (MapType(dtypes.int64, SequenceType(None)), "map(int64, seq(?))"),
        ],
    )
    def test_types(self, kind, text):
        assert format_type(kind) == text
        assert parse_graph(f"({text} x) => () {{}}").inputs[0].type == kind


class TestOneLiners:
    def test_initializers_among_the_nodes(self):
        graph = parse_graph("(float32[3] x) => (y) { float32[3] w = {1,2,3}  y = Add(x, w) }")
        assert graph.initializers[0].constant.array().tolist() == [1, 2, 3]
        assert graph.initializers[0].constant.array().dtype == np.float32
        assert graph.nodes[0].inputs == [graph.inputs[0], graph.initializers[0]]

    def test_semicolons_comments_and_attributes_before_or_after(self):
        graph = parse_graph(
            """(float32[2,3] x) => (y) { # a comment
            w = Constant <value = float32[3] {1, 2, 3}> () ; v = Softmax(x) <axis = 1> y = Add(w, v); }"""
        )
        assert [node.op_type for node in graph.nodes] == ["Constant", "Softmax", "Add"]
        assert graph.nodes[1].attribute("axis") == 1

    def test_attributes_among_the_inputs(self):
        (node,) = parse_graph("(x) => (y) { y = Transpose(x, perm=[1, 0]) }").nodes
        assert node.attributes == {"perm": Attribute("perm", "ints", [1, 0])}
        (node,) = parse_graph("() => (y) { y = Constant <value_int = 3> }").nodes
        assert (node.inputs, node.attribute("value_int")) == ([], 3)

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("float32[2] w = {1, 2.5}", [1, 2.5]),
            ("float32 w = 3", 3),
            ("float[3] w = {nan, -inf, 1e-3}", [math.nan, -math.inf, np.float32(1e-3)]),
            ("double w = {0.1}", 0.1),
            ("float16[2] w = {1, 0.1}", [1, np.float16(0.1)]),
            ("bool[3] w = {true, 0, 1}", [True, False, True]),
            ("int64[0] w = {}", []),
            ("uint64 w = 18446744073709551615", 2**64 - 1),
            ("int4[2] w = {-8, 7}", [-8, 7]),
            ("bfloat16[1] w = {16256}", [16256]),
            ("complex64[2] w = {1, 2, 3, 4}", [1 + 2j, 3 + 4j]),
            ('string[3] w = {"a", "é\\u0041\\"", b"\\xff"}', ["a", 'éA"', b"\xff"]),
            ("int8[2,2] w = {1, 2,\n 3, 4,}", [[1, 2], [3, 4]]),
            ("float32[1] w = float32[1] {2}", [2]),
        ],
    )
    def test_elements(self, text, expected):
        graph = parse_graph(f"() => (w) {{ {text} }}")
        found = graph.outputs[0].constant.array()
        np.testing.assert_array_equal(found, np.array(expected, found.dtype))
        assert difference(parse_graph(format_graph(graph)), graph) == ""

    def test_every_kind_of_attribute_comes_back(self):
        tensor = Tensor.of(np.array([1, 2]), dtypes.int64)
        given = {
            "int": -3,
            "float": float(np.float32(0.1)),
            "string": 'a"b\\c\n',
            "tensor": tensor,
            "sparse_tensor": SparseTensor(tensor, tensor, (4,)),
            "type_proto": SequenceType(TensorType(dtypes.float32, ("N",))),
            "graph": parse_graph("inner () => (y) { y = Constant <value_int = 1> }"),
        }
        attributes = [Attribute(kind, kind, value) for kind, value in given.items()]
        attributes += [Attribute(f"{kind}s", f"{kind}s", []) for kind in given]
        attributes += [
            Attribute(f"two_{kind}", f"{kind}s", [value, value]) for kind, value in given.items() if kind != "graph"
        ]
        attributes += [Attribute("bytes", "string", b"\xff'\""), Attribute("a b", "float", math.inf)]
        attributes += [Attribute("two_graphs", "graphs", [parse_graph("a () => () {}"), parse_graph("b () => () {}")])]
        node = Node("Any", [], [], {each.name: each for each in attributes})
        graph = Graph(nodes=[node], name="g")
        assert difference(graph, parse_graph(format_graph(graph))) == ""

    @pytest.mark.parametrize("name", ["/model/Constant_output_0", "onnx::Shape_1", "x.1", "a-b", "x:0", "463", "@a/ü"])
    def test_names_that_need_no_quotes(self, name):
        text = format_graph(parse_graph(f'(x) => (y) {{ ["{name}"] y = Neg(x) }}'))
        assert (f"[{name}]" in text) == (name != "@a/ü")

    @pytest.mark.parametrize(
        "name", ["a b", "x:", "float32", "seq", "true", "", 'q"', "b\\", "\n", "string.1", "=", "Ω"]
    )
    def test_any_name_comes_back(self, name):
        x, y = Value(name or "x"), Value(f"{name}2")
        node = Node(name or "Op", [x, None], [y, Value("")], {}, name and f"my.{name}", name)
        graph = Graph([x], [y], [node], name=name or "g")
        assert difference(graph, parse_graph(format_graph(graph))) == ""


class TestOnnx:
    @pytest.mark.parametrize(
        "text",
        [
            "agraph (float[N, 128] X, float[128,10] W) => (float[N] C) { T = MatMul(X, W) C = Softmax(T) }",
            "g (float[] x, float y = {3.0}) => (z) <float[2] w = {1, 2}, float[N] t> { t = Add(x, w) z = Sub(t, y) }",
            'g (float x) => (y) { [n1] y, "" = custom.domain.Op:two <a: float = 1, b = 2., c: ints = []> (x, "", x) }',
            "g (x) => (y) { y = Op(,x) z = Op(x,) }",
            "g (bool b) => (y) { y = If (b) <then_branch = t () => (u) {u=C()}, else_branch = e () => (v) {v=D()}>}",
            'g () => (y) { y = C <value: tensor = string[2] {"a","b"}> () z = O <t: type_proto = seq(float[N])> () }',
            "g () => (y) { y = O <a = float[1] named = {1}, b = nan, c = [-inf, 1.5], d = -3> () }",
        ],
    )
    def test_what_onnx_reads_is_read_as_onnx_does(self, text):
        head = '<ir_version: 9, opset_import: ["" : 18, "custom.domain" : 1]> '
        theirs = read(onnx.parser.parse_model(head + text).SerializeToString())
        assert difference(parse_model(head + text), theirs) == ""

    def test_functions(self):
        text = """<ir_version: 9, opset_import: ["" : 18, "local" : 1]>
            g (float[N] x) => (float[N] y) { y = local.f <a = 2> (x) }
            <domain: "local", opset_import: ["" : 18], doc_string: "f">
            f <a, b: float = 1.0, c: ints = [1]> (x) => (y) { t = Neg(x) y = Op <k: int = @a, l: ints = @c> (t) }"""
        theirs = read(onnx.parser.parse_model(text).SerializeToString())
        assert difference(parse_model(text), theirs) == ""


class TestMistakes:
    @pytest.mark.parametrize(
        ("text", "line", "column", "reason"),
        [
            ("(x) => (y) {\n  y = Add(x, w)\n}", 2, 14, "'w' is not defined here"),
            ("(x) => (y) {\n  y = Add(x x)\n}", 2, 13, r"expected '\)', found 'x'"),
            ("(x) => (y) {\n  y = Add(x)\n", 3, 1, "expected a name or '=', found the end of the text"),
            ("(x) => (y) { }", 1, 9, "nothing in the graph defines its output 'y'"),
            ("(x, x) => () {}", 1, 5, "'x' is defined already"),
            ("(x) -> (y) {}", 1, 5, "expected '=>', found '-'"),
            ("(float33[2] x) => () {}", 1, 2, "'float33' is no type"),
            ("(seq(flat) x) => () {}", 1, 6, "'flat' is no type"),
            ("() => (w) { float32[2] w = {1} }", 1, 28, r"1 elements stand here, the shape \[2\] has 2"),
            ("() => (w) { float32[N] w = {1} }", 1, 28, r"the sizes of float32\[N\] must be numbers here"),
            ("() => (w) { int8[1] w = {200} }", 1, 26, "200 is out of range for int8; use -128..127"),
            ("() => (w) { int8[1] w = {1.5} }", 1, 26, "these are no elements of int8"),
            ("(x) => (y) { y = Op <a = []> (x) }", 1, 26, "an empty list needs its kind: 'a: ints = \\[\\]'"),
            ('(x) => (y) { y = Op <a = [1, "b"]> (x) }', 1, 26, "the elements of a list are of one kind"),
            ("(x) => (y) { y = Op <a: integer = 1> (x) }", 1, 23, "'integer' is no kind of attribute"),
            ("(x) => (y) { y = Op <a: int = 1.5> (x) }", 1, 31, "'a' is to be of kind int, this is of kind float"),
            ("(x) => (y) { y = Op <a = @b> (x) }", 1, 24, "a reference needs its kind"),
            ('(x) => (y) { y = Op <a = "\\q"> (x) }', 1, 26, "unknown escape"),
            ("(x) => (x) {} rest", 1, 15, "expected the end of the graph, found 'rest'"),
            ("", 1, 1, "expected a graph, found the end of the text"),
        ],
    )
    def test_line_column_and_reason(self, text, line, column, reason):
        with pytest.raises(InvalidGraph, match=f"line {line}, column {column}: .*{reason}"):
            parse_graph(text)

    def test_the_line_is_shown(self):
        with pytest.raises(InvalidGraph) as caught:
            parse_graph("(x) => (y) {\n  y = Add(x, w)\n}")
        assert str(caught.value).splitlines()[1:] == ["      y = Add(x, w)", "                 ^"]

    def test_the_fields_of_a_header(self):
        with pytest.raises(InvalidGraph, match="line 1, column 2: 'ir_versions' is none of ir_version, opset_import"):
            parse_model("<ir_versions: 1> g () => () {}")
        assert parse_model("g () => () {}").opset_imports == Model(Graph()).opset_imports

    @pytest.mark.parametrize("opening", ["seq(", "x = If(c) <then_branch = t () => () { "])
    def test_deep_nesting(self, opening):
        text = f"(bool c) => () {{ {opening * 500}" if "If" in opening else f"({opening * 500}"
        with pytest.raises(InvalidGraph, match="nest more than 50 deep"):
            parse_graph(text)
