"""Equations at which the host has to look, or to act: reads of sizes, functions of the host, control flow."""

from __future__ import annotations

from typing import Protocol

from sardonyx.plans import plan as plans
from sardonyx.primitives.array import Array, Equation
from sardonyx.primitives.body import Body
from sardonyx.primitives.trace import Trace
from sardonyx.sizes.symbolic import Dim


class Scheduler(Protocol):
    """What builds the plan, as far as its halts are concerned (`sardonyx.compiler.schedule`)."""

    trace: Trace
    steps: list[plans.Step]
    functions: list[list[plans.Plan]]
    epoch: int

    def at_home(self, array: Array) -> int: ...

    def output_buffer(self, array: Array, device: int) -> int: ...

    def function(self, body: Body, trace: Trace) -> int: ...


def _read(s: Scheduler, equation: Equation, device: int) -> None:
    (x,) = equation.inputs
    s.steps.append(plans.Read(s.at_home(x), list(equation.params["symbols"])))
    s.epoch += 1


def _host(s: Scheduler, equation: Equation, device: int) -> None:
    params = equation.params
    inputs = [s.at_home(array) for array in equation.inputs]
    told = params["function"], params["attributes"], inputs
    step = plans.Host(*told, [], params["symbols"], equation.origin, s.trace.narrow)
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
"""Primitives that are steps of the plan itself -> what appends the step to that of a Scheduler."""
