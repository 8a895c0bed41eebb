"""Long lists of strings that repeat a few words are read in one go, and come out as any others do."""

import numpy as np
import pytest
from onnx import helper

from sardonyx.errors import InvalidProtobuf
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.wire import LONG

TAG = b"\x4a"  # AttributeProto.strings


def model(words):
    node = helper.make_node("Trees", [], ["y"], domain="test", first=["x"], words=words, last=7)
    graph = helper.make_graph([node], "g", [], [])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("test", 1)]
    return helper.make_model(graph, opset_imports=imports).SerializeToString()


def few(count, words=("BRANCH_LEQ", "LEAF", "", "é")):
    return list(np.random.default_rng(0).choice(words, count))


@pytest.mark.parametrize(
    "words",
    [
        few(3 * LONG + 5),
        [*few(2 * LONG), "BRANCH_GT", *few(2 * LONG)],
        few(3 * LONG, ["LEAF", "x" * 300, "y"]),
        few(3 * LONG, [f"word {k}" for k in range(40)]),
        few(3 * LONG, ["LEAF", "J\x04LEAF", "J\x04LEAFJ", "\x00", "\x01J"]),
        few(150_000),
        [""] * (2 * LONG),
    ],
    ids=["few", "a new one", "long", "many", "one in another", "blocks", "empty"],
)
def test_words(words):
    (node,) = read(model(words)).graph.nodes
    assert list(node.attribute("words")) == words
    assert (node.attribute("first"), node.attribute("last")) == (["x"], 7)


def test_words_cut_off():
    data = model(few(2 * LONG, ["LEAF"]))
    with pytest.raises(InvalidProtobuf):
        read(data[: data.rindex(TAG + b"\x04LEAF") + 4])
