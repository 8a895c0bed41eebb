"""How much faster several threads could be at most, by how launches are divided: counted, not measured.

    python -m tests.benchmarks.ceilings [--write] [--models ID,...] [--threads 4,8,16] [--launches 3]

A launch takes as long as the thread that has most of it, and what it costs threads to wait for each other. Costs are
those by which the compiler fuses: additions of kernels, multiplications of products, bytes of what is copied, in cycles
of one core. No processor is so simple. What a table of such ceilings shows is work that nobody shares: the ceiling of a
model is low where launches have fewer parts than there are threads, or uneven ones. Behind it stand the launches that
take most from it, with their own ceilings.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

import sardonyx
from sardonyx.code.cost import cost
from sardonyx.code.kernel import Kernel, Routine
from sardonyx.common import dtypes
from sardonyx.plans import plan as plans
from sardonyx.plans.epochs import code_of
from sardonyx.plans.plan import Plan
from sardonyx.sizes.expression import evaluate
from sardonyx_wasm.abi import CONVOLUTIONS, HOSTED
from sardonyx_wasm.device import blas, calls, shares
from sardonyx_wasm.drivers import hosted
from sardonyx_wasm.generator import Generator
from sardonyx_wasm.hosts import host
from tests.benchmarks.report import publish, table
from tests.models import inputs, path
from tests.support.division import longest, ranges, value

THREADS = (4, 8, 16)
LANES, FUSED, WIDE, COPIED = 4, 4, 16, 16
"""In a cycle: elements of a vector that an addition takes, multiplications of WebAssembly and of BLAS, bytes copied."""
BARRIER = 3000
"""Cycles that it costs to wait for each other: a microsecond."""


class Launched(NamedTuple):
    """A launch: what it costs one thread, and those that share it; parts of its own if it has several stages."""

    name: str
    alone: float
    shared: float

    @property
    def ceiling(self) -> float:
        return self.alone / self.shared if self.shared else 1.0


def launches(plan: Plan, shapes: Mapping[str, Sequence[int]], threads: int) -> list[Launched]:
    """Return what a plan launches for inputs of these shapes, if so many threads share each launch."""
    symbols = {name: shapes[plan.inputs[number].name][axis] for name, ((number, axis), *_) in plan.symbols.items()}
    unit = Generator(host().features, host().target)
    found = []
    for step in plan.steps:
        if isinstance(step, plans.Launch) and plan.devices[step.device] == "WasmExecutionProvider":
            code = code_of(plan.codes[step.code])
            sizes = [int(evaluate(size, symbols)) for size in step.params]
            bytes_ = [_nbytes(plan.buffers[number], symbols) for number in step.buffers]
            found.append(_launched(unit, code, sizes, sum(bytes_), threads))
    return found


def speedup(found: Sequence[Launched]) -> float:
    """Return how much faster the threads are in all of these launches together."""
    return sum(one.alone for one in found) / sum(one.shared for one in found)


def limits(found: Sequence[Launched], threads: int) -> list[tuple[str, float, float]]:
    """Return the launches that limit the threads, by name: the part of their time that is lost, and the ceiling."""
    total = sum(one.shared for one in found)
    names: dict[str, list[Launched]] = {}
    for one in found:
        names.setdefault(one.name, []).append(one)
    lost = [
        (name, sum(one.shared - one.alone / threads for one in some) / total, speedup(some))
        for name, some in names.items()
    ]
    return sorted(lost, key=lambda line: -line[1])


def _nbytes(buffer: plans.Buffer, symbols: Mapping[str, int]) -> int:
    elements = prod(int(evaluate(size, symbols)) for size in buffer.shape)
    return elements * dtypes.by_name(buffer.dtype).storage.itemsize


def _launched(unit: Generator, code: Any, params: Sequence[int], nbytes: int, threads: int) -> Launched:
    if blas.takes(code):
        name, stages = f"{code.primitive} {_shape(code, params)}", list(_product(unit, code, params, threads))
    else:
        made = unit.code(code)
        units = value(made.units, params)
        name = f"{getattr(code, 'primitive', code.name)} {_shape(code, params)}"
        stages = [_divided(_cost(code, params, nbytes), units, value(made.align, params), threads)]
    alone = sum(sum(costs) for costs in stages)
    return Launched(name, alone, sum(longest(costs, threads) + BARRIER for costs in stages))


def _divided(all_: float, units: int, align: int, threads: int) -> list[float]:
    """What ranges of a launch cost."""
    return [all_ * len(some) / max(1, units) for some in ranges(units, align, threads)]


def _product(unit: Generator, code: Routine, params: Sequence[int], threads: int) -> Iterator[list[float]]:
    """What the parts of a product cost, and those of what is done before and after."""
    if HOSTED in code.attributes:
        panels = range(-(-code.outputs[0][-1] // code.attributes[HOSTED]))
        rows = prod(_sizes(code.inputs[0][:-1], params))
        one = rows * code.inputs[0][-1] * code.attributes[HOSTED] / WIDE
        work = int(one * len(panels) * WIDE)
        count = shares.ranges(work, threads) if work >= blas.SHARED else 1
        yield [one * len(shares.part(panels, number, count)) for number in range(count)]
        return
    product = blas.product(code, (0, 0, 0), params)
    parts = hosted.stages(code)
    call = calls.Call(product, _no_array, threads, tuple(CONVOLUTIONS.get(code.primitive, ())))
    layout = call.layout
    unit_cost = (layout.seen + layout.made) / COPIED if layout and not layout.is_common else 0.0
    if layout and layout.is_common:
        made = unit.code(parts["before"])
        yield _divided(layout.left / COPIED, value(made.units, params), value(made.align, params), threads)
    yield [
        one.count * len(units) * one.unit * one.depth * _columns(one, panels) / WIDE + len(units) * unit_cost
        for one, units, panels in call.parts
    ]
    if layout and layout.is_common and "after" in parts:
        made = unit.code(parts["after"])
        yield _divided(layout.right / COPIED, value(made.units, params), value(made.align, params), threads)


def _columns(product: blas.Product, panels: range) -> int:
    return min(panels.stop * product.b.width, product.columns) - panels.start * product.b.width


def _no_array(address: int, shape: Sequence[int], strides: Sequence[int]) -> np.ndarray:
    raise AssertionError("nothing is multiplied here")


def _cost(code: Any, params: Sequence[int], nbytes: int) -> float:
    """What a launch of the module costs, all of it."""
    if isinstance(code, Kernel):
        outer, inner = (prod(_sizes(axes, params)) for axes in (code.space, code.reduce))
        often = [inner if depth == 1 else 1 for depth in code.depths()]
        nodes = sum(cost(node[0]) * times for node, times in zip(code.nodes, often, strict=True))
        return outer * (nodes + len(code.stores) * cost("load")) / LANES
    count = _MULTIPLICATIONS.get(getattr(code, "primitive", ""))
    return count(code, partial(_sizes, params=params)) / FUSED if count else nbytes / COPIED


def _sizes(sizes: Sequence[Any], params: Sequence[int]) -> list[int]:
    return [params[int(size[1:])] if isinstance(size, str) else size for size in sizes]


def _shape(code: Any, params: Sequence[int]) -> str:
    """The sizes of what is launched, as a name has them."""
    if isinstance(code, Kernel):
        return " x ".join(map(str, _sizes((*code.space, *code.reduce), params)))
    if isinstance(code, Routine):
        return " x ".join(map(str, _sizes(code.outputs[0], params)))
    return ""


def _of_matrix(code: Routine, sizes: Callable[[Sequence[Any]], list[int]]) -> int:
    return prod(sizes(code.outputs[0])) * sizes(code.inputs[0])[-1]


def _of_windows(code: Routine, sizes: Callable[[Sequence[Any]], list[int]]) -> int:
    channels = 1 if code.primitive == "depthwise" else sizes(code.inputs[0])[-1]
    taps: int = prod(code.attributes["kernel"])
    groups: int = code.attributes.get("groups", 1)
    return prod(sizes(code.outputs[0])) * taps * channels // groups


_MULTIPLICATIONS: dict[str, Callable[[Routine, Callable[[Sequence[Any]], list[int]]], int]] = {
    **dict.fromkeys(("matmul", "matmul_packed", "matmul_int8", "matmul_quads"), _of_matrix),
    **dict.fromkeys(("depthwise", "conv_packed", "conv_grouped", "conv_winograd"), _of_windows),
}


def planned(id: str) -> tuple[Plan, dict[str, Sequence[int]]]:
    """Return the plan of a model for its inputs, and their shapes."""
    options = sardonyx.SessionOptions()
    options.intra_op_num_threads = 1
    session = sardonyx.InferenceSession(str(path(id)), options, providers=["WasmExecutionProvider"])
    feeds = inputs(id)
    session.run(None, feeds)
    return session.plans[0], {name: value.shape for name, value in feeds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the table into README.md")
    parser.add_argument("--models", type=lambda text: text.split(","), default=CONVOLUTIONAL, metavar="ID,...")
    parser.add_argument("--threads", type=lambda text: [*map(int, text.split(","))], default=THREADS, metavar="N,...")
    parser.add_argument("--launches", type=int, default=3, help="those that limit a model most (default %(default)s)")
    arguments = parser.parse_args()
    rows = []
    for id in arguments.models:
        plan, shapes = planned(id)
        found = {threads: launches(plan, shapes, threads) for threads in arguments.threads}
        first = arguments.threads[0]
        worst = limits(found[first], first)[: arguments.launches]
        told = [f"{name} ({ceiling:.1f}, {100 * lost:.0f} %)" for name, lost, ceiling in worst]
        rows.append([id, *(f"{speedup(some):.1f}" for some in found.values()), "; ".join(told)])
        print(rows[-1], flush=True)
    head = ["model", *map(str, arguments.threads), f"what limits {arguments.threads[0]} threads most"]
    publish("ceilings", table(head, rows), arguments.write)


CONVOLUTIONAL = [
    "light-squeezenet",
    "light-resnet50",
    "light-densenet121",
    "opennsfw-resnet",
    "ppocr4-det",
    "ppocr5-cls",
]
"""Models that convolve, of which four threads should make at least 3.2 of one."""


if __name__ == "__main__":
    main()
