"""The kernels that `integer_products` measures, their operands, and the same product as a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

from sardonyx.code.kernel import Routine
from sardonyx.primitives.binding import constant
from sardonyx.primitives.evaluation import evaluate
from sardonyx_wasm import routines
from sardonyx_wasm.assembler import i32
from sardonyx_wasm.generator import Generator
from sardonyx_wasm.legalization.products import in_pairs
from sardonyx_wasm.legalization.quads import in_quads
from sardonyx_wasm.routines.tile import panel_width

Array = np.ndarray[Any, Any]

ZERO = 131
"""The zero point of what is multiplied."""
SPREAD = 22
"""The standard deviation of weights."""
WORK = 1 << 20
"""Multiply-adds that a call does at least, so that the call itself does not count."""
PLAIN, RELAXED = frozenset({"simd"}), frozenset({"simd", "relaxed-simd"})


class Case:
    """Rows of bytes less their zero point, times a matrix of weights."""

    def __init__(self, rows: int, depth: int, columns: int) -> None:
        self.rows, self.depth, self.columns = rows, depth, columns
        self.work = rows * depth * columns
        rng = np.random.default_rng(0)
        self.x = rng.integers(0, 256, (rows, depth)).astype(np.uint8)
        drawn = np.rint(rng.normal(0, SPREAD, (depth, columns)))
        self.w = np.clip(drawn, -128, 127).astype(np.int8)

    @classmethod
    def parsed(cls, text: str) -> Case:
        """The case that a word of the command line names."""
        return cls(*map(int, text.split("x")))

    def __str__(self) -> str:
        return f"{self.rows} x {self.depth} x {self.columns}"

    @cached_property
    def product(self) -> Array:
        return (self.x.astype(np.int64) - ZERO) @ self.w.astype(np.int64)


class Kernel(NamedTuple):
    """A routine, what it reads, and zeros as what it writes."""

    routine: Routine
    operands: list[Array]
    result: Array


def operands(case: Case) -> tuple[Array, Array]:
    """Both sides as floats."""
    return case.x.astype(np.float32) - ZERO, case.w.astype(np.float32)


def in_panels(w: Array, width: int) -> Array:
    """A matrix in panels, as products of floats want it."""
    padded = np.pad(w, [(0, 0), (0, -w.shape[1] % width)])
    return np.ascontiguousarray(padded.reshape(len(w), -1, width).transpose(1, 0, 2))


def routine(
    name: str, primitive: str, reads: Sequence[Array], result: Array, attributes: Mapping[str, Any] | None = None
) -> Routine:
    dtypes, shapes = [array.dtype.name for array in reads], [array.shape for array in reads]
    given = dict(attributes or {})
    return Routine(name, primitive, tuple(dtypes), (result.dtype.name,), 0, given, tuple(shapes), (result.shape,))


def kernels(case: Case, target: str) -> dict[str, Kernel]:
    """Each kernel by the name that it has in the table."""
    quads, (x, w) = in_quads(constant(case.w)), operands(case)
    assert quads is not None, "too many large weights"
    pairs = [_numbers(in_pairs(constant(case.w.astype(dtype)))) for dtype in (np.int8, np.int16)]
    quad, wide = (
        np.pad(array, [(0, 0), (0, -case.depth % step)]) for array, step in ((case.x, 4), (x.astype(np.int16), 2))
    )
    panels, sums, starts, elements = map(_numbers, quads)
    reads = {
        "bytes": ("matmul_quads", [quad, panels, sums, np.array(ZERO, np.int32), starts, elements]),
        "int8": ("matmul_int8", [wide, pairs[0]]),
        "int16": ("matmul_int8", [wide, pairs[1]]),
        "float32": ("matmul_packed", [x, in_panels(w, panel_width(target))]),
    }
    made = {}
    for name, (primitive, arrays) in reads.items():
        result = np.zeros((case.rows, case.columns), np.float32 if name == "float32" else np.int32)
        made[name] = Kernel(routine(f"once_{name}", primitive, arrays, result), arrays, result)
    return made


def _numbers(array: Any) -> Array:
    found = evaluate(array)
    assert found is not None
    return found


def written(
    case: Case, made: Mapping[str, Kernel], target: str, features: frozenset[str] = RELAXED
) -> tuple[Generator, int]:
    """A module with a function for each kernel, which multiplies so many times; it takes scratch memory and operands.

    Call the functions by the kernels' names.
    """
    unit, repeats = Generator(features, target), max(1, WORK // case.work)
    for name, kernel in made.items():
        code = routines.write(unit, kernel.routine)
        parameters = ["scratch", *(f"buffer{k}" for k in range(len(kernel.operands) + 1))]
        with unit.module.function(name, dict.fromkeys(parameters, i32), export=True) as f:
            left = f.local(i32, init=repeats)
            with f.while_(left > 0):
                f.call(code.function, 0, code.units, *f.params)
                f.set(left, left - 1)
    return unit, repeats


def to_model(case: Case) -> onnx.ModelProto:
    """MatMulInteger with constant weights."""
    constants = {"w": case.w, "zero": np.array(ZERO, np.uint8)}
    given = helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, case.x.shape)
    output = helper.make_tensor_value_info("y", onnx.TensorProto.INT32, (case.rows, case.columns))
    node = helper.make_node("MatMulInteger", ["x", "w", "zero"], ["y"])
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph([node], "product", [given], [output], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
