"""What a plan halts for: functions of the host, control flow, and numbers that the rest of a run depends on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from sardonyx import host
from sardonyx.common import dtypes
from sardonyx.common.strings import RunStrings
from sardonyx.common.termination import poll
from sardonyx.errors import RuntimeException, SardonyxError
from sardonyx.plans import plan as plans
from sardonyx.providers.contract import Device
from sardonyx.runtime.buffers import Buffers
from sardonyx.runtime.frames import Frame
from sardonyx.runtime.handles import Feed, Handle
from sardonyx.runtime.turns import Turns
from sardonyx.sizes.expression import evaluate, to_text
from sardonyx.sizes.sizecode import symbols_of


class Callee(Protocol):
    """A branch, or the body of a loop, with all the plans made for it (`sardonyx.runtime.executor.CompiledGraph`)."""

    def call(
        self,
        feeds: Sequence[Feed],
        strings: RunStrings,
        symbols: Mapping[str, int] | None = None,
        *,
        lent: int = 0,
        turns: Turns | None = None,
    ) -> tuple[list[Handle], plans.Plan, Callable[[], None]]:
        """The outputs, the plan that made them, and what releases them."""
        ...


class Halts:
    """Takes the steps of a plan that the host has a part in; `functions` are its branches and bodies of loops."""

    def __init__(
        self, plan: plans.Plan, devices: Sequence[Device], buffers: Buffers, functions: Sequence[Callee]
    ) -> None:
        self.plan = plan
        self.devices = devices
        self._buffers = buffers
        self._functions = functions

    def results(self, frame: Frame, step: plans.Host, symbols: dict[str, int]) -> list[tuple[Feed, int]]:
        """What a function of the host gives, and the buffers that get it."""
        return list(zip(self._call(frame, step, symbols), step.results, strict=True))

    def take(
        self, frame: Frame, step: plans.Halt, symbols: dict[str, int], held: list[Callable[[], None]]
    ) -> list[tuple[Feed, int]]:
        """Take a step after which more symbols are known: results, and the buffers of the next epoch that get them."""
        if isinstance(step, plans.Read):
            values = self._buffers.values(frame, step.buffer, len(step.symbols))
            symbols.update(zip(step.symbols, values, strict=True))
            return []
        results = list(zip(self._run(frame, step, symbols, held), step.results, strict=True))
        self._learn(step, results, symbols)
        return results

    def _run(
        self, frame: Frame, step: plans.HostStep, symbols: dict[str, int], held: list[Callable[[], None]]
    ) -> Sequence[Feed]:
        if isinstance(step, plans.Host):
            return self._call(frame, step, symbols)
        if isinstance(step, plans.Branch):
            return self._branch(frame, step, symbols, held)
        return self._loop(frame, step, symbols, held)

    def _call(self, frame: Frame, step: plans.Host, symbols: dict[str, int]) -> list[np.ndarray]:
        operands = [
            (self._buffers.reader(frame, k, symbols)(), dtypes.by_name(self.plan.buffers[k].dtype)) for k in step.inputs
        ]
        buffers = [self.plan.buffers[k] for k in step.results]
        try:
            results = host.call(
                step.function, step.attributes, operands, [dtypes.by_name(b.dtype) for b in buffers], frame.strings
            )
            known = {**symbols, **{name: results[k].shape[axis] for name, k, axis in step.symbols}}
            for k, (result, buffer) in enumerate(zip(results, buffers, strict=True)):
                want = tuple(evaluate(size, known) for size in buffer.shape)
                if result.shape != want:
                    raise ValueError(f"result {k} of {step.function} is {list(result.shape)}, not {list(want)}")
        except SardonyxError:
            raise
        except Exception as error:
            nodes = self.plan.nodes
            label = nodes[step.origin] if step.origin < len(nodes) else step.function
            raise RuntimeException(f"{label}: {error}") from error
        return results

    def _branch(
        self, frame: Frame, step: plans.Branch, symbols: dict[str, int], held: list[Callable[[], None]]
    ) -> Sequence[Feed]:
        (condition,) = self._buffers.values(frame, step.condition, 1)
        chosen = 0 if condition else 1
        operands = [self._buffers.handle(frame, k, symbols) for k in step.operands[chosen]]
        results, _, release = self._functions[step.functions[chosen]].call(
            operands, frame.strings, symbols, lent=len(operands)
        )
        held.append(release)
        return results

    def _loop(
        self, frame: Frame, step: plans.Loop, symbols: dict[str, int], held: list[Callable[[], None]]
    ) -> Sequence[Feed]:
        most = self._buffers.values(frame, step.trips, 1)[0] if step.trips >= 0 else None
        going = step.condition < 0 or bool(self._buffers.values(frame, step.condition, 1)[0])
        captured = [self._buffers.handle(frame, k, symbols) for k in step.captured]
        carried = [self._buffers.handle(frame, k, symbols) for k in step.carried]
        turns = Turns(self.devices, most, going, step.condition >= 0, carried, len(step.results) - len(carried))
        function = self._functions[step.function]
        try:
            while not turns.is_over:
                poll()
                feeds = [*turns.feeds(), *captured]
                results, _, release = function.call(feeds, frame.strings, symbols, lent=len(captured), turns=turns)
                while held:
                    held.pop()()
                held.append(release)
                if results:
                    turns.advance(results, self._buffers.fetch(results[0]) if step.condition >= 0 else None)
        except BaseException:
            turns.free()
            raise
        held.append(turns.free)
        scans = zip(turns.stacked(), step.results[len(carried) :], strict=True)
        stacked = [self._no_slices(buffer, symbols) if result is None else result for result, buffer in scans]
        return [*turns.carried, *stacked]

    def _no_slices(self, buffer: int, symbols: Mapping[str, int]) -> np.ndarray:
        """A scan output of no iteration; sizes that only an iteration tells are 0."""
        stored = self.plan.buffers[buffer]
        sizes = [evaluate(size, symbols) if symbols_of(size) <= symbols.keys() else 0 for size in stored.shape[1:]]
        return np.empty((0, *sizes), dtypes.by_name(stored.dtype).storage)

    def _learn(
        self, step: plans.Host | plans.Branch | plans.Loop, results: Sequence[tuple[Feed, int]], symbols: dict[str, int]
    ) -> None:
        """Take symbols from the shapes of results; the rest of these must be what the plan was made for."""
        alike = all(len(feed.shape) == len(self.plan.buffers[k].shape) for feed, k in results)
        if alike:
            symbols.update((name, results[k][0].shape[axis]) for name, k, axis in step.symbols)
        for feed, k in results:
            if not alike or (feed.shape != self._buffers.shape(k, symbols) and 0 not in feed.shape):
                planned = ", ".join(map(to_text, self.plan.buffers[k].shape))
                raise RuntimeException(
                    f"the data led control flow to a result of shape {list(feed.shape)}, where [{planned}] is planned; "
                    "let all ways through it give the same shape"
                )
