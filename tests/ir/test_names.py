"""Names for files: what takes part has one of its own."""

import pytest

from sardonyx.model.ir import Graph, Node, Value
from sardonyx.model.ir.names import new_names


@pytest.mark.parametrize("names", [["x", "x", "x_1"], ["x_1", "x", "x", "x", "x_2"], ["", "value_1", "", "value_2"]])
def test_new_names_are_those_of_nobody_else(names: list[str]) -> None:
    values = [Value(name) for name in names]
    nodes = [Node("Relu", [], [value]) for value in values]
    users = [Node("Relu", [value], [Value(f"y{k}")]) for k, value in enumerate(values)]
    graph = Graph([], [user.outputs[0] for user in users], [*nodes, *users])
    new = new_names(graph)
    found = [new.get(value, value.name) for value in values]
    assert len({*found}) == len(names)
    assert all(found)
    for name in {*names} - {""}:
        assert found[names.index(name)] == name or name in found
