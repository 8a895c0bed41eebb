"""From a trace to a plan: kernels in order, copies between devices, buffers with lifetimes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx.code.kernel import Kernel, Routine
from sardonyx.code.parameters import SizeTable, encode
from sardonyx.common.dtypes import DType
from sardonyx.common.record import replace
from sardonyx.compiler import slices
from sardonyx.compiler.finish import KernelCall, described, finish, kernel_name
from sardonyx.compiler.fuse import MOST_PARTS, Fusion, fuse
from sardonyx.compiler.halts import STEPS
from sardonyx.compiler.live import live_equations
from sardonyx.compiler.lower import ELEMENT, FOLD, STORED, KernelBuilder
from sardonyx.compiler.partition import ExcludedError, GiantError, Place, giants, refuse_giants, rewritten
from sardonyx.compiler.views import store_core
from sardonyx.errors import RuntimeException
from sardonyx.plans import layout
from sardonyx.plans import plan as plans
from sardonyx.plans.setup import take_out
from sardonyx.plans.weight_table import WeightTable
from sardonyx.primitives.array import Array, Equation, Shape
from sardonyx.primitives.body import Body
from sardonyx.primitives.trace import Trace
from sardonyx.providers.contract import Provider
from sardonyx.sizes.polynomial import ZERO, Poly
from sardonyx.sizes.symbolic import count, poly, product

LAST = 1 << 60


class Scheduler:
    """Builds one plan. `device_of` numbers the provider of each equation."""

    def __init__(
        self, trace: Trace, providers: Sequence[Provider], device_of: dict[Equation, int], weights: WeightTable
    ) -> None:
        self.trace = trace
        self.providers = providers
        self.device_of = device_of
        self.weights = weights
        self.equations = live_equations(trace)
        self.fusion: Fusion = fuse(
            self.equations,
            trace.outputs,
            device_of,
            providers,
            trace.laid,
        )
        self.slices = slices.find(self.equations, trace.outputs, self.fusion, device_of, providers)
        self.steps: list[plans.Step] = []
        self.codes: list[dict[str, Any]] = []
        self._code_numbers: dict[Any, int] = {}
        self.buffers: list[plans.Buffer] = []
        self.lives: list[list[int]] = []
        self.room: list[int] = []
        self.elements: list[Poly] = []
        self._numbers: dict[tuple[Array, int], int] = {}
        self._homes: dict[Array, int] = {}
        self._keep: list[Array] = []
        self._calls: list[dict[int, KernelCall]] = [{} for _ in providers]
        self._finished: dict[Any, tuple[Kernel, list[Poly]]] = {}
        """Kernels and their parameters by what describes them: layers that repeat have the same ones."""
        self.epoch = 0
        self.used_weights: dict[str, np.ndarray] = {}
        self.functions: list[list[plans.Plan]] = []
        self.compilers: list[Any] = []

    # ---- buffers

    def make_buffer(self, array: Array, device: int, elements: Poly | None = None, weight: str | None = None) -> int:
        shape = [poly(size).json() for size in array.shape]
        room = elements if elements is not None else poly(product(array.shape))
        self.buffers.append(plans.Buffer(device, array.dtype.name, shape, room.json(), self.epoch, weight=weight))
        self.elements.append(room)
        step = len(self.steps)
        self.lives.append([step, step])
        self.room.append(count(array.shape) * array.dtype.itemsize)
        number = len(self.buffers) - 1
        self._numbers[array, device] = number
        self._keep.append(array)
        return number

    def buffer(self, array: Array, device: int) -> int:
        """The buffer of a written Array, an input or a constant on a device; copies it there if need be."""
        number = self._numbers.get((array, device))
        if number is None:
            if array.value is not None:
                name = self.weights.name(array.value)
                self.used_weights[name] = array.value
                number = self.make_buffer(array, device, weight=name)
            elif array.equation is None:
                number = self.make_buffer(array, device)
                self.lives[number][0] = -1
                self.buffers[number].epoch = plans.OUTSIDE if array in self.trace.caches else 0
            else:
                source = self.buffer(array, self._homes[array])
                number = self.make_buffer(array, device, self.elements[source])
                self.steps.append(plans.Copy(source, number))
        self.lives[number][1] = max(self.lives[number][1], len(self.steps))
        return number

    def output_buffer(self, array: Array, device: int, elements: Poly | None = None) -> int:
        """The buffer that an Array is written to, a new one if it does not lie in one that is there."""
        array = self.slices.whole(array)
        if (number := self._numbers.get((array, device))) is not None:
            return number
        self._homes[array] = device
        return self.make_buffer(array, device, elements)

    # ---- steps

    def function(self, body: Body, trace: Trace) -> int:
        """The number of a new function: the body of control flow, with what makes further plans of it."""

        def compile_body(symbols: Mapping[str, int]) -> plans.Plan:
            traced = trace if symbols is trace.guards.hints else body.trace(symbols)

            def plan(excluded: Collection[Place]) -> plans.Plan:
                again = body.trace(symbols) if excluded else traced
                if len(again.inputs) != len(trace.inputs):
                    raise RuntimeException(
                        "for other sizes a body of control flow uses other values; this cannot be run yet"
                    )
                names, results = [array.name for array in again.inputs], [""] * len(again.outputs)
                return schedule(again, self.providers, self.weights, names, results, body.symbols, excluded)

            return without_excluded(plan)

        self.functions.append([compile_body(trace.guards.hints)])
        self.compilers.append(compile_body)
        return len(self.functions) - 1

    def at_home(self, array: Array) -> int:
        """The buffer of a written Array on the device that made it, or any that has it."""
        home = self._homes.get(array)
        if home is None:
            home = next((d for d in range(len(self.providers)) if (array, d) in self._numbers), 0)
        return self.buffer(array, home)

    def plan(self, inputs: Sequence[str], outputs: Sequence[str], symbols: dict[str, list[list[int]]]) -> plans.Plan:
        """The plan, with the names of its inputs and outputs, and where its symbols come from."""
        for equation in self.equations:
            if equation.primitive.name in STORED:
                self._place_cache(equation, self.device_of[equation])
        for equation in self.equations:
            self._step(equation)
        results = [self.at_home(array) for array in self.trace.outputs]
        for number in results:
            self.lives[number][1] = LAST
        setup, steps = take_out(self.steps, self.buffers, self.codes, self._keys(), results)
        for device, calls in enumerate(self._calls):
            steps = self._join_rows(steps, device, calls, results)
        if self.trace.memory_limit and self.trace.backward:
            steps = self._within_limit(steps, results)
        self._drop_codes([*setup, *steps])
        self._layout()
        homes = list(map(self._places, self.trace.inputs))
        reads = [[str(size) for size in self.trace.input_reads.get(array, [])] for array in self.trace.inputs]
        return plans.Plan(
            [provider.name for provider in self.providers],
            [
                _port(name, array.dtype, self._shape(array), home, read)
                for name, array, home, read in zip(inputs, self.trace.inputs, homes, reads, strict=True)
            ],
            [
                _port(name, array.dtype, array.shape, [number], [])
                for name, array, number in zip(outputs, self.trace.outputs, results, strict=True)
            ],
            symbols,
            [[polynomial.json(), relation, truth] for polynomial, relation, truth in self.trace.guards],
            self.buffers,
            self.codes,
            steps,
            self.trace.labels,
            self._placement(),
            self.used_weights,
            setup,
            self.functions,
            self.compilers,
            self.trace.arguments,
            self.trace.results,
            self.trace.strings.texts,
            self.trace.is_beginning,
        )

    def _places(self, array: Array) -> list[int]:
        """The buffers of an Array, one for each device that has it."""
        return [
            self._numbers[array, device] for device in range(len(self.providers)) if (array, device) in self._numbers
        ]

    def _shape(self, array: Array) -> Shape:
        """The shape of an input as it is fed: of a cache what it holds, and the room along its axis."""
        held = self.trace.caches.get(array)
        return array.shape if held is None else (*held.tensor.shape, array.shape[held.axis])

    def _keys(self) -> dict[int, str]:
        """The digest of each code by its number."""
        return {number: key for (_, _, key), number in self._code_numbers.items()}

    def _placement(self) -> list[int]:
        """The device of every ONNX node, -1 for one that nothing is left of."""
        placement = [-1] * len(self.trace.labels)
        for equation in self.equations:
            if equation.origin >= 0:
                placement[equation.origin] = self.device_of[equation]
        return placement

    def _step(self, equation: Equation) -> None:
        name = equation.primitive.name
        device = self.device_of[equation]
        if name in STEPS:
            STEPS[name](self, equation, device)
        elif name in self.providers[device].routines:
            if self.fusion.is_written(equation.outputs[0]):
                (output, *_) = equation.outputs
                self._routine(equation, device, self._epilogue(output, output) if output in self.slices else None)
        elif name in STORED:
            self._append(equation, device)
        elif name in ELEMENT or name in FOLD:
            if self.fusion.is_written(equation.outputs[0]):
                self._kernel(equation, device)
        else:
            self._program(equation, device)

    def _kernel(self, equation: Equation, device: int) -> None:
        (output,) = equation.outputs
        core = self.fusion.core.get(output)
        if core is not None and core.equation is not None and core.equation.primitive.name not in FOLD:
            if (epilogue := self._epilogue(core, output)) is not None:
                self._routine(core.equation, device, epilogue)
                return
            self._routine(core.equation, device)
            self.fusion.written.add(core)
            core = None
        if equation.primitive.name == "concat":
            self._concat(equation, device)
            return
        b = self._builder(output, core, lambda b: b.store_root(output))
        target = self.output_buffer(output, device)
        self._launch(b, kernel_name(b, equation), device, [target], equation.origin)

    def _concat(self, equation: Equation, device: int) -> None:
        """Store the parts of a concatenation that are not in their place yet, few of them in one launch."""
        (output,) = equation.outputs
        axis, start = equation.params["axis"], ZERO
        missing = []
        for x in equation.inputs:
            if x not in self.slices or self.slices.parts[x].whole is not output:
                missing.append((x, start))
            start = start + poly(x.shape[axis])
        provider = self.providers[device]
        if provider.strided and len(missing) == len(equation.inputs) in range(2, MOST_PARTS + 1):
            b = KernelBuilder(self._is_buffer, place=self.slices.place)
            b.store_root(output)
            if len(b.reads) < provider.max_buffers and self.slices.whole(output) not in b.reads:
                self._launch(b, "concat", device, [self.output_buffer(output, device)], equation.origin)
                return
        for x, start in missing:
            self._store_part(equation, device, x, start)

    def _place_cache(self, append: Equation, device: int) -> None:
        """Have what is kept lie where the cache does."""
        (output,) = append.outputs
        self._numbers[output, device] = self.buffer(append.inputs[0], device)
        self._homes[output] = device

    def _append(self, equation: Equation, device: int) -> None:
        """Store what is new behind a cache, if it is not there yet."""
        _, new = equation.inputs
        if new not in self.slices or self.slices.parts[new].whole is not equation.outputs[0]:
            self._store_part(equation, device, new, poly(equation.params["start"]))

    def _store_part(self, concat: Equation, device: int, x: Array, start: Poly) -> None:
        """Launch what copies a part of a concatenation to its place, or computes it there."""
        (output,) = concat.outputs
        b = KernelBuilder(self._is_buffer, place=self.slices.place)
        b.store(output, x, concat.params["axis"], start)
        self._launch(b, concat.primitive.name, device, [self.output_buffer(output, device)], concat.origin)

    def _builder(self, output: Array, core: Array | None, write: Callable[[KernelBuilder], object]) -> KernelBuilder:
        """A kernel that writes an Array, in a buffer of its own if a fold or a Routine reads the whole that it is to be
        a part of: vectors may be loaded from what is stored singly."""
        b = KernelBuilder(self._is_buffer, core, self.slices.place)
        write(b)
        if core is not None and output in self.slices and self.slices.whole(output) in b.reads:
            self.slices.remove(output)
            b = KernelBuilder(self._is_buffer, core, self.slices.place)
            write(b)
        return b

    def _epilogue(self, core: Array, output: Array) -> KernelBuilder | None:
        """What makes an Array of a Routine's result, element by element; None where movement is in the way."""
        b = self._builder(output, core, lambda b: b.store_root(output))
        if b.in_order:
            return b
        b = KernelBuilder(self._is_buffer, core, self.slices.place)
        return b if store_core(b, output) else None

    def _launch(self, b: KernelBuilder, name: str, device: int, targets: list[int], origin: int) -> None:
        provider = self.providers[device]
        key = name, device, described(b)
        if key not in self._finished:
            self._finished[key] = finish(b, name, lanes=provider.lanes)
        kernel, known = self._finished[key]
        params = [*known]
        code: Any = kernel
        if provider.form == "program":
            from sardonyx.code import loops  # which few devices need

            code = loops.program(kernel)
        reads = [self.buffer(array, device) for array in b.reads]
        step = self.launch(code, reads + targets, params, sorted(b.origins | {origin}), device)
        if provider.rows and not {*reads} & {*targets}:
            self._calls[device][id(step)] = KernelCall(kernel, params)

    def launch(
        self, code: Any, buffers: list[int], params: list[Poly], origins: list[int], device: int
    ) -> plans.Launch:
        step = self._made_launch(code, buffers, params, origins, device)
        for number in buffers:
            self.lives[number][1] = max(self.lives[number][1], len(self.steps))
        self.steps.append(step)
        return step

    def _made_launch(
        self, code: Any, buffers: list[int], params: list[Poly], origins: list[int], device: int
    ) -> plans.Launch:
        key = (device, type(code).__name__, code.key)
        if key not in self._code_numbers:
            self._code_numbers[key] = len(self.codes)
            self.codes.append({"device": device, **code.json()})
        return plans.Launch(self._code_numbers[key], buffers, [p.json() for p in params], origins, device)

    def _join_rows(
        self, steps: list[plans.Step], device: int, calls: Mapping[int, KernelCall], outputs: Collection[int]
    ) -> list[plans.Step]:
        """The steps, with Rows instead of launches over the same rows."""
        if not calls:
            return steps
        from sardonyx.compiler import rows  # which few devices need

        provider = self.providers[device]
        places = {id(step): k for k, step in enumerate(self.steps)}
        result = list(steps)
        joined = rows.join(steps, calls, outputs, provider.max_buffers, provider.lanes)
        for item in reversed(joined):
            old = steps[item.first : item.first + item.count]
            launches = [step for step in old if isinstance(step, plans.Launch)]
            origins = sorted({origin for step in launches for origin in step.origins})
            written = item.buffers[len(item.code.reads) :]
            step = self._made_launch(item.code, item.buffers, item.params, origins, device)
            result[item.first : item.first + item.count] = [step]
            first, last = places[id(old[0])], places[id(old[-1])]
            for number in item.buffers:
                life = self.lives[number]
                life[:] = min(life[0], first) if number in written else life[0], max(life[1], last)
            for number in item.dropped:
                self.buffers[number].shape, self.buffers[number].elements, self.room[number] = [0], 0, 0
        return result

    def _within_limit(self, steps: list[plans.Step], outputs: list[int]) -> list[plans.Step]:
        """The steps, some of them twice where values that are stored for a backward pass are too many."""
        from sardonyx.compiler.repetition import Launches, held_inside  # which few plans need

        inputs = [number for array in self.trace.inputs for number in self._places(array)]
        launches = Launches(steps, self.buffers, self.elements, self.room, self.lives, self.codes, inputs, outputs)
        others = sum(array.nbytes for array in self.used_weights.values())
        others += held_inside(self.functions, self.trace.guards.hints)
        return launches.within(self.trace.memory_limit - others, self.trace)

    def _drop_codes(self, steps: Sequence[plans.Step]) -> None:
        """Keep the codes that are launched."""
        launches = [step for step in steps if isinstance(step, plans.Launch)]
        used = sorted({step.code for step in launches})
        self.codes = [self.codes[number] for number in used]
        for step in launches:
            step.code = used.index(step.code)

    def _is_buffer(self, array: Array) -> bool:
        return array.equation is None or self.fusion.is_written(array)

    def _routine(self, equation: Equation, device: int, epilogue: KernelBuilder | None = None) -> None:
        """Launch a Routine, with what is done to its result."""
        provider = self.providers[device]
        table = SizeTable(literal=provider.literal)
        summed = provider.summed.get(equation.primitive.name, ())
        views = self.fusion.views[equation]
        reads = [self.buffer(operand.source, device) for operand in views]
        rooms = _rooms(equation)
        shapes = [
            [poly(size) for size in array.shape] if room is None else [room]
            for array, room in zip(equation.outputs, rooms, strict=True)
        ]
        outputs = equation.outputs if epilogue is None else epilogue.writes
        others = () if epilogue is None else epilogue.reads
        reads += [self.buffer(array, device) for array in others]
        writes = [self.output_buffer(array, device, room) for array, room in zip(outputs, rooms, strict=True)]
        code = Routine(
            equation.primitive.name if epilogue is None else kernel_name(epilogue, equation),
            equation.primitive.name,
            tuple(array.dtype.lowered.name for array in (*equation.inputs, *others)),
            tuple(array.dtype.lowered.name for array in outputs),
            0,
            encode(equation.params, table),
            tuple(
                [table.size(poly(size), (number, axis) in summed) for axis, size in enumerate(array.shape)]
                for number, array in enumerate(equation.inputs)
            ),
            tuple([table.size(size) for size in shape] for shape in shapes),
        )
        lanes, origins = provider.lanes, {equation.origin}
        if epilogue is not None:
            kernel, _ = finish(epilogue, code.name, table, lanes)
            code = replace(code, epilogue=kernel.json())
            origins |= epilogue.origins
        placed = tuple(operand.data(table) for operand in views)
        buffers = [*reads, *writes]
        code = replace(
            code,
            params=len(table.params),
            multiples=table.multiples(lanes),
            views=placed if any(placed) else (),
            same=tuple(map(buffers.index, buffers)) if len(set(buffers)) < len(buffers) else (),
        )
        self.launch(code, buffers, table.params, sorted(origins), device)

    def _program(self, equation: Equation, device: int) -> None:
        from sardonyx.compiler.routines import IN_PLACE, ROUTINES, operands  # which few plans need

        program, params = ROUTINES[equation.primitive.name](equation)
        writes = [
            self.output_buffer(array, device, room)
            for array, room in zip(equation.outputs, _rooms(equation), strict=True)
        ]
        if equation.primitive.name in IN_PLACE:
            b = KernelBuilder(self._is_buffer, place=self.slices.place)
            b.store(equation.outputs[0], equation.inputs[0])
            self._launch(b, "copy", device, writes, equation.origin)
        reads = [self.buffer(array, device) for array in operands(equation)]
        self.launch(program, reads + writes, params, [equation.origin], device)

    def _layout(self) -> None:
        groups: dict[tuple[int, int], list[int]] = {}
        for number, buffer in enumerate(self.buffers):
            if buffer.weight is None and buffer.epoch != plans.OUTSIDE:
                groups.setdefault((buffer.device, buffer.epoch), []).append(number)
        for numbers in groups.values():
            lives = [layout.Lifetime(self.lives[n][0], self.lives[n][1], self.room[n]) for n in numbers]
            for number, below in zip(numbers, layout.beneath(lives), strict=True):
                self.buffers[number].beneath = [numbers[k] for k in below]


def _port(name: str, dtype: DType, shape: Shape, buffers: list[int], symbols: list[str]) -> plans.Port:
    return plans.Port(name, dtype.name, [poly(size).json() for size in shape], buffers, symbols)


def _rooms(equation: Equation) -> list[Poly | None]:
    """The elements that outputs may need, where their shapes tell only what the run finds."""
    room = equation.primitive.room
    return [None if room is None else poly(room(k, *equation.inputs)) for k in range(len(equation.outputs))]


def schedule(
    trace: Trace,
    providers: Sequence[Provider],
    weights: WeightTable,
    inputs: Sequence[str],
    outputs: Sequence[str],
    symbols: dict[str, list[list[int]]],
    excluded: Collection[Place] = frozenset(),
) -> plans.Plan:
    """Partition a trace among providers and make its plan. Raises ExcludedError where other nodes must be."""
    with trace.guards:
        device_of = rewritten(trace, providers, excluded)
        scheduler = Scheduler(trace, providers, device_of, weights)
        refuse_giants(scheduler.equations, trace.labels)
        if places := giants(scheduler.equations, device_of, providers, scheduler.fusion.is_written) - {*excluded}:
            raise GiantError(places)
        return scheduler.plan(inputs, outputs, symbols)


def without_excluded(plan: Callable[[Collection[Place]], plans.Plan]) -> plans.Plan:
    """The plan that does not give providers nodes that they turn out not to be able to run."""
    excluded: set[Place] = set()
    while True:
        try:
            return plan(excluded)
        except ExcludedError as error:
            excluded |= {*error.places}
