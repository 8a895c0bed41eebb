"""Recurrent layers: all steps of a sequence by one workgroup, whose threads share the hidden state."""

from __future__ import annotations

from typing import Any

from sardonyx.compiler.kernel import Routine
from sardonyx.compiler.program import Value, const
from sardonyx.compiler.program import call as call_
from sardonyx.numpy_backend.routines import decode
from sardonyx.primitives.recurrent import Layer
from sardonyx.primitives.recurrent_activation import ACTIVATIONS, Activation
from sardonyx_webgpu.code import WORKGROUP, Code, call, constant, divided_up, size
from sardonyx_webgpu.routines.frame import Frame
from sardonyx_webgpu.shading import Shading
from sardonyx_webgpu.statements import block

THREADS = 256
"""Threads of a workgroup at most."""
UNITS = 4
"""Units at most whose sums a thread makes at once."""
_PLACES = ("first", "second", "third")


def recur(routine: Routine) -> Code:
    """What the inputs give to gates [steps, directions, batch, gates * H] and weights [directions, H, H * gates] to the
    hidden states [steps, batch, directions, H] and the last states."""
    given = decode(routine.attributes, ())
    hidden, rows = int(given.pop("hidden")), int(given.pop("rows"))
    layer = Layer(**given)
    frame = Frame(routine)
    steps, directions, batch, _ = routine.inputs[0]
    units = min(UNITS, max(1, hidden // WORKGROUP))
    threads = min(THREADS, -(-hidden // (units * WORKGROUP)) * WORKGROUP)
    units = min(units, -(-hidden // threads))
    whole = hidden // 4 * 4
    gated = layer.cell == "gru" and not layer.linear_before_reset
    products = (2 if gated else 1) * (hidden // 4 + hidden % 4 + 2) + 2
    a_step = (-(-hidden // (units * threads))) * products + 4
    turns = call("add", call("mul", size(steps), constant(a_step)), constant(2 * (-(-hidden // threads)) + 4))
    names = {"h": "HIDDEN", "c": "CELL", "bias": "BIAS", "peephole": "PEEPHOLE", "lengths": "LENGTH"}
    values: dict[str, Any] = {names[name]: "abcdefgh"[k] for k, name in enumerate(layer.operands, 2)}
    values |= {"STARTH": "HIDDEN" in values, "STARTC": "CELL" in values, "BIASED": "BIAS" in values}
    values |= {"PEEPHOLES": "PEEPHOLE" in values, "LENGTHS": "LENGTH" in values}
    values |= {"RNN": layer.cell == "rnn", "LSTM": layer.cell == "lstm", "GATED": gated, "COUPLED": layer.input_forget}
    values |= {"LINEAR": layer.cell == "gru" and layer.linear_before_reset}
    values |= {"H": hidden, "TWICE": 2 * hidden, "SQUARE": hidden * hidden, "WHOLE": whole, "RAGGED": whole < hidden}
    values |= {"ROWS": rows, "UNITS": units, "ALL": rows * hidden, "PAIRS": 2 * rows * hidden}
    values |= {"STEPS": steps, "BATCH": batch, "DIRECTIONS": directions, "THREADS": threads, "STEP": frame.step(0)}
    backwards = [f"direction == {k}" for k, back in enumerate(layer.backwards) if back]
    values["BACKWARD"] = " || ".join(backwards) or "false"
    grid = [size(directions), divided_up(size(batch), rows)]
    fours = [] if layer.cell == "rnn" else [1]

    def functions(shading: Shading) -> list[str]:
        kinds = zip(_PLACES, zip(*layer.activations, strict=True), strict=False)
        clips = (layer.clip, layer.clip, None)
        return [_function(shading, *kind, clip) for kind, clip in zip(kinds, clips, strict=False)]

    return frame.code("recur", grid, turns, False, fours, functions=functions, threads=threads, **values)


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
