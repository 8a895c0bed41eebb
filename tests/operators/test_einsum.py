"""Einsum against numpy.einsum in float64."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.support import eager

SIZES = {"a": 2, "b": 3, "c": 4, "d": 5, "i": 2, "j": 3, "k": 4, "n": 1}

EQUATIONS = [
    "ij,jk->ki",
    "ijk,ikj->i",
    "bij,bkj->bik",
    "iij->ji",
    "ijij->ij",
    "iji->j",
    "iji",
    "ijk,kd,db->ijb",
    "ij,ij,ij->j",
    "ij,kd->kidj",
    "ab,cd,ac->bd",
    "abc,abc->",
    "abc,dca->db",
    "nbc,ac->anb",
    "nij,bjk->bik",
    "ij->",
    ",ab->ba",
    "bihd,bjhd->bhij",
]


def run(equation: str, *arrays: np.ndarray) -> np.ndarray:
    feeds = {f"x{number}": array for number, array in enumerate(arrays)}
    node = helper.make_node("Einsum", list(feeds), ["y"], equation=equation)
    inputs = [
        helper.make_tensor_value_info(name, onnx.TensorProto.DOUBLE, array.shape) for name, array in feeds.items()
    ]
    graph = helper.make_graph([node], "einsum", inputs, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=8)
    return eager.evaluate(model, feeds)[0]


def operands(equation: str) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    names = equation.split("->")[0].split(",")
    return [rng.normal(size=[SIZES.get(label, 6) for label in name]) for name in names]


@pytest.mark.parametrize("equation", EQUATIONS)
def test_equation(equation: str) -> None:
    arrays = operands(equation)
    np.testing.assert_allclose(run(equation, *arrays), np.einsum(equation, *arrays), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]),
        ("...ij,jk", [(2, 3, 4), (4, 2)]),
        ("i...,i...->...", [(3, 2, 4), (3, 4)]),
        ("...ii->...", [(2, 3, 3)]),
        ("a...b->b...", [(2, 3, 4, 5)]),
        ("...,...->...", [(2, 1), (3,)]),
        ("ij,jk->ik", [(1, 1), (3, 2)]),
    ],
)
def test_ellipsis_and_stretched_axes(equation: str, shapes: list[tuple[int, ...]]) -> None:
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=shape) for shape in shapes]
    np.testing.assert_allclose(run(equation, *arrays), np.einsum(equation, *arrays), rtol=1e-12)


@pytest.mark.parametrize(
    ("equation", "message"), [("ij->k", "'k' in its result"), ("ij,jk->ik", "names 2 operands"), ("i->i", "label")]
)
def test_errors(equation: str, message: str) -> None:
    with pytest.raises(Exception, match=message):
        run(equation, np.zeros((2, 3)))
