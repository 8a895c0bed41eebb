"""The raw speed of products of integers by shape: WASM's routines, natively and in Chromium, beside BLAS.

    python -m tests.benchmarks.integer_products [--rounds 9] [--chromium] [--plain] [--write] [ROWSxKxN ...]

`bytes` is `matmul_quads`, the relaxed dot product of bytes; `int8` and `int16` are `matmul_int8`, products of 16 bits
with weights stored in 8 bits, or in 16; `float32` is `matmul_packed`. They are called in a loop of the module, without
a session. NumPy multiplies float32, as it is and as the provider asks it to, in panels; onnxruntime runs MatMulInteger
of uint8 by int8, whose result is not looked at: without VNNI it adds two products in 16 bits, which may not hold them.
All run in turns on one thread each, whose processor time is measured; Chromium has only a clock. Of three short
measurements in a row the fastest counts, and figures are medians of rounds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from threadpoolctl import threadpool_limits

from sardonyx_wasm.abi import SCRATCH
from sardonyx_wasm.assembler import Memory
from sardonyx_wasm.device import blas, calls
from sardonyx_wasm.hosts import host
from tests.benchmarks.integer_kernels import (
    PLAIN,
    RELAXED,
    Case,
    in_panels,
    kernels,
    operands,
    routine,
    to_model,
    written,
)
from tests.benchmarks.report import machine, publish, table
from tests.benchmarks.table import number
from tests.benchmarks.turns import medians
from tests.support.browser import Chromium, open_chromium

ROWS = (1, 2, 8, 64)
SIZES = ((64, 64), (256, 1024), (512, 512), (512, 2048), (2048, 512), (4096, 512))
CASES = [Case(rows, *size) for size, rows in product(SIZES, ROWS)]
BLAS, PANELS, THEIRS = "NumPy", "NumPy, panels", "onnxruntime"
SECONDS, TRIES = 0.004, 3
"""Of one measurement, and how many there are in a round."""
LIMIT = 120
PAGE = 65536

Row = dict[str, float]


def natively(case: Case, rounds: int, features: frozenset[str] = RELAXED) -> Row:
    """Milliseconds of each kernel by wasmtime, of NumPy and of onnxruntime."""
    memory, made = host(), kernels(case, "wasmtime")
    unit, repeats = written(case, made, "wasmtime", features)
    loaded = memory.load(unit.module)
    scratch, places = memory.allocate(SCRATCH, 256), []
    sides: dict[str, Callable[[], Any]] = {}

    def place(array: np.ndarray[Any, Any]) -> int:
        places.append(memory.allocate(array.nbytes + 4, 256))
        memory.array(places[-1], array.shape, array.dtype)[...] = array
        return places[-1]

    results = {name: (place(kernel.result), kernel.result) for name, kernel in made.items()}
    for name, kernel in made.items():
        sides[name] = partial(loaded.function(name), scratch, *map(place, kernel.operands), results[name][0])
    x, w = operands(case)
    sides[BLAS] = partial(np.matmul, x, w)
    b, primitive, attributes = w, "matmul", {}
    if case.work >= blas.FEWEST and (width := blas.panel_width(case.depth, case.columns, case.rows)):
        b, primitive, attributes = in_panels(w, width), "matmul_panels", {"n": case.columns, "nr": width}
    result = np.zeros((case.rows, case.columns), np.float32)
    results[PANELS] = place(result), result
    hosted = routine(PANELS, primitive, [x, b], result, attributes)
    whole = blas.product(hosted, [place(x), place(b), results[PANELS][0]], ())
    sides[PANELS] = partial(calls.Call(whole, partial(_floats, memory.memory_view())).do, 0, 0)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(to_model(case).SerializeToString(), options)
    sides[THEIRS] = partial(session.run, None, {"x": case.x})
    times = medians(sides, rounds, SECONDS, TRIES)
    for name, (address, like) in results.items():
        check(case, name, memory.array(address, like.shape, like.dtype))
    for address in (scratch, *places):
        memory.free(address)
    return {name: time / (repeats if name in made else 1) for name, time in times.items()}


def _floats(memory: memoryview, address: int, shape: Sequence[int], strides: Sequence[int]) -> np.ndarray[Any, Any]:
    return np.ndarray(shape, np.float32, memory, address, strides)


def in_chromium(chromium: Chromium, case: Case, rounds: int, features: frozenset[str] = RELAXED) -> Row:
    """Milliseconds of each kernel by V8."""
    made = kernels(case, "v8")
    unit, repeats = written(case, made, "v8", features)
    end, arguments, image, results = SCRATCH + PAGE, {}, {}, []
    for name, kernel in made.items():
        places = []
        for array in (*kernel.operands, kernel.result):
            places.append(end)
            image[end] = array
            end += -(-(array.nbytes + 4) // 256) * 256
        arguments[name] = [PAGE, *places]
        results.append([name, places[-1], kernel.result.nbytes])
    contents = np.zeros(end, np.uint8)
    for address, array in image.items():
        contents[address : address + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    module = unit.module.to_bytes(Memory(-(-end // PAGE), import_from=None))
    chromium.site.data.update(module=module, memory=contents.tobytes())
    message = {"sides": arguments, "results": results, "rounds": rounds, "seconds": SECONDS, "tries": TRIES}
    times: Row = chromium.call("/benchmarks/integer_products.mjs", message, LIMIT)
    for name, kernel in made.items():
        found = np.frombuffer(chromium.site.posted[name], kernel.result.dtype)
        check(case, name, found.reshape(kernel.result.shape))
    return {name: time / repeats for name, time in times.items()}


def check(case: Case, name: str, found: np.ndarray[Any, Any]) -> None:
    assert np.array_equal(found, case.product), f"{name} is wrong for {case}"


def rendered(rows: Mapping[Case, Mapping[str, Row]]) -> list[str]:
    """Return the table of giga multiply-adds per second: a line for each shape."""
    columns = [(place, side) for place, row in next(iter(rows.values())).items() for side in row]
    head = [side if side in (BLAS, PANELS, THEIRS) else f"{place}: {side}" for place, side in columns]
    lines = [
        [f"{case}", *(number(case.work / row[place][side] / 1e6) for place, side in columns)]
        for case, row in rows.items()
    ]
    return table(["rows x K x N", *head], lines)


def measured(
    cases: Sequence[Case], rounds: int, chromium: Chromium | None, features: frozenset[str] = RELAXED
) -> dict[Case, dict[str, Row]]:
    found: dict[Case, dict[str, Row]] = {}
    for case in cases:
        with threadpool_limits(1):
            found[case] = {"wasmtime": natively(case, rounds, features)}
        if chromium:
            found[case]["V8"] = in_chromium(chromium, case, rounds, features)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", type=Case.parsed, default=CASES, metavar="ROWSxKxN")
    parser.add_argument("--rounds", type=int, default=9, help="measurements of each (default %(default)s)")
    parser.add_argument("--chromium", action="store_true", help="measure the kernels in Chromium as well")
    parser.add_argument("--plain", action="store_true", help="without relaxed SIMD, which not every host has")
    parser.add_argument("--write", action="store_true", help="write the table into README.md")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folders = {"benchmarks": Path(__file__).parent}
        chromium = stack.enter_context(open_chromium(folders)) if arguments.chromium else None
        features = PLAIN if arguments.plain else RELAXED
        rows = measured(arguments.cases, arguments.rounds, chromium, features)
        versions = f"; Chromium {chromium.version}" if chromium else ""
    publish("integer-products", [*rendered(rows), "", f"{machine()}{versions}."], arguments.write)


if __name__ == "__main__":
    main()
