"""Replays a plan: no graph, no shape inference, no allocation once the sizes have been seen.

An `Executor` belongs to one plan and holds what all its runs share: compiled code and weights. A run takes a `Frame`
from a pool: the chunks of memory and the launches bound to them, which stay valid until other sizes come. So any
number of threads may run one plan, each in a frame of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.convert import outward
from sardonyx.common.forks import Whole
from sardonyx.common.garbage import paused
from sardonyx.common.memory import TooLargeError
from sardonyx.common.record import record
from sardonyx.common.strings import RunStrings, StringTable
from sardonyx.common.termination import poll
from sardonyx.errors import InvalidGuard, RuntimeException
from sardonyx.model.structure import TENSOR, Form
from sardonyx.plans import plan as plans
from sardonyx.providers.contract import Device
from sardonyx.runtime import streamed
from sardonyx.runtime.budget import OverLimitError
from sardonyx.runtime.buffers import Buffers
from sardonyx.runtime.frames import NO_STRINGS, Binding, Code, Frame, GuardError
from sardonyx.runtime.halts import Halts
from sardonyx.runtime.handles import Feed, Handle
from sardonyx.runtime.inputs import resized, take
from sardonyx.runtime.profile import KERNEL, NODE, Profiler, describe
from sardonyx.runtime.turns import Turns
from sardonyx.runtime.weights import Weights
from sardonyx.sizes.guards import guard_text
from sardonyx.sizes.sizecode import Fit, compile_all, symbols_of

MOST_PLANS = 8
"""Plans kept per function; the least recently used one goes."""
MOST_RETRIES = 16
"""How often one run may find other data-dependent sizes than its plan was made for."""


@record(slots=True)
class Start:
    """The shapes of feeds, and the symbols that a plan finds in them; None where they do not tell them."""

    shapes: list[tuple[int, ...]]
    symbols: dict[str, int] | None


class CompiledGraph:
    """A graph with all the plans made for it: a model, or the body of control flow."""

    def __init__(
        self,
        known: Sequence[plans.Plan],
        devices: Sequence[Device],
        weights: Weights,
        compiler: Callable[[Mapping[str, int]], plans.Plan] | None = None,
        profiler: Profiler | None = None,
        repeated: bool = False,
        is_inner: bool = False,
    ) -> None:
        self._compiler = compiler
        self._devices = devices
        self._weights = weights
        self._is_inner = is_inner
        self._lock = threading.Lock()
        self._executor = partial(Executor, devices=devices, weights=weights, profiler=profiler, repeated=repeated)
        self.executors = [self._executor(plan) for plan in known]
        self.compiled = len(self.executors)
        """How many plans were made."""

    def call(
        self,
        feeds: Sequence[Feed],
        strings: RunStrings,
        symbols: Mapping[str, int] | None = None,
        compiler: Callable[[Mapping[str, int]], plans.Plan] | None = None,
        arguments: Sequence[Form] | None = None,
        lent: int = 0,
        turns: Turns | None = None,
    ) -> tuple[list[Handle], plans.Plan, Callable[[], None]]:
        """The outputs, the plan that made them, and what releases them. Makes a new plan where none is for these sizes.

        Feeds of strings are ids or, where they come from a caller, arrays of objects. `arguments` say how the feeds are
        arranged (`sardonyx.model.structure`); only plans for that are tried. The last `lent` feeds may be read where
        they lie, and a call for one of the `turns` of a loop may take all that are left, see `Executor.call`.
        """
        if not self._is_inner:
            self._weights.check()
        hints = dict(symbols or {})
        planned: dict[str, int] | None = None
        shapes = [feed.shape for feed in feeds]
        for _ in range(MOST_RETRIES):
            broken = "no plan was made yet"
            refused: list[GuardError | Executor] = []
            for executor in list(self.executors):
                if arguments is not None and executor.plan.arguments != arguments:
                    continue
                found = executor.fit(shapes) if executor.fit else None
                if executor.fit and found is None:
                    refused.append(executor)
                    continue
                start = Start(shapes, found)
                try:
                    results, executor, frame = self._call(executor, feeds, start, strings, symbols, lent, turns)
                except GuardError as error:
                    refused.append(error)
                    if executor.plan.is_beginning:
                        with Whole(), self._lock, suppress(ValueError):
                            self.executors.remove(executor)
                else:
                    self._touch(executor)
                    return results, executor.plan, partial(executor.release, frame)
            for each in refused:
                reason = each.refusal(feeds, symbols or {}) if isinstance(each, Executor) else each
                hints.update(reason.symbols)
                broken = str(reason)
            if planned == hints:
                raise RuntimeException(f"these sizes make no sense: {broken}")
            planned = dict(hints)
            self._add(hints, compiler or self._compiler, broken)
        raise RuntimeException(f"the sizes that depend on data did not settle in {MOST_RETRIES} runs")

    def _call(
        self,
        executor: Executor,
        feeds: Sequence[Feed],
        start: Start,
        strings: RunStrings,
        symbols: Mapping[str, int] | None,
        lent: int,
        turns: Turns | None,
    ) -> tuple[list[Handle], Executor, Frame]:
        """What an executor gives, with it and its frame; one within the memory limit takes its place if need be."""
        for _ in range(MOST_RETRIES):
            frame = executor.frame()
            try:
                return executor.call(frame, feeds, start, strings, symbols, lent, turns), executor, frame
            except OverLimitError as error:  # without its traceback, which would keep the frame's memory
                reason, known = str(error), error.symbols
            except MemoryError as error:
                executor.release(frame)
                raise RuntimeException(f"there is no memory left: {error or 'the system has none'}") from error
            except BaseException:
                executor.release(frame)
                raise
            frame.free()
            del frame
            if executor.plan.functions and isinstance(executor.plan, streamed.Streamed):
                raise TooLargeError(reason)
            executor = self._within(executor, known)
        raise RuntimeException("what runs need of the memory limit did not settle")

    def _within(self, executor: Executor, symbols: Mapping[str, int]) -> Executor:
        """An executor that keeps within what is left of the memory limit, in the place of this one."""
        from sardonyx.runtime.streaming import stream  # for weights that are more than the limit

        weights = self._weights
        assert weights.budget is not None
        if not self._is_inner:
            executor.shrink()
            weights.budget.evict()
        left = weights.budget.limit - weights.budget.arenas() - weights.held()
        try:
            made = self._executor(stream(executor.original, self._devices, left, symbols))
        except TooLargeError as error:
            if self._is_inner:
                raise OverLimitError(str(error), symbols) from None
            raise
        with Whole(), self._lock:
            if executor in self.executors:
                self.executors[self.executors.index(executor)] = made
        return made

    def fit(self) -> None:
        """Have the latest plan within the memory limit, where all sizes are known; TooLargeError where none is."""
        if self._weights.budget is None or not self._devices:
            return
        for executor in self.executors[:1]:
            if not executor.plan.symbols:
                try:
                    executor.frame().fit({})
                    return
                except OverLimitError as error:
                    symbols = error.symbols
                self._within(executor, symbols)

    def _add(
        self, hints: Mapping[str, int], compiler: Callable[[Mapping[str, int]], plans.Plan] | None, broken: str
    ) -> None:
        if compiler is None:
            raise InvalidGuard(f"the plan is not for these sizes, and there is no compiler here: {broken}")
        with Whole(), paused():
            self.add(compiler(hints))

    def add(self, plan: plans.Plan) -> None:
        """Have one more plan, to be tried first."""
        executor = self._executor(plan)
        executor.prepare()
        with Whole(), self._lock:
            self.executors.insert(0, executor)
            self.compiled += 1
            del self.executors[MOST_PLANS:]

    def remember(self, plan: plans.Plan) -> None:
        """Have one more plan, to be tried last, which counts as made before."""
        self.executors.append(self._executor(plan))

    def append(self, more: Sequence[plans.Plan]) -> None:
        """Have more plans, to be tried last."""
        with Whole(), self._lock:
            self.executors += map(self._executor, more)
            self.compiled += len(more)

    def rerun(self, feed: Mapping[str, Any], table: StringTable, is_open: bool = False) -> list[np.ndarray] | None:
        """The outputs for arrays by input name that are like those of the last run; None if they are not.

        `is_open`, they may have other sizes that its plan is for. Raises GuardError, OverLimitError or
        StaleStringsError where data or sizes lead to what was not there then: `call` knows what to do.
        """
        self._weights.check()
        for executor in self.executors[:1]:
            return executor.rerun(feed, table, is_open)
        return None

    def forget(self) -> None:
        """Have no plans."""
        with Whole(), self._lock:
            self.executors.clear()

    def _touch(self, executor: Executor) -> None:
        if self.executors[:1] != [executor]:  # another thread may have left none
            with Whole(), self._lock:
                if executor in self.executors:
                    self.executors.remove(executor)
                    self.executors.insert(0, executor)


class Executor:
    """Runs one plan on devices. `weights` may be shared with other plans of the same constants.

    With a profiler, launches run singly, and each is waited for. What is `repeated` is the body of a loop.
    """

    def __init__(
        self,
        plan: plans.Plan,
        devices: Sequence[Device],
        weights: Weights | None = None,
        profiler: Profiler | None = None,
        repeated: bool = False,
    ) -> None:
        self.plan = plan
        self.original = plan.original if isinstance(plan, streamed.Streamed) and plan.original else plan
        """What the plan was before it was made to keep within a limit."""
        self.devices = devices
        self._buffers = Buffers(plan, devices)
        self._profiler = profiler
        self._code = Code(plan, devices, weights or Weights(), profiler is not None, repeated)
        bodies = {step.function for step in plan.steps if isinstance(step, plans.Loop)}
        self._functions = [
            CompiledGraph(plans_, devices, self._code.weights, compiler, profiler, number in bodies, is_inner=True)
            for number, (plans_, compiler) in enumerate(zip_longest(plan.functions, plan.compilers))
        ]
        self._halts = Halts(plan, devices, self._buffers, self._functions)
        self._free: list[Frame] = []
        self._reads_feeds = any(port.symbols for port in plan.inputs)
        ports = [port.shape for port in plan.inputs]
        is_told = not self._reads_feeds and all(symbols_of(size) <= plan.symbols.keys() for p in ports for size in p)
        self.fit = Fit(ports, plan.symbols, plan.guards) if is_told else None
        """What tells the symbols by the shapes of feeds alone, if they do."""
        self._inputs = [compile_all(port) for port in ports]
        self._takes_strings = any(port.dtype == dtypes.string.name for port in plan.inputs)
        self._has_strings = bool(plan.functions) or any(b.dtype == dtypes.string.name for b in plan.buffers)
        forms = (*plan.arguments, *plan.results)
        self._is_plain = profiler is None and not self._reads_feeds and all(form == TENSOR for form in forms)
        self._results = [(port.buffers[0], dtypes.by_name(port.dtype)) for port in plan.outputs]
        self._is_native = all(dtype.is_native for _, dtype in self._results)

    def prepare(self) -> None:
        """Compile the plan's code, or the first run will; it must where the devices are not open yet."""
        if self.devices and self._code.weights.budget is None:  # else the sizes decide on the code
            self._code.weights.prepare(self.plan, self.devices)
            _ = self._code.executables

    def arena(self, device: int) -> int:
        """The bytes of a device's memory that the frames at rest hold, those of control flow too."""
        chunks = [frame.chunks for frame in list(self._free)]
        mine = sum(total for frame in chunks for (owner, _), (_, total) in frame.items() if owner == device)
        inner = (executor.arena(device) for function in self._functions for executor in function.executors)
        return mine + sum(inner)

    def shrink(self) -> None:
        """Give back the memory of the frames at rest, those of control flow too; later runs have new ones."""
        with suppress(IndexError):
            while True:
                self._free.pop().free()
        for function in self._functions:
            for executor in function.executors:
                executor.shrink()

    # ---- running

    def frame(self) -> Frame:
        """A frame for one run; give it back with `release`."""
        try:
            return self._free.pop()  # at once: no other thread gets it
        except IndexError:
            return Frame(self._code)

    def release(self, frame: Frame) -> None:
        frame.strings = NO_STRINGS
        self._free.append(frame)

    def rerun(self, feed: Mapping[str, Any], table: StringTable, is_open: bool = False) -> list[np.ndarray] | None:
        """What `CompiledGraph.rerun` gives."""
        frame = self.frame()
        try:
            if not frame.inputs or frame.start is None:
                return None
            strings = frame.strings = RunStrings(table) if self._has_strings else NO_STRINGS
            is_fed = take(frame.inputs, feed, strings)
            if not (is_fed or (is_open and self._resize(frame, feed) and take(frame.inputs, feed, strings))):
                return None
            symbols = dict(frame.start[2])
            self._go(frame, symbols)
            found = self._buffers.arrays(frame, [k for k, _ in self._results], symbols)
            if self._is_native:
                return found
            return [outward(array, dtype, strings) for array, (_, dtype) in zip(found, self._results, strict=True)]
        finally:
            self.release(frame)

    def _resize(self, frame: Frame, feed: Mapping[str, Any]) -> bool:
        """Have a frame bound for arrays that are like those before but for their sizes; False if they are not."""
        if self.fit is None or (found := resized(frame.inputs, feed)) is None or (symbols := self.fit(found)) is None:
            return False
        try:
            binding = self._bind(frame, 0, symbols)
        except MemoryError:  # `call` says so
            return False
        frame.start = found, {}, symbols
        frame.inputs = binding.inputs = binding.inputs or self._buffers.inputs(frame, found)
        return True

    def call(
        self,
        frame: Frame,
        feeds: Sequence[Feed],
        start: Start,
        strings: RunStrings,
        outer: Mapping[str, int] | None = None,
        lent: int = 0,
        turns: Turns | None = None,
    ) -> list[Handle]:
        """The outputs for feeds in the order of the plan's inputs: they lie in the frame until it is released.

        `start` is what `fit` says of them; `outer` are the symbols of the surrounding plan. The last `lent` feeds are
        not copied if they lie on the right device; they stay unchanged until the frame is released. If this is one of
        the `turns` of a loop, the device may take it and all others that are left; then there are no outputs here.
        Raises `GuardError` where the plan is not for these sizes.
        """
        strings.check()
        frame.strings = strings
        before = frame.start
        symbols = self._symbols(frame, feeds, start, outer or {})
        frame.lend(feeds, lent)
        if frame.symbols[0] != symbols:
            self._bind(frame, 0, symbols)
        self._feed(frame, feeds)
        if turns is not None and self._code.is_body and turns.run(frame, self._outputs(frame, symbols)):
            return []
        self._go(frame, symbols)
        if self._is_plain and outer is None and before and frame.start and not frame.inputs:
            frame.inputs = self._buffers.inputs(frame, frame.start[0])
        return self._outputs(frame, symbols)

    def _go(self, frame: Frame, symbols: dict[str, int]) -> None:
        """Run a frame that was fed, epoch by epoch; the symbols that it finds are added."""
        results: list[tuple[Feed, int]] = []
        held: list[Callable[[], None]] = []
        try:
            for number, epoch in enumerate(self._code.epochs):
                if frame.symbols[number] != symbols:
                    self._bind(frame, number, symbols)
                self._buffers.put(frame, results)
                while held:
                    held.pop()()
                for step in frame.steps[number]:
                    poll()
                    if isinstance(step, plans.Host):
                        self._buffers.put(frame, self._halts.results(frame, step, symbols))
                    else:
                        step()
                if epoch.halt:
                    poll()
                    results = self._halts.take(frame, epoch.halt, symbols, held)
        finally:
            while held:
                held.pop()()

    def _bind(self, frame: Frame, number: int, symbols: Mapping[str, int]) -> Binding:
        """Have an epoch bound for these sizes, and its steps prepared."""
        with Whole():
            binding = frame.bind(number, symbols)
        if not binding.steps:
            launches = iter(frame.launches[number])
            items = [item for item in self._code.epochs[number].items if not plans.halts(item)]
            binding.steps = [self._step(frame, item, launches, binding.symbols) for item in items]
        frame.settle(number, binding)
        return binding

    def _step(
        self, frame: Frame, item: Any, launches: Iterator[Callable[[], None]], symbols: Mapping[str, int]
    ) -> Callable[[], None] | plans.Host:
        """What to call for an item of an epoch; it does not know the frame, so that no cycle keeps its memory."""
        if isinstance(item, plans.Host):
            return item
        if isinstance(item, plans.Copy):
            source, device = self._buffers.handle(frame, item.source, symbols), self.plan.buffers[item.target].device
            return partial(self._buffers.move, source, device, frame.address(item.target))
        if isinstance(item, streamed.Load):
            owner = self.devices[self.plan.buffers[item.buffer].device]
            return partial(streamed.load, owner, frame.address(item.buffer), self.plan.weights[item.weight])
        if isinstance(item, streamed.Drop):
            return partial(streamed.drop, [self.plan.weights[name] for name in item.weights])
        if self._profiler is None:
            return next(launches)
        (launch,) = item.launches
        name, details = f"{self._code.label(launch)}{KERNEL}", describe(self.plan, launch, symbols)
        span = partial(self._profiler.span, name, NODE, **details)
        return partial(_watched, span, next(launches), self.devices[item.device])

    def _outputs(self, frame: Frame, symbols: Mapping[str, int]) -> list[Handle]:
        return self._buffers.handles(frame, [k for k, _ in self._results], symbols)

    def _symbols(self, frame: Frame, feeds: Sequence[Feed], start: Start, outer: Mapping[str, int]) -> dict[str, int]:
        """The symbols that are known at the start, which the frame remembers for feeds of the same shapes."""
        shapes, found = start.shapes, start.symbols
        if frame.start is None or frame.start[0] != shapes or frame.start[1] != outer:
            symbols = self._bind_symbols(feeds, dict(outer)) if found is None else {**outer, **found}
            if self._reads_feeds:
                return symbols
            frame.start = shapes, dict(outer), symbols
        return dict(frame.start[2])

    def _bind_symbols(self, feeds: Sequence[Feed], symbols: dict[str, int]) -> dict[str, int]:
        for name, places in self.plan.symbols.items():
            sizes = {feeds[k].shape[axis] for k, axis in places if axis < len(feeds[k].shape)}
            if len(sizes) != 1:
                raise GuardError(f"{name} would be {' and '.join(map(str, sorted(sizes)))}", symbols)
            symbols[name] = sizes.pop()
        for port, feed in zip(self.plan.inputs, feeds, strict=True):
            if port.symbols:
                values = self._buffers.fetch(feed).reshape(-1).tolist()
                if len(values) != len(port.symbols):
                    raise GuardError(f"{port.name} has {len(values)} elements, not {len(port.symbols)}", symbols)
                symbols.update(zip(port.symbols, map(int, values), strict=True))
        for k, (port, feed) in enumerate(zip(self.plan.inputs, feeds, strict=True)):
            if self._inputs[k](symbols) != feed.shape:
                raise GuardError(f"{port.name} has the shape {list(feed.shape)}", symbols)
        return symbols

    def refusal(self, feeds: Sequence[Feed], outer: Mapping[str, int]) -> GuardError:
        """Why the plan is not for feeds that do not fit it."""
        try:
            symbols = self._bind_symbols(feeds, dict(outer))
        except GuardError as error:
            return error
        guard = self.fit.broken(symbols) if self.fit else None
        assert guard is not None, "they fit"
        return GuardError(guard_text(*guard), symbols)

    def _feed(self, frame: Frame, feeds: Sequence[Feed]) -> None:
        if self._takes_strings:
            feeds = [frame.strings.encode(x) if isinstance(x, np.ndarray) and x.dtype == object else x for x in feeds]
        for number, k, device in frame.fed:
            self._buffers.move(feeds[number], device, frame.address(k))


def _watched(span: Callable[[], AbstractContextManager[Any]], run: Callable[[], None], device: Device) -> None:
    """Run a launch within a span of a profile, which gets the milliseconds on the device, where that has a clock."""
    with span() as details:
        seconds = device.timed(run)
        if seconds is not None:
            details["device"] = 1e3 * seconds
