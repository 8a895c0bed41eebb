"""Sorting nodes."""

import random

import pytest

from sardonyx.errors import InvalidGraph
from sardonyx.model.ir import Graph, Node, Value
from sardonyx.model.ir.order import is_sorted, sort, uses
from sardonyx.model.ir.text import parse_graph

TEXT = """(bool c, float32[2] x) => (y) {
    a = Neg(x)
    y = If(c) <then_branch = t () => (p) { b = Exp(a) p = Abs(b) }, else_branch = e () => (a) { }>
}"""


def test_a_sorted_graph_stays_as_it_is():
    graph = parse_graph("(x) => (y) { d = Neg(x) b = Neg(x) c = Neg(b) y = Add(c, d) }")
    before = graph.nodes[:]
    assert is_sorted(graph)
    sort(graph)
    assert graph.nodes == before


@pytest.mark.parametrize("seed", range(5))
def test_any_order_is_mended(seed):
    rng = random.Random(seed)
    values = [Value("x")]
    nodes = []
    for index in range(200):
        nodes.append(Node("Op", rng.choices(values, k=2), [Value(f"v{index}")]))
        values += nodes[-1].outputs
    graph = Graph(values[:1], values[-1:], rng.sample(nodes, len(nodes)))
    assert not is_sorted(graph)
    sort(graph)
    assert is_sorted(graph)
    assert set(map(id, graph.nodes)) == set(map(id, nodes))


def test_what_a_subgraph_uses_counts_for_its_node():
    graph = parse_graph(TEXT)
    assert [value.name for value in uses(graph.nodes[1])] == ["c", "p", "a", "b", "a"]
    graph.nodes.reverse()
    next(graph.nodes[0].subgraphs()).nodes.reverse()
    assert not is_sorted(graph)
    sort(graph)
    assert [node.op_type for node in graph.nodes] == ["Neg", "If"]
    assert [node.op_type for node in next(graph.nodes[1].subgraphs()).nodes] == ["Exp", "Abs"]


def test_what_a_subgraph_gives_back_counts_too():
    graph = parse_graph("(bool c, x) => (y) { a = Neg(x) y = If(c) <then_branch = t () => (a) { }> }")
    graph.nodes.reverse()
    assert not is_sorted(graph)
    sort(graph)
    assert is_sorted(graph)


def test_a_cycle_is_named():
    graph = parse_graph("(x) => (y) { [one] a = Add(x, x) [two] b = Neg(a) [three] y = Exp(b) }")
    graph.nodes[0].inputs[1] = graph.nodes[1].outputs[0]
    with pytest.raises(InvalidGraph, match="nodes wait for each other: Add 'one' needs Neg 'two' needs Add 'one'"):
        sort(graph)


def test_a_long_chain_backwards():
    nodes, last = [], Value("x")
    for index in range(20_000):
        nodes.append(Node("Neg", [last], [Value(f"v{index}")]))
        last = nodes[-1].outputs[0]
    graph = Graph([], [last], nodes[::-1])
    sort(graph)
    assert graph.nodes == nodes
