"""Soundness: whether a plan that was read can be run at all, checked once before anything is done with it.

A plan from a file may say anything. What is checked here needs no sizes: numbers of buffers, codes and functions,
types, epochs, the form of sizes and which symbols are known where they are used, and that layouts end. What depends on
sizes is checked when they are known: rooms by `sardonyx.runtime.buffers`, launches by `sardonyx.plans.reach`. Most of
it is done for all buffers and launches at once, since a small model is opened in half a millisecond.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from itertools import chain
from math import prod
from operator import add
from typing import Any

from sardonyx.common import dtypes
from sardonyx.errors import SardonyxError, UnsoundError
from sardonyx.host import KEY
from sardonyx.plans.plan import OUTSIDE, Branch, Copy, Host, Launch, Loop, Plan, Port, Read, halts
from sardonyx.sizes.sizecode import symbols_of

LARGE = 1 << 63
"""Every number in a size is smaller than this."""
NESTED = 32
"""How deep functions nest at most."""
_NEVER = 1 << 30
_SIZES = frozenset({int, str, list})
_OPERATORS = frozenset({"+", "*", "floordiv", "mod", "min", "max"})
_BINARY = frozenset({"floordiv", "mod"})
_DTYPES = {dtype.name: dtype.itemsize for dtype in dtypes.ALL}
_READABLE = frozenset(dtype.name for dtype in dtypes.ALL if dtype.is_int or dtype is dtypes.bool_)
"""The element types from which sizes and conditions can be read."""
_EXPECTED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""What Python raises where data have another form than the code that takes them."""


@contextmanager
def reading(name: str) -> Iterator[None]:
    """What goes wrong in the block is the fault of the file of this name.

    >>> with reading("x.sdx"):
    ...     [1, 2][3]
    Traceback (most recent call last):
        ...
    sardonyx.errors.UnsoundError: x.sdx is damaged: list index out of range; compile the model anew
    """
    try:
        yield
    except UnsoundError as error:
        raise UnsoundError(f"{name} is damaged: {error}; compile the model anew") from None
    except SardonyxError:
        raise
    except _EXPECTED as error:
        reason = f"there is no {error}" if isinstance(error, KeyError) else error
        raise UnsoundError(f"{name} is damaged: {reason}; compile the model anew") from error


def require(holds: object, reason: str) -> None:
    """Raise UnsoundError with this reason where something does not hold."""
    if not holds:
        raise UnsoundError(reason)


def check(plan: Plan, outer: Collection[str] = (), depth: int = 0) -> None:
    """Raise UnsoundError where a plan, whose surrounding ones know the symbols `outer`, cannot be run.

    May raise what Python raises for data of a wrong form, see `reading`.
    """
    require(depth < NESTED, f"functions nest more than {NESTED} deep")
    _Check(plan, outer, depth).run()


class _Check:
    def __init__(self, plan: Plan, outer: Collection[str], depth: int) -> None:
        self.plan = plan
        self.depth = depth
        self.buffers = plan.buffers
        self.steps: list[list[Any]] = [[]]
        """The steps of each epoch, the last of all but the last epoch being a halt."""
        self.symbols: list[Set[str]] = [{*outer, *plan.symbols, *chain.from_iterable(p.symbols for p in plan.inputs)}]
        """The symbols that each epoch knows."""
        for step in plan.steps:
            self.steps[-1].append(step)
            if halts(step):
                self.steps.append([])
                self.symbols.append(self.symbols[-1] | set(step.defines))

    def run(self) -> None:
        plan = self.plan
        self.is_alone = len(self.steps) == 1
        self.terms()
        self.start()
        self.sizes()
        self.layout()
        self.weights()
        for number, steps in enumerate(self.steps):
            self.launches([step for step in steps if type(step) is Launch], number)
            for step in steps:
                if type(step) is not Launch:
                    self.step(step, number)
        for port in plan.outputs:
            self.port(port, len(self.steps) - 1)
            require(port.buffers, f"output {port.name!r} lies nowhere")
        for relation in plan.guards:
            _, sign, truth = relation
            require(sign in ("==", ">=") and type(truth) is bool, f"{relation} is no guard")
        self.known_in(-1, [guard[0] for guard in plan.guards])

    def known_in(self, epoch: int, sizes: Iterable[Any]) -> None:
        """Raise UnsoundError unless these are sizes over the symbols that an epoch knows."""
        _sizes(sizes, self.symbols[epoch], self.is_alone)

    def terms(self) -> None:
        """The sizes that are lists: operators with operands, over symbols that are known some time."""
        terms = list(self.plan.terms.values())
        heads = [(term[0], len(term)) for term in terms]
        for name, count in set(heads):
            if name not in _OPERATORS or count < 2 or (name in _BINARY and count != 3):
                raise UnsoundError(f"{name!r} of {count - 1} is no size")
        _sizes(chain.from_iterable([term[1:] for term in terms]), self.symbols[-1], True)

    # ---- what is fed

    def start(self) -> None:
        """Inputs, and the symbols that they define."""
        plan = self.plan
        for name, places in plan.symbols.items():
            require(places, f"no input defines {name!r}")
            for number, axis in places:
                rank = len(plan.inputs[_count(number)].shape)
                require(0 <= axis < rank, f"{name!r} is axis {axis} of an input of rank {rank}")
        held: set[int] = set()
        for port in plan.inputs:
            self.port(port, 0)
            require(
                not port.symbols or (port.dtype in _READABLE and _texts(port.symbols)),
                f"input {port.name!r} is no integers to tell sizes",
            )
            for k in port.buffers:
                buffer = self.buffers[k]
                require(buffer.weight is None and buffer.epoch <= 0, f"input {port.name!r} is not there at the start")
                if buffer.epoch == OUTSIDE:
                    held.add(k)
                    require(_is_room(port.shape, buffer.shape), f"input {port.name!r} has no room in its buffer")
                    continue
                require(buffer.shape == port.shape, f"input {port.name!r} has the shape of no buffer")
            self.known_in(0, port.shape)
        outside = {k for k, buffer in enumerate(self.buffers) if buffer.epoch == OUTSIDE}
        require(outside <= held, "a buffer lies in no chunk, and is no input")

    def port(self, port: Port, epoch: int) -> None:
        require(type(port.name) is str and port.dtype in _DTYPES, f"{port.name!r} is of no type")
        self.numbers(port.buffers, epoch)
        require(all(self.buffers[k].dtype == port.dtype for k in port.buffers), f"{port.name!r} is not {port.dtype}")

    # ---- buffers

    def sizes(self) -> None:
        """Types, devices, epochs, shapes and rooms of all buffers."""
        buffers, devices = self.buffers, len(self.plan.devices)
        names = {buffer.dtype for buffer in buffers}
        require(names <= _DTYPES.keys(), f"there is no element type {sorted(map(str, names - _DTYPES.keys()))}")
        _within([buffer.device for buffer in buffers], devices, "device")
        self.epochs = [buffer.epoch for buffer in buffers]
        _within([epoch for epoch in self.epochs if epoch != OUTSIDE], len(self.steps), "epoch")
        shapes = chain.from_iterable([buffer.shape for buffer in buffers])
        self.known_in(-1, chain(shapes, [buffer.elements for buffer in buffers]))
        if not self.is_alone:
            for k, buffer in enumerate(buffers):
                missing = symbols_of(buffer.elements) - self.symbols[buffer.epoch]
                require(not missing, f"the room of buffer {k} depends on {missing}, which is found later")

    def layout(self) -> None:
        """Buffers lie above others of their chunk, and none above itself."""
        buffers, below = self.buffers, [buffer.beneath for buffer in self.buffers]
        lower = list(chain.from_iterable(below))
        _within(lower, len(below), "buffer")
        if {buffers[k].weight for k in lower} - {None}:
            raise UnsoundError("a buffer lies above a weight")
        if not self.is_alone or len(self.plan.devices) > 1:
            for k, beneath in enumerate(below):
                if {(buffers[j].epoch, buffers[j].device) for j in beneath} - {(buffers[k].epoch, buffers[k].device)}:
                    raise UnsoundError(f"buffer {k} lies above one of another chunk")
        open_, done = 1, 2
        state = [0 if beneath else done for beneath in below]
        for first, before in enumerate(state):
            stack = [] if before else [first]
            while stack:
                top = stack[-1]
                if state[top]:
                    state[stack.pop()] = done
                    continue
                state[top] = open_
                for k in below[top]:
                    if state[k] == open_:
                        raise UnsoundError(f"buffer {k} lies above itself")
                    if not state[k]:
                        stack.append(k)

    def weights(self) -> None:
        """Constants are as large as they say; what has none is computed by the setup before it is read."""
        plan, buffers = self.plan, self.buffers
        held = set(plan.weights)
        for launch, reads in zip(plan.setup, self.codes(plan.setup)):
            named = [buffers[k].weight for k in launch.buffers]
            if None in named or not held.issuperset(named[:reads]) or not plan.weights.keys().isdisjoint(named[reads:]):
                raise UnsoundError(f"the setup makes {named[reads:]} of {named[:reads]}")
            held.update(named[reads:])  # type: ignore[arg-type]
        _numbers(list(chain.from_iterable([launch.params for launch in plan.setup])))
        self.stage = [buffer.epoch if buffer.weight is None else _NEVER if buffer.once else 0 for buffer in buffers]
        for buffer in buffers:
            if buffer.weight is None:
                continue
            array = plan.weights.get(buffer.weight)
            if array is None:
                fits = buffer.weight in held and prod(buffer.shape) <= buffer.elements
            else:
                fits = array.nbytes == buffer.elements * _DTYPES[buffer.dtype]
            if not fits:
                raise UnsoundError(f"there is no weight {buffer.weight!r} of {buffer.dtype}{buffer.shape}")

    # ---- steps

    def codes(self, launches: Sequence[Launch]) -> list[int]:
        """How many buffers each launch reads; their codes take as many as they are given."""
        codes = self.plan.codes
        _within([launch.code for launch in launches], len(codes), "code")
        _within(list(chain.from_iterable(launch.buffers for launch in launches)), len(self.buffers), "buffer")
        reads = [len(codes[launch.code]["reads"]) for launch in launches]
        wanted = [len(codes[launch.code]["writes"]) for launch in launches]
        if list(map(add, reads, wanted)) != [len(launch.buffers) for launch in launches]:
            raise UnsoundError("a launch is given another number of buffers than its code takes")
        return reads

    def launches(self, launches: Sequence[Launch], epoch: int) -> None:
        reads = self.codes(launches)
        self.known_in(epoch, chain.from_iterable([launch.params for launch in launches]))
        stage, buffers, several = self.stage, self.buffers, len(self.plan.devices) > 1
        used = set(chain.from_iterable([launch.buffers for launch in launches]))
        if used and max([stage[k] for k in used]) > epoch:
            raise UnsoundError(f"a launch of epoch {epoch} works on what is not there yet")
        for launch, count in zip(launches, reads):
            for k in launch.buffers[count:]:
                if buffers[k].weight is not None:
                    raise UnsoundError(f"a launch writes to the weight {buffers[k].weight!r}")
            if several and {buffers[k].device for k in launch.buffers} - {launch.device}:
                raise UnsoundError("a launch works on two devices")

    def step(self, step: Any, epoch: int) -> None:
        match step:
            case Copy():
                self.tensors([step.source], epoch)
                self.numbers([step.target], epoch)
                require(self.kind(step.source) == self.kind(step.target), "a copy is of another shape")
            case Read():
                self.numbers([step.buffer], epoch)
                require(self.buffers[step.buffer].dtype in _READABLE, "sizes are read that are no integers")
                require(_texts(step.symbols), f"{step.symbols} are no symbols")
            case Host():
                self.tensors(step.inputs, epoch)
                nodes = len(self.plan.nodes) if step.function != KEY else 1 << 31  # bundles name none
                _within([step.origin], nodes, "node")
                self.results(step.results, step.symbols, epoch + halts(step))
            case Branch():
                self.tensors([step.condition], epoch)
                chosen = list(zip(step.functions, step.operands, strict=True))
                require(len(chosen) == 2, "a branch has no two ways")
                for function, operands in chosen:
                    self.tensors(operands, epoch)
                    self.function(function, [self.buffers[k].dtype for k in operands], step.results, epoch)
                self.results(step.results, step.symbols, epoch + 1)
            case Loop():
                self.loop(step, epoch)
            case _:
                raise UnsoundError(f"{step} is no step")

    def loop(self, step: Loop, epoch: int) -> None:
        bounds = [(step.trips, "int64"), (step.condition, "bool")]
        for buffer, dtype in bounds:
            if buffer != -1:
                self.tensors([buffer], epoch)
                require(self.buffers[buffer].dtype == dtype, f"a loop is bounded by what is no {dtype}")
        require(len({step.trips, step.condition} - {-1}) > 0, "a loop has no end")
        operands = [*step.carried, *step.captured]
        self.tensors(operands, epoch)
        require(len(step.carried) <= len(step.results), "a loop gives less than it carries")
        fed = ["int64", "bool", *(self.buffers[k].dtype for k in operands)]
        self.function(step.function, fed, step.results, epoch, ["bool"])
        self.results(step.results, step.symbols, epoch + 1)

    def function(
        self, number: int, fed: Sequence[str], results: Sequence[int], epoch: int, before: Sequence[str] = ()
    ) -> None:
        """A function takes these types, and gives those of the results behind those `before`."""
        returned = [*before, *(self.buffers[k].dtype for k in results)]
        for plan in self.plan.functions[_count(number)]:
            require([port.dtype for port in plan.inputs] == list(fed), "a function takes something else")
            require([port.dtype for port in plan.outputs] == returned, "a function gives something else")
            require(plan.devices == self.plan.devices, "a function runs on other devices")
            check(plan, self.symbols[epoch], self.depth + 1)

    def results(self, numbers: Sequence[int], symbols: Sequence[Any], epoch: int) -> None:
        """Buffers of an epoch, and symbols that their shapes define."""
        self.numbers(numbers, epoch)
        for k in numbers:
            require(self.stage[k] == epoch and self.buffers[k].weight is None, "a result lies in another epoch")
        for name, result, axis in symbols:
            rank = len(self.buffers[numbers[_count(result)]].shape)
            require(type(name) is str and 0 <= axis < rank, f"{name!r} is axis {axis} of a result of rank {rank}")

    def kind(self, buffer: int) -> tuple[str, Any]:
        return self.buffers[buffer].dtype, self.buffers[buffer].shape

    def tensors(self, numbers: Sequence[int], epoch: int) -> None:
        """Buffers whose shapes an epoch knows."""
        self.numbers(numbers, epoch)
        for k in numbers:
            self.known_in(epoch, self.buffers[k].shape)

    def numbers(self, numbers: Sequence[int], epoch: int) -> None:
        """Buffers that are there in an epoch."""
        _within(numbers, len(self.buffers), "buffer")
        for k in numbers:
            buffer = self.buffers[k]
            require(not buffer.once and (buffer.weight or buffer.epoch <= epoch), f"buffer {k} is not there yet")


def _is_room(fed: Sequence[Any], shape: Sequence[Any]) -> bool:
    """Whether a buffer has the shape of what is fed but for one axis, whose size is the last one that is fed."""
    *held, room = fed
    other = [k for k, sizes in enumerate(zip(held, shape)) if sizes[0] != sizes[1]]
    return len(held) == len(shape) and len(other) == 1 and shape[other[0]] == room


def _sizes(sizes: Iterable[Any], symbols: Set[str], is_alone: bool) -> None:
    """Raise UnsoundError unless these are sizes over `symbols`; symbols inside terms count unless `is_alone`."""
    level = list(sizes)
    kinds = set(map(type, level))
    if kinds - _SIZES:
        raise UnsoundError(f"{next(size for size in level if type(size) not in _SIZES)!r} is no size")
    names = {size for size in level if type(size) is not list}
    integers = [size for size in names if type(size) is int]
    names.difference_update(integers)
    if not is_alone and list in kinds:
        names.update(*map(symbols_of, level))
    if names - symbols:
        raise UnsoundError(f"nothing tells {', '.join(sorted(names - symbols)[:3])}")
    if integers and not (min(integers) >= -LARGE and max(integers) < LARGE):
        raise UnsoundError("a size is too large")


def _numbers(values: Sequence[Any]) -> None:
    """Raise UnsoundError unless all values are integers of 64 bits."""
    if values and (set(map(type, values)) != {int} or min(values) < -LARGE or max(values) >= LARGE):
        raise UnsoundError("what should be an integer is none, or too large")


def _within(values: Sequence[Any], count: int, noun: str) -> None:
    """Raise UnsoundError unless all values are indices into a list of `count` things, which `noun` names."""
    if values and (set(map(type, values)) != {int} or min(values) < 0 or max(values) >= count):
        raise UnsoundError(f"there are {count} {noun}s, and one is asked for that is not among them")


def _count(value: int) -> int:
    require(type(value) is int and value >= 0, f"{value} is no number")
    return value


def _texts(values: Sequence[Any]) -> bool:
    return set(map(type, values)) <= {str}
