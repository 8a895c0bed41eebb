"""What patterns match, and what rules they make."""

import pytest

from sardonyx.passes.pattern import NodePattern, constants, makers, op, variables
from sardonyx.passes.rule import rule
from tests.passes.checking import graph_of

x, y, z = variables("x y z")
(c,) = constants("c")
INPUTS = "float32[4] a, float32[4] b"


def matches(pattern: NodePattern, body: str) -> list[dict[str, str]]:
    """What the names are bound to, in every match of the last node."""
    graph = graph_of(INPUTS, body)
    used = [value for node in graph.nodes for value in node.inputs if value] + graph.outputs
    uses = {value: used.count(value) for value in used}
    found = pattern.match_node(graph.nodes[-1], {}, uses)
    return [{name: item and item.name for name, item in each.items()} for each in found]


def test_variables_are_bound():
    assert matches(op.Sub(x, y), "y = Sub(a, b)") == [{"x": "a", "y": "b"}]
    assert matches(op.Sub(x, x), "y = Sub(a, b)") == []
    assert matches(op.Sub(x, x), "y = Sub(a, a)") == [{"x": "a"}]


def test_commutative_operators_match_in_both_orders():
    assert matches(x + op.Neg(y), "n = Neg(b) y = Add(n, a)") == [{"x": "a", "y": "b"}]
    assert matches(x * y, "y = Mul(a, b)") == [{"x": "a", "y": "b"}, {"x": "b", "y": "a"}]
    assert matches(op.Max(op.Neg(x), y), "n = Neg(a) y = Max(b, n)") == [{"x": "a", "y": "b"}]
    assert matches(x - op.Neg(y), "n = Neg(b) y = Sub(n, a)") == []


def test_orders_are_tried_inside_one_another():
    assert matches((x + 1.0) * (y * x), "float32 o = 1 s = Add(o, a) m = Mul(a, b) y = Mul(m, s)") == [
        {"x": "a", "y": "b"}
    ]


def test_inputs_may_be_optional():
    pattern = op.Clip(x, y.optional, z.optional)
    assert matches(pattern, 'float32 h = 1 y = Clip(a, "", h)') == [{"x": "a", "y": None, "z": "h"}]
    assert matches(pattern, "y = Clip(a)") == [{"x": "a", "y": None, "z": None}]
    assert matches(op.Clip(x), "float32 h = 1 y = Clip(a, h)") == []
    assert matches(op.Clip(x, ...), "float32 h = 1 y = Clip(a, h)") == [{"x": "a"}]
    assert matches(op.Concat(x), "y = Concat<axis = 0>(a, b)") == []


def test_constants_and_numbers():
    assert matches(x + c, "float32[4] w = {1, 2, 3, 4} y = Add(w, a)") == [{"x": "a", "c": "w"}]
    assert matches(x + c, "y = Add(a, b)") == []
    assert matches(2.0 / x, "float32 two = 2 y = Div(two, a)") == [{"x": "a"}]
    assert matches(x**2.0, "int64 two = 2 y = Pow(a, two)") == [{"x": "a"}]
    assert matches(x**2.0, "float32 two = 2.0001 y = Pow(a, two)") == []
    assert matches(x * 0.7071, "float32 root = 0.70710677 y = Mul(a, root)") == [{"x": "a"}]
    assert matches(x * 0.7071, "float32[1] root = {0.70710677} y = Mul(a, root)") == []


def test_one_pattern_or_another():
    pattern = op.Relu(op.Neg(x) | op.Exp(y) | z)
    assert matches(pattern, "h = Neg(a) y = Relu(h)") == [{"x": "a"}, {"z": "h"}]
    assert matches(pattern, "h = Exp(a) y = Relu(h)") == [{"y": "a"}, {"z": "h"}]
    assert matches(op.Relu(op.Neg(x) | op.Exp(x)), "y = Relu(a)") == []

    @rule(pattern)
    def either(x, y, z):
        """Relu(x) -> x"""
        return x or y or z

    node = graph_of(INPUTS, "h = Exp(a) y = Relu(h)").nodes[-1]
    (found,) = either.apply(node, makers(node), {}, None)
    assert found.name == "a"


def test_patterns_tell_early_what_they_cannot_match():
    graph = graph_of(INPUTS, "float32 o = 1 h = Neg(a) y = Add(h, o)")
    assert makers(graph.nodes[-1]) == {"Neg", ""}
    assert (op.Neg(x) + 1.0).makers == {"Neg", ""}
    assert (op.Neg(x) + c.optional).makers == {"Neg"}
    assert (op.Neg(x) | op.Exp(x)).may_match(graph.nodes[0].outputs[0])
    assert not (op.Exp(x) | op.Abs(x)).may_match(graph.nodes[0].outputs[0])


def test_attributes_and_their_defaults():
    assert matches(op.Elu(x, alpha=0.5), "y = Elu<alpha = 0.5>(a)") == [{"x": "a"}]
    assert matches(op.Elu(x, alpha=1.0), "y = Elu(a)") == [{"x": "a"}]
    assert matches(op.Elu(x, alpha=lambda alpha: alpha > 1), "y = Elu(a)") == []
    assert matches(op.Transpose(x, perm=[0]), "y = Transpose<perm = [0]>(a)") == [{"x": "a"}]
    assert matches(op.Transpose(x, perm=[0]), "y = Transpose(a)") == []


def test_outputs_nodes_and_single_uses():
    split = "p, q = Split<num_outputs = 2>(a) y = Neg(q)"
    assert matches(op.Neg(op.Split(x)[1]), split) == [{"x": "a"}]
    assert matches(op.Neg(op.Split(x)), split) == []
    assert matches(op.Neg(op.Exp(x).named("node")), "[n] e = Exp(a) y = Neg(e)") == [{"node": "n", "x": "a"}]
    assert matches(op.Neg(op.Exp(x).once), "e = Exp(a) y = Neg(e)") == [{"x": "a"}]
    assert matches(op.Add(op.Exp(x).once, y), "e = Exp(a) y = Add(e, e)") == []


def test_domains_differ():
    assert matches(op.Gelu(x), "y = com.microsoft.Gelu(a)") == []


def test_a_rule_takes_what_its_patterns_bind():
    with pytest.raises(TypeError, match=r"rule swap: the pattern binds \['x', 'y'\], the function takes \['x', 'z'\]"):

        @rule(x + y)
        def swap(x, z):
            """x + y -> y + x"""

    with pytest.raises(TypeError, match="rule same: the pattern binds"):

        @rule(x + x, x + y)
        def same(x):
            """x + x -> 2 * x"""


def test_a_rule_says_what_it_does():
    with pytest.raises(TypeError, match="rule silent: the first line of its docstring is no 'before -> after'"):

        @rule(op.Neg(x))
        def silent(x):
            """Negation."""


def test_values_make_nodes():
    a, b = graph_of(INPUTS, "y = Neg(a)").inputs
    made = op.Clip(a, None, b, None, note=2).producer
    assert made is not None
    assert (made.op_type, made.inputs, made.attribute("note")) == ("Clip", [a, None, b], 2)
