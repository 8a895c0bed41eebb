"""From a trace to a plan: kernels in order, copies between devices, buffers with lifetimes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sardonyx import memory
from sardonyx import plan as plans
from sardonyx.array import PRIMITIVES, Array, Equation, Trace
from sardonyx.compiler import layout, loops
from sardonyx.compiler.fuse import Fusion, fuse
from sardonyx.compiler.kernel import Routine
from sardonyx.compiler.lower import ELEMENT, FOLD, KernelBuilder
from sardonyx.compiler.rewriting import expand_composites
from sardonyx.compiler.routines import IN_PLACE, ROUTINES, operands
from sardonyx.compiler.setup import take_out
from sardonyx.compiler.sizes import Parameter, SizeTable
from sardonyx.compiler.weight_table import WeightTable
from sardonyx.device import Provider
from sardonyx.dtypes import DType
from sardonyx.errors import NotImplemented, RuntimeException
from sardonyx.polynomial import ZERO, Poly
from sardonyx.primitives.control import Body
from sardonyx.providers import NUMPY
from sardonyx.symbolic import Dim, count, poly, product

LAST = 1 << 60


def live_equations(trace: Trace) -> list[Equation]:
    """The equations that the outputs, or the host, need."""
    needed = {id(array) for array in trace.outputs}
    kept = []
    for equation in reversed(trace.equations):
        if any(id(array) in needed for array in equation.outputs) or _defines(equation, trace):
            needed.update(map(id, equation.inputs))
            kept.append(equation)
    return kept[::-1]


def _defines(equation: Equation, trace: Trace) -> bool:
    """Whether sizes are found out by this step: other shapes may depend on them, though nothing reads the results."""
    if equation.primitive.name in ("read", "host"):
        return bool(equation.params["symbols"])
    sizes = (str(size) for array in equation.outputs for size in array.shape if isinstance(size, Dim))
    return equation.primitive.name in STEPS and not trace.fresh.isdisjoint(sizes)


class Scheduler:
    """Builds one plan. `device_of` numbers the provider of each equation."""

    def __init__(
        self, trace: Trace, providers: Sequence[Provider], device_of: dict[int, int], weights: WeightTable
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
        self.steps: list[plans.Step] = []
        self.codes: list[dict[str, Any]] = []
        self._code_numbers: dict[Any, int] = {}
        self.buffers: list[plans.Buffer] = []
        self.lives: list[list[int]] = []
        self.room: list[int] = []
        self.elements: list[Poly] = []
        self._numbers: dict[tuple[int, int], int] = {}
        self._homes: dict[int, int] = {}
        self._keep: list[Array] = []
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
        self._numbers[id(array), device] = number
        self._keep.append(array)
        return number

    def buffer(self, array: Array, device: int) -> int:
        """The buffer of a written Array, an input or a constant on a device; copies it there if need be."""
        number = self._numbers.get((id(array), device))
        if number is None:
            if array.value is not None:
                name = self.weights.name(array.value)
                self.used_weights[name] = array.value
                number = self.make_buffer(array, device, weight=name)
            elif array.equation is None:
                number = self.make_buffer(array, device)
                self.lives[number][0] = -1
                self.buffers[number].epoch = 0
            else:
                source = self.buffer(array, self._homes[id(array)])
                number = self.make_buffer(array, device, self.elements[source])
                self.steps.append(plans.Copy(source, number))
        self.lives[number][1] = max(self.lives[number][1], len(self.steps))
        return number

    def output_buffer(self, array: Array, device: int, elements: Poly | None = None) -> int:
        self._homes[id(array)] = device
        return self.make_buffer(array, device, elements)

    # ---- steps

    def function(self, body: Body, trace: Trace) -> int:
        """The number of a new function: the body of control flow, with what makes further plans of it."""

        def compile_body(symbols: Mapping[str, int]) -> plans.Plan:
            again = trace if symbols is trace.guards.hints else body.trace(symbols)
            if len(again.inputs) != len(trace.inputs):
                raise RuntimeException(
                    "for other sizes a body of control flow uses other values; this cannot be run yet"
                )
            names = [array.name for array in again.inputs]
            return schedule(again, self.providers, self.weights, names, [""] * len(again.outputs), body.symbols)

        self.functions.append([compile_body(trace.guards.hints)])
        self.compilers.append(compile_body)
        return len(self.functions) - 1

    def at_home(self, array: Array) -> int:
        """The buffer of a written Array on the device that made it, or any that has it."""
        home = self._homes.get(id(array))
        if home is None:
            home = next((d for d in range(len(self.providers)) if (id(array), d) in self._numbers), 0)
        return self.buffer(array, home)

    def plan(self, inputs: Sequence[str], outputs: Sequence[str], symbols: dict[str, list[list[int]]]) -> plans.Plan:
        """The plan, with the names of its inputs and outputs, and where its symbols come from."""
        for equation in self.equations:
            self._step(equation)
        results = [self.at_home(array) for array in self.trace.outputs]
        for number in results:
            self.lives[number][1] = LAST
        setup, steps = take_out(self.steps, self.buffers, self.codes, self._keys(), results)
        self._layout()
        homes = [
            [
                self._numbers[id(array), device]
                for device in range(len(self.providers))
                if (id(array), device) in self._numbers
            ]
            for array in self.trace.inputs
        ]
        reads = [[str(size) for size in self.trace.input_reads.get(id(array), [])] for array in self.trace.inputs]
        return plans.Plan(
            [provider.name for provider in self.providers],
            [_port(*item) for item in zip(inputs, self.trace.inputs, homes, reads, strict=True)],
            [
                _port(name, array, [number], [])
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
        )

    def _keys(self) -> dict[int, str]:
        """The digest of each code by its number."""
        return {number: key for (_, _, key), number in self._code_numbers.items()}

    def _placement(self) -> list[int]:
        """The device of every ONNX node, -1 for one that nothing is left of."""
        placement = [-1] * len(self.trace.labels)
        for equation in self.equations:
            if equation.origin >= 0:
                placement[equation.origin] = self.device_of[id(equation)]
        return placement

    def _step(self, equation: Equation) -> None:
        name = equation.primitive.name
        device = self.device_of[id(equation)]
        if name in STEPS:
            STEPS[name](self, equation, device)
        elif name in self.providers[device].routines:
            if self.fusion.is_written(equation.outputs[0]):
                self._routine(equation, device)
        elif name in ELEMENT or name in FOLD:
            if self.fusion.is_written(equation.outputs[0]):
                self._kernel(equation, device)
        else:
            self._program(equation, device)

    def _kernel(self, equation: Equation, device: int) -> None:
        (output,) = equation.outputs
        core = self.fusion.core.get(id(output))
        if core is not None and core.equation is not None and core.equation.primitive.name not in FOLD:
            epilogue = KernelBuilder(self._is_buffer, core)
            epilogue.store_root(output)
            if epilogue.in_order:
                self._routine(core.equation, device, epilogue)
                return
            self._routine(core.equation, device)
            self.fusion.written.add(id(core))
            core = None
        target = self.output_buffer(output, device)
        if equation.primitive.name == "concat":
            axis, start = equation.params["axis"], ZERO
            for x in equation.inputs:
                b = KernelBuilder(self._is_buffer)
                b.store(output, x, axis, start)
                self._launch(b, "concat", device, [target], equation.origin)
                start = start + poly(x.shape[axis])
            return
        b = KernelBuilder(self._is_buffer, core)
        b.store_root(output)
        self._launch(b, kernel_name(b, equation), device, [target], equation.origin)

    def _launch(self, b: KernelBuilder, name: str, device: int, targets: list[int], origin: int) -> None:
        provider = self.providers[device]
        kernel, params = b.kernel(name, lanes=getattr(provider, "lanes", 1))
        code: Any = kernel
        if provider.form == "program":
            code = loops.program(kernel)
        reads = [self.buffer(array, device) for array in b.reads]
        self.launch(code, reads + targets, params, sorted(b.origins | {origin}), device)

    def launch(self, code: Any, buffers: list[int], params: list[Poly], origins: list[int], device: int) -> None:
        key = (device, type(code).__name__, code.key)
        if key not in self._code_numbers:
            self._code_numbers[key] = len(self.codes)
            self.codes.append({"device": device, **code.json()})
        for number in buffers:
            self.lives[number][1] = max(self.lives[number][1], len(self.steps))
        self.steps.append(plans.Launch(self._code_numbers[key], buffers, [p.json() for p in params], origins, device))

    def _is_buffer(self, array: Array) -> bool:
        return array.equation is None or self.fusion.is_written(array)

    def _routine(self, equation: Equation, device: int, epilogue: KernelBuilder | None = None) -> None:
        """Launch a Routine, with what is done to its result."""
        provider = self.providers[device]
        table = SizeTable(literal=getattr(provider, "literal", 1 << 62))
        reads = [self.buffer(self.fusion.views.get(id(array), array), device) for array in equation.inputs]
        rooms = OUTPUT_ROOM.get(equation.primitive.name)
        shapes = [[poly(size) for size in array.shape] for array in equation.outputs]
        if rooms:
            shapes = [[rooms(equation, k)] for k in range(len(shapes))]
        outputs = equation.outputs if epilogue is None else epilogue.writes
        others = () if epilogue is None else epilogue.reads
        reads += [self.buffer(array, device) for array in others]
        writes = [
            self.output_buffer(array, device, rooms(equation, k) if rooms else None) for k, array in enumerate(outputs)
        ]
        code = Routine(
            equation.primitive.name if epilogue is None else kernel_name(epilogue, equation),
            equation.primitive.name,
            tuple(array.dtype.lowered.name for array in (*equation.inputs, *others)),
            tuple(array.dtype.lowered.name for array in outputs),
            0,
            encode(equation.params, table),
            tuple([table.size(poly(size)) for size in array.shape] for array in equation.inputs),
            tuple([table.size(size) for size in shape] for shape in shapes),
        )
        lanes, origins = getattr(provider, "lanes", 1), {equation.origin}
        if epilogue is not None:
            kernel, _ = epilogue.kernel(code.name, table, lanes)
            code = replace(code, epilogue=kernel.json())
            origins |= epilogue.origins
        code = replace(code, params=len(table.params), multiples=table.multiples(lanes))
        self.launch(code, reads + writes, table.params, sorted(origins), device)

    def _program(self, equation: Equation, device: int) -> None:
        program, params = ROUTINES[equation.primitive.name](equation)
        rooms = OUTPUT_ROOM.get(equation.primitive.name)
        writes = [
            self.output_buffer(array, device, rooms(equation, k) if rooms else None)
            for k, array in enumerate(equation.outputs)
        ]
        if equation.primitive.name in IN_PLACE:
            b = KernelBuilder(self._is_buffer)
            b.store(equation.outputs[0], equation.inputs[0])
            self._launch(b, "copy", device, writes, equation.origin)
        reads = [self.buffer(array, device) for array in operands(equation)]
        self.launch(program, reads + writes, params, [equation.origin], device)

    def _layout(self) -> None:
        groups: dict[tuple[int, int], list[int]] = {}
        for number, buffer in enumerate(self.buffers):
            if buffer.weight is None:
                groups.setdefault((buffer.device, buffer.epoch), []).append(number)
        for numbers in groups.values():
            lives = [layout.Lifetime(self.lives[n][0], self.lives[n][1], self.room[n]) for n in numbers]
            for number, below in zip(numbers, layout.beneath(lives), strict=True):
                self.buffers[number].beneath = [numbers[k] for k in below]


def _port(name: str, array: Array, buffers: list[int], symbols: list[str]) -> plans.Port:
    return plans.Port(name, array.dtype.name, [poly(size).json() for size in array.shape], buffers, symbols)


def _nonzero_room(equation: Equation, k: int) -> Poly:
    (x,) = equation.inputs
    return poly(product(x.shape) * x.rank) if k else poly(1)


OUTPUT_ROOM = {"nonzero": _nonzero_room}
"""Elements that outputs may need, where their shapes tell only what the run finds."""


def encode(value: Any, table: SizeTable) -> Any:
    """A primitive's parameters as JSON; `Routine` says how."""
    if isinstance(value, DType):
        return {"dtype": value.lowered.name}
    if isinstance(value, Dim):
        return {"size": table.size(value.poly)}
    if isinstance(value, Parameter):
        return {"size": table.parameter(value)}
    if isinstance(value, dict):
        return {name: encode(item, table) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [encode(item, table) for item in value]
    if isinstance(value, float) and value - value != 0:
        return {"float": str(value)}
    return value


def kernel_name(b: KernelBuilder, equation: Equation) -> str:
    """What a kernel does, in a few words: its fold, and the functions that are not arithmetic of indices."""
    words = [b.core.equation.primitive.name] if b.core is not None and b.core.equation is not None else []
    for function, _, _, _ in b.nodes:
        if function in PRIMITIVES or function in ("const", "index", "load", "acc", "cast"):
            continue
        if function not in words:
            words.append(function)
    return "_".join(words[:5]) or equation.primitive.name


def _read(s: Scheduler, equation: Equation, device: int) -> None:
    (x,) = equation.inputs
    s.steps.append(plans.Read(s.at_home(x), list(equation.params["symbols"])))
    s.epoch += 1


def _host(s: Scheduler, equation: Equation, device: int) -> None:
    params = equation.params
    inputs = [s.at_home(array) for array in equation.inputs]
    step = plans.Host(params["function"], params["attributes"], inputs, [], params["symbols"], equation.origin)
    if plans.halts(step):
        s.epoch += 1
    step.results = [s.output_buffer(array, device) for array in equation.outputs]
    s.steps.append(step)


def _branch(s: Scheduler, equation: Equation, device: int) -> None:
    condition, operands = s.at_home(equation.inputs[0]), []
    functions, homes = [], []
    for body, trace in equation.bodies:
        functions.append(s.function(body, trace))
        homes.append(_output_devices(s.functions[-1][0]))
        operands.append([s.at_home(s.trace.materialise(array)) for array in body.captured])
    step = plans.Branch(condition, functions, operands, [], [])
    _finish(s, step, equation, homes[0])


def _loop(s: Scheduler, equation: Equation, device: int) -> None:
    ((body, trace),) = equation.bodies
    params = equation.params
    inputs = [s.at_home(array) for array in equation.inputs]
    first = params["trips"] + params["condition"]
    trips = inputs[0] if params["trips"] else -1
    condition = inputs[first - 1] if params["condition"] else -1
    last = first + params["carried"]
    function = s.function(body, trace)
    step = plans.Loop(trips, condition, function, inputs[first:last], inputs[last:], [], [])
    _finish(s, step, equation, _output_devices(s.functions[-1][0])[1:])


def _output_devices(plan: plans.Plan) -> list[int]:
    return [plan.buffers[port.buffers[0]].device for port in plan.outputs]


def _finish(s: Scheduler, step: plans.HostStep, equation: Equation, homes: list[int]) -> None:
    """Append a step that halts; its results are the first buffers of the next epoch."""
    s.steps.append(step)
    s.epoch += 1
    defined: set[str] = set()
    for k, (array, home) in enumerate(zip(equation.outputs, homes, strict=True)):
        step.results.append(s.output_buffer(array, home))
        for axis, size in enumerate(array.shape):
            name = str(size)
            if isinstance(size, Dim) and name in s.trace.fresh and name not in defined:
                defined.add(name)
                step.symbols.append([name, k, axis])


STEPS = {"read": _read, "host": _host, "branch": _branch, "loop": _loop}
"""Primitives that are steps of the plan itself."""


def schedule(
    trace: Trace,
    providers: Sequence[Provider],
    weights: WeightTable,
    inputs: Sequence[str],
    outputs: Sequence[str],
    symbols: dict[str, list[list[int]]],
) -> plans.Plan:
    """Partition a trace among providers and make its plan."""
    with trace.guards:
        scheduler = Scheduler(trace, providers, rewritten(trace, providers), weights)
        _refuse_giants(scheduler.equations, trace.labels)
        return scheduler.plan(inputs, outputs, symbols)


def _refuse_giants(equations: Sequence[Equation], labels: Sequence[str]) -> None:
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


def supports(provider: Provider, equation: Equation) -> bool:
    """Whether a provider can do what an equation says; functions of the host are NumPy's."""
    name = equation.primitive.name
    if name in STEPS:
        return name != "host" or provider.name == NUMPY
    inputs, outputs = ([array.dtype.lowered for array in arrays] for arrays in (equation.inputs, equation.outputs))
    return provider.supports(name, inputs, outputs, equation.params)


def rewritten(trace: Trace, providers: Sequence[Provider]) -> dict[int, int]:
    """The provider of every equation, after each provider has put its share of them into the form that it likes."""
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
