"""Which provider runs which ONNX node, and the form into which it puts its share of a trace."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from typing import TypeAlias

from sardonyx.common import debug, memory
from sardonyx.compiler.halts import STEPS
from sardonyx.compiler.rewriting import expand_composites
from sardonyx.errors import NotImplemented, RuntimeException, SardonyxError
from sardonyx.host import KEY
from sardonyx.primitives.array import Array, Equation
from sardonyx.primitives.trace import TooEarlyError, Trace
from sardonyx.providers.contract import Provider
from sardonyx.providers.registry import NUMPY
from sardonyx.sizes.symbolic import count, product

Place: TypeAlias = tuple[int, int]
"""The numbers of a provider and of an ONNX node."""
SHARE = 4
"""The largest constant that a provider copies is this part of a session's memory limit: what it makes of it, and the
next one, lie beside it."""


def supports(provider: Provider, equation: Equation) -> bool:
    """Whether a provider can do what an equation says; functions of the host are NumPy's, but for what draws a key."""
    name = equation.primitive.name
    if name in STEPS:
        return name != "host" or provider.name == NUMPY or equation.params["function"] == KEY
    inputs, outputs = ([array.dtype.lowered for array in arrays] for arrays in (equation.inputs, equation.outputs))
    return provider.supports(name, inputs, outputs, equation.params) and not (
        is_giant(provider, equation) or is_heavy(provider, equation)
    )


def limited(providers: Sequence[Provider], limit: int) -> list[Provider]:
    """The providers, those but NumPy without constants of which the limit in bytes does not hold several.

    NumPy reads them where they lie in the model's file.
    """
    return [each if each.name == NUMPY else _limited(each, limit // SHARE) for each in providers]


def _limited(provider: Provider, heaviest: int) -> Provider:
    """A copy of a provider that takes no constants of more bytes than `heaviest`."""
    limited = copy(provider)
    limited.heaviest = heaviest
    return limited


def is_heavy(provider: Provider, equation: Equation) -> bool:
    """Whether a constant is one that a provider of a session with a memory limit does not take."""
    most = provider.heaviest
    return most is not None and any(x.value is not None and x.value.nbytes > most for x in equation.inputs)


class ExcludedError(Exception):
    """A plan has to be made anew, these nodes (numbers of provider and node) not being given to their provider."""

    def __init__(self, places: Collection[Place]) -> None:
        super().__init__(f"{len(places)} nodes are for other providers")
        self.places = places


class GiantError(ExcludedError):
    """What a provider makes of nodes has tensors larger than it can hold."""


class RewriteError(ExcludedError):
    """A provider's rewriting of nodes failed. What is left of the trace is of no use."""


def is_giant(provider: Provider, equation: Equation) -> bool:
    """Whether an operand or a result is larger than what a provider can hold; a guard tells so of open sizes."""
    most = provider.largest()
    return most is not None and any(
        count(array.shape) * array.dtype.itemsize > most and product(array.shape) * array.dtype.itemsize > most
        for array in (*equation.inputs, *equation.outputs)
    )


def giants(
    equations: Sequence[Equation],
    device_of: Mapping[Equation, int],
    providers: Sequence[Provider],
    is_written: Callable[[Array], bool],
) -> set[Place]:
    """The nodes of which a provider has made tensors that it cannot hold."""
    limits = [provider.largest() for provider in providers]
    found = set()
    for equation in equations:
        device = device_of[equation]
        most = limits[device]
        if most is None or equation.origin < 0:
            continue
        if any(is_written(x) and count(x.shape) * x.dtype.itemsize > most for x in equation.outputs):
            found.add((device, equation.origin))
    return found


def refuse_giants(equations: Sequence[Equation], labels: Sequence[str]) -> None:
    """Raises RuntimeException where an Array is larger than memory, though it may never have to lie there whole."""
    for equation in equations:
        for array in equation.outputs:
            nbytes = count(array.shape) * array.dtype.itemsize
            negative = any(isinstance(size, int) and size < 0 for size in array.shape)
            if negative or nbytes > memory.available():
                what = labels[equation.origin] if equation.origin >= 0 else equation.primitive.name
                if negative:
                    raise RuntimeException(f"{what} would give {list(array.shape)}")
                memory.refuse(f"{what}: {array}", nbytes)


def rewritten(
    trace: Trace, providers: Sequence[Provider], excluded: Collection[Place] = frozenset()
) -> dict[Equation, int]:
    """The provider of every equation, after each provider has put its share of them into the form that it likes. No
    node that is `excluded` from a provider is its own.

    Raises RewriteError where a provider's rewriting fails, by a fault of its own: other providers do those nodes.
    """
    if most := providers[0].largest():
        from sardonyx.compiler.legalization.giants import split

        split(trace, most)
    chosen = partition(trace, providers, excluded)
    expand_composites(trace, lambda equation: equation.primitive.name in providers[chosen[equation.origin]].routines)
    for number, provider in enumerate(providers):
        if number in chosen.values():
            origins = {origin for origin, device in chosen.items() if device == number}
            try:
                provider.rewrite(trace, origins)
            except (SardonyxError, MemoryError, TooEarlyError):
                raise
            except Exception as error:
                raise _failed(trace, number, provider, origins, error) from error
    return {equation: chosen[equation.origin] for equation in trace.equations}


def _failed(trace: Trace, number: int, provider: Provider, origins: Collection[int], error: Exception) -> RewriteError:
    """What tells that a provider's rewriting failed at the trace's current node, or at none in particular; the user is
    warned of it."""
    at = trace.origin if trace.origin in origins else -1
    where = trace.labels[at] if at >= 0 else "this model"
    what = f"{type(error).__name__}: {error}".partition("\n")[0]
    debug.warn_once(
        f"{provider.name} leaves {where} to the next provider, after an error of its own ({what}); results are right, "
        "but please report this with the model"
    )
    return RewriteError([(number, at)] if at >= 0 else [(number, origin) for origin in origins])


def partition(trace: Trace, providers: Sequence[Provider], excluded: Collection[Place] = frozenset()) -> dict[int, int]:
    """The provider of every ONNX node, by its number: the first one that can do all of its equations."""
    able: dict[int, list[bool]] = {}
    for equation in trace.equations:
        row = able.setdefault(equation.origin, [True] * len(providers))
        for k, provider in enumerate(providers):
            row[k] = row[k] and (k, equation.origin) not in excluded and supports(provider, equation)
    chosen = {}
    for origin, row in able.items():
        if True not in row:
            label = trace.labels[origin] if origin >= 0 else "the graph"
            names = " or ".join(provider.name for provider in providers)
            types = {x.dtype.name for e in trace.equations if e.origin == origin for x in (*e.inputs, *e.outputs)}
            raise NotImplemented(f"{label} cannot run on {names} with types {', '.join(sorted(types))}")
        chosen[origin] = row.index(True)
    return chosen
