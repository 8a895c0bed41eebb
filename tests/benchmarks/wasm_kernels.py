"""The raw speed of WASM's routines: natively beside NumPy and onnxruntime, in V8 beside onnxruntime-web.

    python -m tests.benchmarks.wasm_kernels [--rounds 9] [--node NODE] [--web FOLDER] [CASE ...]

A case is a primitive and its sizes: matmul_packed:512x512x512 (M, K, N), matmul:12x128x32x128 (batch, M, K, N),
matmul_batched:100x36x64x64 (T, P, K, N). --node names the program that runs them in V8 (24 or later), --web the folder
of the npm package onnxruntime-web. All run in turns, on one thread, whose processor time is measured; figures are
medians.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnx import helper
from threadpoolctl import threadpool_limits

from sardonyx.code.kernel import Routine
from sardonyx_wasm import routines
from sardonyx_wasm.abi import SCRATCH
from sardonyx_wasm.assembler import Memory
from sardonyx_wasm.generator import Generator
from sardonyx_wasm.hosts import host
from sardonyx_wasm.routines.tile import panel_width
from tests.benchmarks.report import table
from tests.benchmarks.turns import medians

CASES = [
    "matmul_packed:512x512x512",
    "matmul_packed:1024x1024x1024",
    "matmul_packed:128x768x3072",
    "matmul_packed:1x768x3072",
    "matmul_packed:4x768x3072",
    "matmul_packed:1x16x10",
    "matmul_packed:3136x64x64",
    "matmul_packed:49x512x2048",
    "matmul:12x128x32x128",
    "matmul:12x197x64x197",
    "matmul:12x128x128x32",
]
FEATURES = frozenset({"simd", "relaxed-simd"})
SCRIPT = Path(__file__).with_suffix(".mjs")


class Case(NamedTuple):
    """A product: shapes of both operands, whether b is constant and packed, the shape of the result."""

    primitive: str
    a: tuple[int, ...]
    b: tuple[int, ...]
    c: tuple[int, ...]

    @property
    def packed(self) -> bool:
        return self.primitive != "matmul"

    @property
    def operations(self) -> int:
        return 2 * math.prod(self.c) * self.a[-1]

    def routine(self, name: str, target: str) -> Routine:
        nr = panel_width(target)
        *outer, depth, columns = self.b
        b = (*outer, -(-columns // nr), depth, nr) if self.packed else self.b
        return Routine(name, self.primitive, ("float32",) * 2, ("float32",), 0, {}, (self.a, b), (self.c,))

    def model(self) -> onnx.ModelProto:
        """MatMul, with b an initializer if it is packed here."""
        values = {"a": self.a} | ({} if self.packed else {"b": self.b})
        inputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, dims) for name, dims in values.items()]
        constant = [onnx.numpy_helper.from_array(random(self.b), "b")] if self.packed else []
        node = helper.make_node("MatMul", ["a", "b"], ["y"])
        output = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, self.c)
        graph = helper.make_graph([node], "product", inputs, [output], constant)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def parsed(text: str) -> Case:
    """The case that a word of the command line names."""
    primitive, _, numbers = text.partition(":")
    *outer, m, k, n = map(int, numbers.split("x"))
    return Case(primitive, (*outer, m, k), (*outer, k, n), (*outer, m, n))


def random(shape: Sequence[int]) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(tuple(shape), np.float32)


def module(cases: Sequence[Case], target: str) -> tuple[Generator, list[Any]]:
    """The module with a function of each case."""
    unit = Generator(FEATURES, target)
    codes = [routines.write(unit, case.routine(f"case_{k}", target)) for k, case in enumerate(cases)]
    for code in codes:
        unit.module.export(code.function)
    return unit, codes


def native(cases: Sequence[Case], rounds: int) -> list[dict[str, float]]:
    """Milliseconds of each case by wasmtime, NumPy and onnxruntime."""
    unit, codes = module(cases, "wasmtime")
    machine = host()
    loaded, rows = machine.load(unit.module), []
    scratch = machine.allocate(SCRATCH, 256)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    for case, code in zip(cases, codes, strict=True):
        routine = case.routine("", "wasmtime")
        shapes = (*routine.inputs, *routine.outputs)
        places = [machine.allocate(4 * math.prod(shape), 256) for shape in shapes]
        for place, shape in zip(places, shapes, strict=True):
            machine.array(place, shape, np.float32)[...] = random(shape)
        session = onnxruntime.InferenceSession(case.model().SerializeToString(), options)
        feeds = {value.name: random(value.shape) for value in session.get_inputs()}
        a, b = feeds["a"], random(case.b)
        sides = {
            "kernel": partial(loaded.function(code.function.name), 0, code.units, scratch, *places),
            "NumPy": partial(np.matmul, a, b),
            "onnxruntime": partial(session.run, None, feeds),
        }
        rows.append(medians(sides, rounds))
        for place in places:
            machine.free(place)
    return rows


def in_v8(cases: Sequence[Case], rounds: int, node: str, web: str | None) -> list[dict[str, float]]:
    """Milliseconds of each case by V8, and by onnxruntime-web if its folder is given."""
    unit, codes = module(cases, "v8")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        jobs, end = [], SCRATCH + 65536
        for number, (case, code) in enumerate(zip(cases, codes, strict=True)):
            routine = case.routine("", "v8")
            places, at = [], SCRATCH + 65536
            for shape in (*routine.inputs, *routine.outputs):
                places.append((at, math.prod(shape)))
                at = -(-(at + 4 * math.prod(shape)) // 256) * 256
            end = max(end, at)
            file = folder / f"{number}.onnx"
            model = case.model()
            file.write_bytes(model.SerializeToString())
            feeds = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in model.graph.input}
            words = [0, code.units, 65536, *(address for address, _ in places)]
            jobs.append(
                {"name": code.function.name, "arguments": words, "operands": places, "model": str(file), "feeds": feeds}
            )
        binary = folder / "module.wasm"
        binary.write_bytes(unit.module.to_bytes(Memory(-(-end // 65536), import_from=None)))
        description = folder / "jobs.json"
        description.write_text(json.dumps({"module": str(binary), "rounds": rounds, "cases": jobs}))
        command = [node, str(SCRIPT), str(description), *([web] if web else [])]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip()}")
        rows: list[dict[str, float]] = json.loads(done.stdout)
    return rows


def report(cases: Sequence[str], rows: Sequence[dict[str, float]], known: Sequence[Case]) -> list[str]:
    """Speed of the kernel, and its time as a part of the others'."""
    others = [side for side in rows[0] if side != "kernel"]
    lines = []
    for text, case, row in zip(cases, known, rows, strict=True):
        mine = row["kernel"]
        speed = case.operations / mine / 1e6
        read = 4 * math.prod(case.b) / mine / 1e6
        lines.append(
            [text, f"{mine:.4f}", f"{speed:.1f}", f"{read:.1f}", *(f"{mine / row[side]:.2f}" for side in others)]
        )
    return table(["case", "ms", "GFLOP/s", "b, GB/s", *(f"of {side}" for side in others)], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=CASES, metavar="CASE")
    parser.add_argument("--rounds", type=int, default=9, help="measurements of each (default %(default)s)")
    parser.add_argument("--node", help="run in V8 instead, by this program")
    parser.add_argument("--web", help="folder of the package onnxruntime-web")
    arguments = parser.parse_args()
    known = [parsed(text) for text in arguments.cases]
    if arguments.node:
        rows = in_v8(known, arguments.rounds, arguments.node, arguments.web)
    else:
        with threadpool_limits(1):
            rows = native(known, arguments.rounds)
    print("\n".join(report(arguments.cases, rows, known)))


if __name__ == "__main__":
    main()
