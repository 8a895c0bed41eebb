"""Recurrent layers: all steps of a sequence by one workgroup, whose threads share the hidden state."""

from __future__ import annotations

from typing import Any

import numpy as np

from sardonyx.code.activations import ACTIVATIONS, Activation
from sardonyx.code.kernel import Routine
from sardonyx.code.layer import Layer
from sardonyx.code.program import Value, const
from sardonyx.code.program import call as call_
from sardonyx.numpy_backend.routines import decode
from sardonyx_webgpu.code import WORKGROUP, Code
from sardonyx_webgpu.extents import call, constant, divided_up, size
from sardonyx_webgpu.routines.frame import Frame
from sardonyx_webgpu.routines.phases import phases as phases_of
from sardonyx_webgpu.wgsl.shading import Shading
from sardonyx_webgpu.wgsl.statements import block

THREADS = 256
"""Threads of a workgroup at most."""
UNITS = 4
"""Fours of sums that a thread makes at once, at most."""
_PLACES = ("first", "second", "third")


def recur(routine: Routine) -> Code:
    """What the inputs give to gates [steps, directions, batch, gates * H] and weights as `recurrent.packed` has them to
    the hidden states [steps, batch, directions, H] and the last states."""
    attributes = decode(routine.attributes, ())
    hidden, rows = int(attributes.pop("hidden")), int(attributes.pop("rows"))
    layer = Layer(**attributes)
    frame = Frame(routine)
    steps, directions, batch, _ = routine.inputs[0]
    phases = phases_of(layer)
    groups = [-(-hidden // phase.units) for phase in phases]
    fours = [min(UNITS, max(1, count // WORKGROUP)) for count in groups]
    threads = max(
        min(THREADS, -(-count // (n * WORKGROUP)) * WORKGROUP) for count, n in zip(groups, fours, strict=True)
    )
    fours = [min(n, -(-count // threads)) for count, n in zip(groups, fours, strict=True)]
    rounds = sum(-(-count // (n * threads)) for count, n in zip(groups, fours, strict=True))
    a_step = rounds * (hidden // 4 + hidden % 4 + 3) + len(groups) + 1
    trips = call("add", call("mul", frame.taken, constant(a_step)), constant(2 * (-(-hidden // threads)) + 4))
    gated = len(phases) > 1
    rounded = "scale" in layer.operands
    slots = 3 if gated or rounded else 2
    whole = hidden // 4 * 4
    names = {"h": "HIDDEN", "c": "CELL", "bias": "BIAS", "peephole": "PEEPHOLE", "lengths": "LENGTH", "scale": "SCALE"}
    values: dict[str, Any] = {names[name]: "abcdefgh"[k] for k, name in enumerate(layer.operands, 2)}
    values |= {"STARTH": "HIDDEN" in values, "STARTC": "CELL" in values, "BIASED": "BIAS" in values}
    values |= {"PEEPHOLES": "PEEPHOLE" in values, "LENGTHS": "LENGTH" in values}
    values |= {"ROUNDED": rounded, "TINY": float(np.finfo(np.float32).tiny), "BUSY": min(threads, hidden)}
    if rounded:  # one scale of a direction's weights, or one for each column
        values["COLUMNS"] = routine.inputs[2 + layer.operands.index("scale")][1] != 1
    values |= {"RNN": layer.cell == "rnn", "LSTM": layer.cell == "lstm", "GATED": gated, "COUPLED": layer.input_forget}
    values |= {"LINEAR": layer.cell == "gru" and layer.linear_before_reset}
    values |= {"PHASES": len(phases), "units": [phase.units for phase in phases], "groups": groups, "taken": fours}
    values |= {"begin": [hidden * sum(groups[:k]) for k in range(len(groups))], "SIZE": hidden * sum(groups)}
    values |= {"part": _part, "H": hidden, "SLOT": slots * hidden, "WHOLE": whole, "RAGGED": whole < hidden}
    values |= {"ROWS": rows, "ALL": rows * hidden, "SLOTS": slots * rows * hidden}
    values |= {"STEPS": steps, "BATCH": batch, "DIRECTIONS": directions, "THREADS": threads, "STEP": frame.step(0)}
    backwards = [f"direction == {k}" for k, back in enumerate(layer.backwards) if back]
    values["BACKWARD"] = " || ".join(backwards) or "false"
    grid = [size(directions), divided_up(size(batch), rows)]

    def functions(shading: Shading) -> list[str]:
        kinds = zip(_PLACES, zip(*layer.activations, strict=True), strict=False)
        clips = (layer.clip, layer.clip, None)
        return [_function(shading, *kind, clip) for kind, clip in zip(kinds, clips, strict=False)]

    return frame.code("recur", grid, trips, False, [1], functions=functions, threads=threads, steps=steps, **values)


def _part(units: int, unit: int, s: int, n: int) -> str:
    """The sums of a unit's gates in the nth four of sums of a sequence, which are those of so many units."""
    return f"sum{s}_{n}" + {1: "", 2: f".{('xy', 'zw')[unit % 2]}", 4: f"[{unit}]"}[units]


def _function(shading: Shading, name: str, activations: tuple[Activation, ...], clip: float | None) -> str:
    """One of the functions of gates, for all directions."""
    x = Value(["var", "float32", "x"])
    if clip is not None:
        x = _call("min", _call("max", x, -clip), clip)
    lines: list[str] = []
    for direction, (function, alpha, beta) in enumerate(activations):
        result = ACTIVATIONS[function](_call, x, alpha, beta)
        more, (text,) = shading.printer().print(result.code)
        body = [*more, f"return {text};"]
        lines += body if direction == len(activations) - 1 else [f"if (direction == {direction}) {block(body)}"]
    return f"fn {name}(direction: i32, x: f32) -> f32 {block(lines)}\n"


def _call(function: str, *operands: Value | float) -> Value:
    return call_(function, *(each if isinstance(each, Value) else const("float32", each) for each in operands))
