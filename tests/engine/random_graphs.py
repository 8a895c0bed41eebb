"""Graphs of random operators, whose results meet in every way: what fusion has to get right.

Sizes are few and small, so that shapes agree often, and an Array meets its own transpositions and parts. No operator
jumps, as ArgMax does where two elements are nearly equal, and sines are of small numbers, of which rounding changes
little; so results of two libraries differ by rounding alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import helper, numpy_helper

Shape: TypeAlias = tuple[int, ...]

LARGEST = 3000
"""Elements of an Array."""
_SIDES = (3, 4, 6)
_UNARY = ("Neg", "Abs", "Tanh", "Sigmoid", "Relu", "Sin", "Erf", "HardSwish", "Gelu")
_BINARY = ("Add", "Sub", "Mul", "Max", "Min")
_SMALL = frozenset({"Erf", "Sigmoid", "Sin", "Softmax", "Tanh"})
"""Operators whose results are 1 at most,"""
_KEPT = frozenset(
    [
        "Abs",
        "Concat",
        "Expand",
        "Gather",
        "Max",
        "Min",
        "Neg",
        "Pad",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "Relu",
        "Reshape",
        "Slice",
        "Split",
        "Transpose",
    ]
)
"""and those whose results are no larger than what they are made of."""
_FOLDS = ("ReduceSum", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSumSquare")


class Graph:
    """A model and its inputs, of a seed; some sizes of every third one are open."""

    def __init__(self, seed: int, steps: int) -> None:
        self._random, self._numbers = random.Random(seed), np.random.default_rng(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._shapes: dict[str, Shape] = {}
        self._small: set[str] = set()
        self.feeds: dict[str, np.ndarray] = {}
        side = self._random.choice(_SIDES)
        for number in range(self._random.randint(1, 3)):
            shape = tuple(self._random.choice((side, side, side, 1, 2)) for _ in range(self._random.randint(2, 4)))
            self.feeds[f"x{number}"] = self._floats(shape)
            self._shapes[f"x{number}"] = shape
            self._small.add(f"x{number}")
        while len(self._nodes) < steps:
            x = self._chosen(lambda shape: True)
            step = self._random.choice(_STEPS)
            if x is not None and self._shapes[x]:
                step(self, x, self._shapes[x])
        self.model = self._made(is_open=seed % 3 == 0)

    def _made(self, is_open: bool) -> bytes:
        made = [name for name in self._shapes if name not in self.feeds]
        read = {name for node in self._nodes for name in node.input}
        outputs = [name for name in made if name not in read][-4:]
        outputs += {*self._random.sample(made, 2)}.difference(outputs)
        inputs = []
        for name, array in self.feeds.items():
            shape = [f"{name}_{k}" if is_open and self._random.random() < 0.6 else n for k, n in enumerate(array.shape)]
            inputs.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape))
        wanted = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self._nodes, "random", inputs, wanted, self._constants)
        opsets = [helper.make_opsetid("", 22)]
        return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString())

    def _floats(self, shape: Sequence[int]) -> np.ndarray:
        return self._numbers.normal(size=shape).astype(np.float32)

    def _constant(self, value: Any, dtype: Any = np.int64) -> str:
        name = f"c{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def _chosen(self, suits: Callable[[Shape], bool]) -> str | None:
        """An Array of such a shape, rather one of those that were made last."""
        found = [name for name, shape in self._shapes.items() if suits(shape)]
        return found[-1 - min(int(self._random.expovariate(0.45)), len(found) - 1)] if found else None

    def _add(self, operator: str, inputs: Sequence[str], *shapes: Sequence[int], **attributes: Any) -> list[str]:
        if max(map(prod, shapes)) > LARGEST:
            return []
        names = [f"v{len(self._shapes) + k}" for k in range(len(shapes))]
        self._nodes.append(helper.make_node(operator, inputs, names, names[0], **attributes))
        is_kept = operator in _KEPT and self._small.issuperset(name for name in inputs if name in self._shapes)
        if is_kept or operator in _SMALL:
            self._small.update(names)
        self._shapes.update(zip(names, map(tuple, shapes), strict=True))
        return names

    # ---- steps: each adds a node or two to what is there, or nothing where it does not suit

    def unary(self, x: str, shape: Shape) -> None:
        operator = self._random.choice(_UNARY)
        self._add(operator if operator != "Sin" or x in self._small else "Tanh", [x], shape)

    def binary(self, x: str, shape: Shape) -> None:
        same = self._random.random() < 0.75
        y = self._chosen(lambda other: other == shape if same else _together(shape, other) is not None)
        if y is not None and (made := _together(shape, self._shapes[y])) is not None:
            pair = self._random.sample([x, y], 2)
            self._add(self._random.choice(_BINARY), pair, made)

    def transpose(self, x: str, shape: Shape) -> None:
        perm = self._random.sample(range(len(shape)), len(shape))
        self._add("Transpose", [x], [shape[axis] for axis in perm], perm=perm)

    def reshape(self, x: str, shape: Shape) -> None:
        left, made = prod(shape), []
        for _ in range(self._random.randint(0, 3)):
            made.append(self._random.choice([n for n in range(1, left + 1) if left % n == 0]))
            left //= made[-1]
        self._add("Reshape", [x, self._constant([*made, left])], [*made, left])

    def concat(self, x: str, shape: Shape) -> None:
        axis = self._random.randrange(len(shape))
        rest = _without(shape, axis)
        others = [self._chosen(lambda other: len(other) == len(shape) and _without(other, axis) == rest) for _ in "ab"]
        parts = self._random.sample([x, *(other or x for other in others)], self._random.randint(2, 3))
        self._add("Concat", parts, _with(shape, axis, sum(self._shapes[part][axis] for part in parts)), axis=axis)

    def slice(self, x: str, shape: Shape) -> None:
        axis = self._random.randrange(len(shape))
        begin, step = self._random.randrange(shape[axis]), self._random.choice((1, 1, 2, -1, -2))
        end = shape[axis] if step > 0 else -shape[axis] - 1
        count = len(range(begin, shape[axis], step) if step > 0 else range(begin, -1, step))
        self._add("Slice", [x, *(self._constant([n]) for n in (begin, end, axis, step))], _with(shape, axis, count))

    def split(self, x: str, shape: Shape) -> None:
        axis = self._random.randrange(len(shape))
        if (size := shape[axis]) > 1:
            first = self._random.randint(1, size - 1)
            parts = [_with(shape, axis, n) for n in (first, size - first)]
            self._add("Split", [x, self._constant([first, size - first])], *parts, axis=axis)

    def pad(self, x: str, shape: Shape) -> None:
        axis, before, behind = self._random.randrange(len(shape)), *(self._random.randint(0, 2) for _ in "ab")
        sides = [0] * (2 * len(shape))
        sides[axis], sides[axis + len(shape)] = before, behind
        mode = self._random.choice(("constant", "edge"))
        self._add("Pad", [x, self._constant(sides)], _with(shape, axis, shape[axis] + before + behind), mode=mode)

    def fold(self, x: str, shape: Shape) -> None:
        axes, keeps = self._random.sample(range(len(shape)), self._random.randint(1, len(shape))), self._random.random()
        made = [1 if axis in axes else n for axis, n in enumerate(shape) if keeps < 0.5 or axis not in axes]
        self._add(self._random.choice(_FOLDS), [x, self._constant(axes)], made, keepdims=int(keeps < 0.5))

    def product(self, x: str, shape: Shape) -> None:
        y = self._chosen(lambda other: len(other) > 1 < len(shape) and other[-2] == shape[-1])
        if y is not None and (batch := _together(shape[:-2], self._shapes[y][:-2])) is not None:
            self._add("MatMul", [x, y], [*batch, shape[-2], self._shapes[y][-1]])

    def softmax(self, x: str, shape: Shape) -> None:
        self._add("Softmax", [x], shape, axis=self._random.randrange(len(shape)))

    def normalize(self, x: str, shape: Shape) -> None:
        self._add("LayerNormalization", [x, self._constant(self._floats(shape[-1:]), np.float32)], shape, epsilon=0.1)

    def gather(self, x: str, shape: Shape) -> None:
        axis, places = self._random.randrange(len(shape)), self._random.choice(((), (2,), (2, 2)))
        chosen = self._constant(self._numbers.integers(-shape[axis], shape[axis], places))
        self._add("Gather", [x, chosen], [*shape[:axis], *places, *shape[axis + 1 :]], axis=axis)

    def expand(self, x: str, shape: Shape) -> None:
        made = [2, *(self._random.choice((1, 3)) if n == 1 else n for n in shape)][self._random.randint(0, 1) :]
        self._add("Expand", [x, self._constant(made)], made)

    def cumulate(self, x: str, shape: Shape) -> None:
        axis, reverse, exclusive = self._random.randrange(len(shape)), *(self._random.randint(0, 1) for _ in "ab")
        self._add("CumSum", [x, self._constant(axis)], shape, reverse=reverse, exclusive=exclusive)

    def convolve(self, x: str, shape: Shape) -> None:
        y = self._chosen(lambda other: len(other) in (3, 4))
        if y is None:
            return
        batch, channels, *sizes = self._shapes[y]
        features, kernel = self._random.choice((1, 4, channels)), [self._random.choice((1, 3)) for _ in sizes]
        groups = channels if features == channels and self._random.random() < 0.4 else 1
        w = self._constant(0.4 * self._floats((features, channels // groups, *kernel)), np.float32)
        pads = [n // 2 for n in kernel] * 2
        self._add("Conv", [y, w], [batch, features, *sizes], kernel_shape=kernel, pads=pads, group=groups)

    def meet(self, x: str, shape: Shape) -> None:
        """An Array, or its sums, and what they are in other places."""
        axis, rest = self._random.randrange(len(shape)), shape
        made = [x]
        if len(shape) > 2:
            rest = _without(shape, axis)
            made = self._add("ReduceSum", [x, self._constant([axis])], rest, keepdims=0)
        perm = self._random.sample(range(len(rest)), len(rest))
        if [rest[axis] for axis in perm] == [*rest]:
            for one in made:
                for other in self._add("Transpose", [one], rest, perm=perm):
                    self._add(self._random.choice(_BINARY), [one, other], rest)

    def swish(self, x: str, shape: Shape) -> None:
        for gate in self._add("Sigmoid", [x], shape):
            self._add("Mul", [x, gate], shape)


_STEPS: Sequence[Callable[[Graph, str, Shape], None]] = (
    *(Graph.unary, Graph.binary, Graph.transpose, Graph.meet) * 3,
    *(Graph.reshape, Graph.concat, Graph.slice, Graph.split, Graph.pad, Graph.fold, Graph.fold, Graph.product),
    *(Graph.softmax, Graph.normalize, Graph.gather, Graph.expand, Graph.cumulate, Graph.convolve, Graph.swish),
)


def _together(x: Shape, y: Shape) -> Shape | None:
    """The shape of two Arrays that are broadcast, or None."""
    try:
        return np.broadcast_shapes(x, y)
    except ValueError:
        return None


def _with(shape: Shape, axis: int, size: int) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _without(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], *shape[axis + 1 :])
