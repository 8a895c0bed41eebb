"""Which provider runs which ONNX node, and the form into which it puts its share of a trace."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx.array import Equation, Trace
from sardonyx.compiler.halts import STEPS
from sardonyx.compiler.rewriting import expand_composites
from sardonyx.device import Provider
from sardonyx.errors import NotImplemented
from sardonyx.providers import NUMPY
from sardonyx.symbolic import count


def supports(provider: Provider, equation: Equation) -> bool:
    """Whether a provider can do what an equation says; functions of the host are NumPy's."""
    name = equation.primitive.name
    if name in STEPS:
        return name != "host" or provider.name == NUMPY
    inputs, outputs = ([array.dtype.lowered for array in arrays] for arrays in (equation.inputs, equation.outputs))
    return provider.supports(name, inputs, outputs, equation.params) and not _is_giant(provider, equation)


def _is_giant(provider: Provider, equation: Equation) -> bool:
    """Whether an operand or a result is larger than what a provider can hold in one tensor."""
    largest = getattr(provider, "largest", None)
    most = largest and largest()
    return most is not None and any(
        count(array.shape) * array.dtype.itemsize > most for array in (*equation.inputs, *equation.outputs)
    )


def rewritten(trace: Trace, providers: Sequence[Provider]) -> dict[int, int]:
    """The provider of every equation, after each provider has put its share of them into the form that it likes."""
    largest = getattr(providers[0], "largest", None)
    if largest and (most := largest()):
        from sardonyx.legalization.giants import split

        split(trace, most)
    chosen = partition(trace, providers)
    expand_composites(trace, lambda equation: equation.primitive.name in providers[chosen[equation.origin]].routines)
    for number, provider in enumerate(providers):
        rewrite = getattr(provider, "rewrite", None)
        if rewrite is not None and number in chosen.values():
            rewrite(trace, {origin for origin, device in chosen.items() if device == number})
    return {id(equation): chosen[equation.origin] for equation in trace.equations}


def partition(trace: Trace, providers: Sequence[Provider]) -> dict[int, int]:
    """The provider of every ONNX node, by its number: the first one that can do all of its equations."""
    able: dict[int, list[bool]] = {}
    for equation in trace.equations:
        row = able.setdefault(equation.origin, [True] * len(providers))
        for k, provider in enumerate(providers):
            row[k] = row[k] and supports(provider, equation)
    chosen = {}
    for origin, row in able.items():
        if True not in row:
            label = trace.labels[origin] if origin >= 0 else "the graph"
            names = " or ".join(provider.name for provider in providers)
            types = {x.dtype.name for e in trace.equations if e.origin == origin for x in (*e.inputs, *e.outputs)}
            raise NotImplemented(f"{label} cannot run on {names} with types {', '.join(sorted(types))}")
        chosen[origin] = row.index(True)
    return chosen
