"""The way from a graph and the sizes of one call to a plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping, MutableMapping, Sequence
from enum import Enum
from math import prod
from typing import Any

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes, memory
from sardonyx.common.dtypes import DType
from sardonyx.common.record import replace
from sardonyx.compiler.caches import keep_in_place
from sardonyx.compiler.partition import Place
from sardonyx.compiler.schedule import schedule, without_excluded
from sardonyx.errors import SardonyxError
from sardonyx.model.ir import Graph, TensorType, Value, size_name
from sardonyx.model.structure import TENSOR, Cached, Form, fill, is_cached, ports
from sardonyx.ops.interpret import Environment, interpret
from sardonyx.plans.plan import Plan
from sardonyx.plans.weight_table import WeightTable
from sardonyx.primitives.array import Array, Shape
from sardonyx.primitives.trace import TooEarlyError, Trace
from sardonyx.providers.contract import Provider
from sardonyx.runtime.handles import Feed
from sardonyx.sizes.functions import substitute
from sardonyx.sizes.polynomial import Poly
from sardonyx.sizes.symbolic import Guards, Size, SolvedError, size

MOST_ATTEMPTS = 32
"""How many guesses are replaced before a graph is said to make no sense."""


class Force(Enum):
    """What a graph may force of sizes that were made up."""

    NOTHING = 0
    RELATIONS = 1
    NUMBERS = 2


class UnsettledError(Exception):
    """A graph makes no sense, for a `reason`, with the sizes that were made up.

    `solved` is what the last two that differ would tell, or numbers for which they are equal, `progress` how many nodes
    were traced.
    """

    def __init__(self, reason: SardonyxError, solved: SolvedError | dict[str, int], progress: int) -> None:
        super().__init__(str(solved))
        self.reason = reason
        self.solved = solved
        self.progress = progress


class Compiler:
    """Makes plans for one graph, which is in the newest operator set and is not changed any more.

    `fed` names initializers that are inputs here: the call gives them. With `narrow`, large constants stay as they
    are. `memory_limit` is what a run that trains should have at once, in bytes, 0 for any number.
    """

    def __init__(
        self,
        graph: Graph,
        providers: Sequence[Provider],
        weights: WeightTable,
        fed: Collection[str] = (),
        narrow: bool = False,
        memory_limit: int = 0,
    ) -> None:
        self.narrow = narrow
        self.memory_limit = memory_limit
        self.graph = graph
        self.providers = providers
        self.weights = weights
        initialized = {value for value in graph.initializers if value.name not in fed}
        self.inputs = [value for value in graph.inputs if value not in initialized]

    def compile_early(self) -> Plan | None:
        """The plan that a model needs no call for: all of its sizes are declared, and none depends on data."""
        if not all(isinstance(size, int) for value in self.inputs for size in value.shape or (None,)):
            return None
        try:
            return self.compile([_blank(value) for value in self.inputs], {}, early=True)
        except TooEarlyError:
            return None

    def compile(
        self,
        feeds: Sequence[Feed],
        hints: Mapping[str, int],
        arguments: Sequence[Form] | None = None,
        early: bool = False,
        relations: MutableMapping[str, Poly] | None = None,
        is_called: bool = False,
    ) -> Plan:
        """The plan for feeds of these shapes, and for whatever other sizes satisfy its guards.

        `hints` are numbers that an earlier run of this graph found for sizes that depend on data. `arguments` are the
        forms of the inputs, whose tensors are the feeds; without them each is a tensor. `relations` and `is_called` as
        in `trace`.
        """
        relations = {} if relations is None else relations

        def attempt(excluded: Collection[Place]) -> Plan:
            trace, symbols = self.trace(feeds, hints, arguments, early, relations, is_called=is_called)
            try:
                return self.schedule(trace, symbols, excluded)
            finally:
                trace.dissolve()

        return without_excluded(attempt)

    def schedule(
        self, trace: Trace, symbols: dict[str, list[list[int]]], excluded: Collection[Place] = frozenset()
    ) -> Plan:
        """The plan of a trace; `excluded` as in `schedule.schedule`."""
        inputs = [array.name for array in trace.inputs]
        return schedule(trace, self.providers, self.weights, inputs, self._outputs(trace), symbols, excluded)

    def _outputs(self, trace: Trace) -> list[str]:
        """The names of what a trace gives."""
        if trace.is_beginning:
            return []
        return [
            name
            for value, outline in zip(self.graph.outputs, trace.results, strict=True)
            for name, _ in ports(value.name, value.type, outline)
        ]

    def trace(
        self,
        feeds: Sequence[Feed],
        hints: Mapping[str, int],
        arguments: Sequence[Form] | None = None,
        early: bool = False,
        relations: MutableMapping[str, Poly] | None = None,
        force: Force = Force.NOTHING,
        is_called: bool = False,
    ) -> tuple[Trace, dict[str, list[list[int]]]]:
        """The equations of the graph, and which input axes its symbols stand for.

        `relations` are symbols that others tell: what the graph forces is added. Where the graph makes no sense with
        what was guessed of numbers that only the run tells, others are tried; if a call waits for the plan
        (`is_called`), the trace ends there, and running it tells them. Where the sizes of the feeds were
        made up, it raises UnsettledError for what it would `force` of them.
        """
        relations = {} if relations is None else relations
        tried: dict[str, int] = {}
        first: SardonyxError | None = None
        while True:
            attempt, symbols, environment = self.begun(feeds, {**hints, **tried}, arguments, early, relations)
            attempt.guards.solvable = list(symbols)
            try:
                with attempt:
                    attempt.give(interpret(self.graph, environment))
                    keep_in_place(attempt, self._outputs(attempt))
                attempt.guards.solvable = ()
                return attempt, symbols
            except SolvedError as found:
                relate(relations, found)
            except SardonyxError as error:
                first = first or error
                if len(tried) < MOST_ATTEMPTS and not is_called and (other := attempt.equalled()):
                    tried.update(other)
                    continue
                missing = attempt.guards.missing(force is Force.NUMBERS) if force is not Force.NOTHING else None
                if missing is not None:
                    raise UnsettledError(error, missing, len(attempt.labels)) from error
                if is_called and attempt.end_where_it_is():
                    return attempt, symbols
                doubts = attempt.doubts()
                if not doubts or len(tried) == MOST_ATTEMPTS:
                    raise first from first.__cause__
                tried[doubts[0]] = int(attempt.guesses[doubts[0]] == 0)

    def begun(
        self,
        feeds: Sequence[Feed],
        hints: Mapping[str, int],
        arguments: Sequence[Form] | None,
        early: bool,
        relations: Mapping[str, Poly],
    ) -> tuple[Trace, dict[str, list[list[int]]], Environment]:
        """A trace with nothing but its inputs, the input axes of its symbols, and what is known of the graph's."""
        trace = Trace(
            Guards(hints),
            early=early,
            strings=self.weights.strings,
            narrow=self.narrow,
            memory_limit=self.memory_limit,
        )
        symbols: dict[str, list[list[int]]] = {}
        names: dict[tuple[str, int], Size] = {}
        environment: Environment = {}
        trace.arguments = [TENSOR] * len(self.inputs) if arguments is None else list(arguments)
        numbered = enumerate(feeds)
        for value, outline in zip(self.inputs, trace.arguments, strict=True):
            arrays = []
            for name, kind in ports(value.name, value.type, outline):
                number, feed = next(numbered)
                declared = _with_room(kind, outline) if is_cached(outline) else kind
                shape = _shape(number, declared, feed.shape, trace.guards, symbols, names, relations)
                dtype = kind.dtype or dtypes.of(feed.dtype)
                if is_cached(outline):
                    environment[value] = self._cache(trace, fill(outline, iter([None])), dtype, shape, name)
                    continue
                array = trace.input(dtype, shape, name)
                if array.dtype is not dtypes.string and isinstance(feed, np.ndarray):
                    trace.feeds[array] = feed
                arrays.append(array)
            if not is_cached(outline):
                environment[value] = fill(outline, iter(arrays))
        return trace, symbols, environment

    @staticmethod
    def _cache(trace: Trace, outline: Cached[Any], dtype: DType, shape: Shape, name: str) -> Array:
        """A new input with room, of which the graph sees what it holds."""
        *held, room = shape
        axis = outline.axis
        cache = trace.input(dtype, (*held[:axis], room, *held[axis + 1 :]), name)
        with trace:
            past = p.slice_axis(cache, axis, 0, held[axis])
        trace.caches[cache] = replace(outline, tensor=past)
        return past


def relate(relations: MutableMapping[str, Poly], found: SolvedError) -> None:
    """Add what was found to these relations, of which none speaks of a symbol that another one tells."""
    told = substitute(found.polynomial, relations)
    for symbol, polynomial in relations.items():
        relations[symbol] = substitute(polynomial, {found.symbol: told})
    relations[found.symbol] = told


def _with_room(kind: TensorType, outline: Form) -> TensorType:
    """The type with one more size, the room along an axis, which has the axis's name."""
    if kind.shape is None:
        return kind
    held = kind.shape[outline["axis"]]
    return TensorType(kind.dtype, (*kind.shape, f"room of {held}" if isinstance(held, str) else None))


def _blank(value: Value) -> np.ndarray:
    """An array of an input's declared type; only its shape and type are looked at."""
    shape = [size for size in value.shape or () if isinstance(size, int)]
    memory.refuse_axes(f"input {value.name!r}", len(shape))
    memory.refuse(f"input {value.name!r} ({value.type})", prod(shape) * (value.dtype or dtypes.float32).itemsize)
    return np.broadcast_to(np.zeros((), (value.dtype or dtypes.float32).storage), shape)


def _shape(
    number: int,
    kind: TensorType,
    sizes: tuple[int, ...],
    guards: Guards,
    symbols: dict[str, list[list[int]]],
    names: dict[tuple[str, int], Size],
    relations: Mapping[str, Poly],
) -> Shape:
    """The shape of an input: a symbol for each name of a dimension, unless this call feeds it two different sizes.

    What `relations` tell of a symbol stands for it.
    """
    declared = kind.shape if kind.shape is not None else (None,) * len(sizes)
    shape: list[Size] = []
    for axis, (dim, given) in enumerate(zip(declared, sizes, strict=True)):
        if isinstance(dim, int):
            shape.append(dim)
            continue
        key = (size_name(str(number), axis, dim), given)
        if key not in names:
            symbol = f"s{len(names)}"
            names[key] = size(relations[symbol]) if symbol in relations else guards.symbol(symbol, given)
            if symbol not in relations:
                symbols[symbol] = []
        if (symbol := str(names[key])) in symbols:
            symbols[symbol].append([number, axis])
        shape.append(names[key])
    return tuple(shape)
