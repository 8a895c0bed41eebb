"""Recurrent layers: a unit of work is a direction of some sequences, with all of its steps.

Where states are rounded together, it is a direction of all sequences, which take each step block by block. A step
multiplies states by the weights of all gates, by `tile.product`, and goes over the gates once. States stay in the
outputs; gates, and what is multiplied instead of the states, are in the scratch memory. States that are rounded, and
weights of 8 bits, are multiplied as bytes (`quads`), or as integers of 16 bits (`int8`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sardonyx.code.activations import ACTIVATIONS
from sardonyx.code.kernel import Routine
from sardonyx.code.layer import GATES, STATES, Layer
from sardonyx.common.dtypes import by_name
from sardonyx.numpy_backend.routines import decode

from .. import vectors
from ..abi import SCRATCH
from ..assembler import Expr, Function, Operand, Variable, f32, f32x4, i8x16, i16x8, i32, i32x4, op, v128
from ..code import Code, Unit
from ..scalars.values import kind
from ..vectors.lanes import Constant
from . import frame, int8, quads, tile

_MOST_ROWS = 12
"""Sequences in a block: they share the weights that a step reads."""

# Places in the scratch memory: addresses of rows, the offset of the only segment, a tile at the edge, the gates.
_OFFSETS, _EDGE, _GATES = 512, 1024, 2048
_FLOAT = kind("float32")


def rows_at_once(cell: str, hidden: int) -> int:
    """How many sequences take a step together; 0 where the states are too wide for the routine.

    >>> rows_at_once("lstm", 128), rows_at_once("lstm", 20000), rows_at_once("lstm", 100000)
    (12, 2, 0)
    """
    return min(_MOST_ROWS, (SCRATCH - _GATES - 16) // (4 * hidden * (GATES[cell] + 1)))


def recurrent(unit: Unit, routine: Routine) -> Code:
    """`recurrent` with weights in panels, see `legalization.recurrent`."""
    return _Recurrent(unit, routine).write()


class _Recurrent:
    def __init__(self, unit: Unit, routine: Routine) -> None:
        self.layer = Layer(**decode(routine.attributes, ()))
        self.steps, self.directions, self.batch, wide = routine.inputs[0]
        self.hidden: int = routine.outputs[0][3]
        self.row = 4 * self.hidden  # bytes of a state, and below of all gates
        self.gates = 4 * wide
        self.panels: int = routine.inputs[1][1]
        self.nr: int = routine.inputs[1][3]
        self.rows = rows_at_once(self.layer.cell, self.hidden)
        self.whole = routine.reads[1] != "float32"
        self.in_bytes = self.whole and routine.inputs[1][4] == 4
        self.even = self.hidden + self.hidden % 2  # integers of a state
        if self.in_bytes:
            self.even = 4 * routine.inputs[1][2]
            self.matrix = self.panels * self.even * self.nr
            self.product = quads.product(unit)
        elif self.whole:
            self.matrix = self.panels * self.even * self.nr * by_name(routine.reads[1]).itemsize
            self.product = int8.product(unit, routine.reads[1], self.nr)
        else:
            self.matrix = self.panels * self.row * self.nr
            self.product = tile.product(unit)
        self.f = f = frame.function(unit, routine)
        self.scope = vectors.FunctionScope(unit, f)
        self.fused = "relaxed-simd" in unit.features
        self.x, self.weights, *others = frame.buffers(f, routine)
        count = 3 if self.in_bytes else 0
        self.behind, others = others[:count], others[count:]
        names = [*self.layer.operands, "y", *(f"last {name}" for name in STATES[self.layer.cell])]
        self.given: dict[str, Expr] = dict(zip(names, others, strict=True))
        shapes = dict(zip(self.layer.operands, routine.inputs[2 + count :], strict=True))
        self.scales = shapes["scale"][-1] if "scale" in shapes else 0
        self.cell: Callable[[], None] = {"rnn": self._rnn, "gru": self._gru, "lstm": self._lstm}[self.layer.cell]

    def write(self) -> Code:
        with self.f as f:
            f.store(f.scratch, i32.const(0), offset=_OFFSETS)
            self.sequences, steps = frame.size(f, self.batch), frame.size(f, self.steps)
            self.direction, self.time, self.first, self.count = (f.local(i32) for _ in range(4))
            number, step = f.local(i32), f.local(i32)
            with f.loop(number, f.begin, f.end):
                if self.scales:
                    f.set(self.direction, number)
                    self._choose_all()
                else:
                    blocks = i32.div_u(self.sequences + (self.rows - 1), self.rows)
                    f.set(self.direction, i32.div_u(number, blocks))
                    self._choose((number - self.direction * blocks) * self.rows)
                self._start()
                with f.loop(step, 0, steps):
                    f.set(self.time, self._in_order(step, steps))
                    if self.scales:
                        self._choose_all()
                        self._measure()
                        block = f.local(i32)
                        with f.loop(block, 0, self.sequences, step=self.rows):
                            self._choose(block)
                            self._step()
                    else:
                        self._step()
                if self.scales:
                    self._choose_all()
                self._finish()
        return Code(f, self._units(), scratch=SCRATCH)

    def _choose(self, first: Expr) -> None:
        """Have a block begin with this sequence."""
        f = self.f
        f.set(self.first, first)
        left = f.let(self.sequences - self.first)
        f.set(self.count, f.select(left < self.rows, left, i32.const(self.rows)))

    def _choose_all(self) -> None:
        self.f.set(self.first, 0)
        self.f.set(self.count, self.sequences)

    def _in_order(self, step: Expr, steps: Expr) -> Expr:
        """Which step a direction takes next."""
        back = sum(1 << d for d, backwards in enumerate(self.layer.backwards) if backwards)
        if not back:
            return step
        return self.f.select(i32.shr_u(i32.const(back), self.direction) & 1, steps - 1 - step, step)

    def _step(self) -> None:
        """A step of the block."""
        f = self.f
        self._find_states()
        at = f.let(self.time * (self.sequences * self.directions) + self._place())
        self.inputs = f.let(self.x + at * self.gates)
        self.y = f.let(self.given["y"] + at * self.row)
        self.cell()

    def _place(self) -> Expr:
        """The number of the block's first row in [directions, batch]."""
        return self.direction * self.sequences + self.first

    def _find_states(self) -> None:
        f, place = self.f, self.f.let(self._place())
        names = STATES[self.layer.cell]
        self.states = {name: f.let(self.given[f"last {name}"] + place * self.row) for name in names}

    def _units(self) -> Any:
        if self.scales:
            return self.directions
        if isinstance(self.batch, int):
            return self.directions * -(-self.batch // self.rows)
        batch = ["param", "int32", int(self.batch[1:])]
        blocks = ["div", "int32", ["add", "int32", batch, _number(self.rows - 1)], _number(self.rows)]
        return ["mul", "int32", _number(self.directions), blocks]

    def _start(self) -> None:
        """The states before the first step."""
        f, place = self.f, self.f.let(self._place())
        self._find_states()
        for name, state in self.states.items():
            size = self.count * self.row
            if name in self.given:
                f.do(op("memory.copy", state, self.given[name] + place * self.row, size))
            else:
                f.do(op("memory.fill", state, 0, size))

    def _finish(self) -> None:
        """The states after the last step: zeros where there was none."""
        f = self.f
        if "lengths" in self.given:
            self._find_states()
            with self._each(*self.states.values()) as (number, *states), f.if_(self._length(number) <= 0):
                for at in states:
                    f.do(op("memory.fill", at, 0, self.row))

    # ---- products

    def _multiply(self, rows: Expr, first: int = 0, count: int | None = None, skipped: int = 0) -> None:
        """Rows of states times the weights of some gates, whose panels are behind those that are skipped."""
        f = self.f
        count = GATES[self.layer.cell] if count is None else count
        gates, panels = f.scratch + (_GATES + first * self.row), self.weights + self.direction * self.matrix
        if self.in_bytes:
            sums, starts, elements = self.behind
            place = self.direction * (4 * self.panels)
            right = panels, sums + place * self.nr, self.zero, starts + place, elements
            results = gates, self.gates, count * self.row, f.scratch + _EDGE
            f.call(self.product, rows, self.even, self.count, *right, *results)
            return
        if self.whole:
            results = gates, self.gates, count * self.row, f.scratch + _EDGE
            deep = 2 * self.even
            f.call(self.product, rows, deep, deep, self.count, panels, *results)
            return
        panels = panels + skipped * self.row * self.nr
        tile.table(f, f.scratch, self.count, rows, i32.const(self.row))
        operands = (f.scratch, self.count, f.scratch + _OFFSETS, 1, self.row, panels, 4 * self.nr, self.row * self.nr)
        f.call(self.product, *operands, gates, self.gates, count * self.row, f.scratch + _EDGE)

    @property
    def _spare(self) -> Expr:
        """What is multiplied instead of the states."""
        place: Expr = self.f.scratch + (_GATES + self.rows * self.gates)
        return place

    def _measure(self) -> None:
        """The values of the states from the lowest to the highest, and 0, in 256 steps."""
        f = self.f
        self._find_states()
        low, high, strange = (f.local(f32x4, init=f32x4.const(0.0)) for _ in range(3))
        with self._each(self.states["h"]) as (number, h), self._counted(number):
            for at, lanes in self._elements():
                value = f.let(_load(h + at, 0, lanes))
                f.set(low, f32x4.pmin(low, value))
                f.set(high, f32x4.pmax(high, value))
                f.set(strange, strange + (value - value))  # NaN, which the others pass over, stays NaN
        least, most, more = (
            f.let(vectors.horizontal(self.scope, function, _FLOAT, (lanes,)))
            for function, lanes in (("min", low), ("max", high), ("sum", strange))
        )
        scale = f.let(f32.max((most - least) / 255.0, f32.const(2.0**-126)) + more)
        zero = f.let(f32.nearest(-least / scale))
        self.zero: Expr = f.let(i32.trunc_sat_f32_s(zero)) if self.in_bytes else i32.const(0)
        added = zero if self.in_bytes else f32.const(0.0)
        bounds = (0.0, 255.0) if self.in_bytes else (-zero, 255.0 - zero)
        self.scale, self.added, self.below, self.above = (f.let(f32x4.splat(x)) for x in (scale, added, *bounds))

    def _round(self) -> Expr:
        """The states of the block rounded to those steps: as bytes, or as how many steps they are from 0."""
        f = self.f
        width = self.even if self.in_bytes else 2 * self.even if self.whole else self.row
        with self._each(self.states["h"]) as (number, h):
            target = f.let(self._spare + number * width)
            for at, lanes in self._elements():
                steps = f32x4.nearest(_load(h + at, 0, lanes) / self.scale) + self.added
                value = f.let(f32x4.pmin(self.above, f32x4.pmax(self.below, steps)))
                if self.in_bytes:
                    quad = f.let(self._truncated(value))
                    shorts = f.let(i16x8.narrow_i32x4_u(quad, quad))
                    # Behind the states there is room for four bytes, which meet zeros.
                    word = i8x16.narrow_i16x8_u(shorts, shorts)
                    f.do(v128.store32_lane(target + i32.shr_u(at, 2), word, lane=0))
                elif self.whole:
                    quad = f.let(self._truncated(value))
                    halves = i16x8.narrow_i32x4_s(quad, quad).as_(f32x4)
                    _store(f, target + (at >> 1), halves, (lanes + 1) // 2)  # behind an odd state there is a zero
                else:
                    _store(f, target + at, value, lanes)
        return self._spare

    def _truncated(self, value: Expr) -> Expr:
        """Floats that are whole and small, as integers."""
        truncate = i32x4.relaxed_trunc_f32x4_s if self.fused else i32x4.trunc_sat_f32x4_s
        return truncate(value)

    def _scaled(self, product: Expr, gate: int) -> Expr:
        """The product of such numbers and weights of 8 bits as what it stands for."""
        if not self.scales:
            return product
        base = self.given["scale"] + self.direction * (4 * self.scales)
        factor = f32x4.load32_splat(base) if self.scales == 1 else _load(base + self.at, gate * self.row, self.lanes)
        return product * (self.scale * factor)

    # ---- loops

    @contextmanager
    def _each(self, *rows: Expr) -> Iterator[tuple[Variable, ...]]:
        """For each sequence: its number in the block, and its place in lines of states."""
        f, number = self.f, self.f.local(i32)
        with f.loop(number, 0, self.count):
            yield (number, *(f.let(row + number * self.row) for row in rows))

    def _elements(self) -> Iterator[tuple[Variable, int]]:
        """For vectors of elements of a state: the offset of the first one, and how many there are."""
        f, at = self.f, self.f.local(i32)
        whole = self.hidden - self.hidden % 4
        if whole:
            with f.loop(at, 0, 4 * whole, step=16):
                yield at, 4
        if self.hidden % 4:
            f.set(at, 4 * whole)
            yield at, self.hidden % 4

    @contextmanager
    def _inside(self, number: Expr, y: Expr) -> Iterator[None]:
        """What is done where a sequence has not ended; else its row of Y is zeros."""
        f = self.f
        if "lengths" not in self.given:
            yield
            return
        with f.if_(self.time < self._length(number)):
            yield
        with f.else_():
            f.do(op("memory.fill", y, 0, self.row))

    @contextmanager
    def _counted(self, number: Expr) -> Iterator[None]:
        """What is done unless a sequence ended before the last step."""
        if "lengths" not in self.given:
            yield
            return
        with self.f.if_(self.time <= self._length(number)):
            yield

    def _length(self, number: Expr) -> Expr:
        return i32.load(self.given["lengths"] + (self.first + number) * 4)

    def _walk(self, *rows: Expr) -> Iterator[tuple[Variable, ...]]:
        """For vectors of elements in each sequence: places in lines of states. `_input` and `_gate` read there."""
        f = self.f
        with self._each(*rows) as (number, *places):
            inputs, gates = (f.let(base + number * self.gates) for base in (self.inputs, f.scratch + _GATES))
            with self._inside(number, self.y + number * self.row):
                for at, lanes in self._elements():
                    self.at, self.lanes = at, lanes
                    self.x_at, self.gate_at = f.let(inputs + self.at), f.let(gates + self.at)
                    yield tuple(f.let(place + self.at) for place in places)

    # ---- elements

    def _input(self, gate: int) -> Expr:
        """What the inputs give to a gate."""
        return _load(self.x_at, gate * self.row, self.lanes)

    def _gate(self, gate: int) -> Expr:
        """What the state gives to it."""
        offset = gate * self.row
        if self.whole:
            return f32x4.convert_i32x4_s(i32x4.load(self.gate_at, offset=offset))
        return f32x4.load(self.gate_at, offset=offset)

    def _of(self, name: str, part: int = 0, parts: int = 1) -> Expr:
        """An operand [directions, parts * hidden]."""
        base = self.given[name] + self.direction * (parts * self.row)
        return _load(base + self.at, part * self.row, self.lanes)

    def _put(self, value: Expr, *places: Expr) -> None:
        for place in places:
            _store(self.f, place, value, self.lanes)

    def _activate(self, place: int, x: Expr) -> Variable:
        """f, g or h."""
        clip = self.layer.clip if place < 2 else None
        if clip is not None:
            x = self._call("min", self._call("max", x, -clip), clip)
        name, alpha, beta = self.layer.activations[0][place]
        return self.f.let(ACTIVATIONS[name](self._call, self.f.let(x), alpha, beta))

    def _call(self, function: str, *operands: Operand) -> Variable:
        parts = [(x if isinstance(x, Expr) else Constant(f32x4, x),) for x in operands]
        (result,) = vectors.apply(self.scope, function, _FLOAT, parts)
        return self.f.let(result)

    # ---- cells

    def _rnn(self) -> None:
        h = self.states["h"]
        self._multiply(h)
        for state, y in self._walk(h, self.y):
            self._put(self._activate(0, self._input(0) + self._gate(0)), state, y)

    def _gru(self) -> None:
        f, h = self.f, self.states["h"]
        if self.layer.linear_before_reset:
            self._multiply(h)
        else:
            self._multiply(h, 0, 2)
            for state, reset in self._walk(h, self._spare):
                _store(f, self.gate_at, self._activate(0, self._input(0) + self._gate(0)), self.lanes)
                gate = self._activate(0, self._input(1) + self._gate(1))
                _store(f, reset, gate * _load(state, 0, self.lanes), self.lanes)
            self._multiply(self._spare, 2, 1, skipped=-(-2 * self.hidden // self.nr))
        for state, y in self._walk(h, self.y):
            old = f.let(_load(state, 0, self.lanes))
            if self.layer.linear_before_reset:
                update, reset = (self._activate(0, self._input(k) + self._gate(k)) for k in range(2))
                added = self._gate(2)
                if "bias" in self.given:
                    added = added + self._of("bias")
                added = reset * added
            else:
                update, added = f.let(self._gate(0)), self._gate(2)
            fresh = self._activate(1, self._input(2) + added)
            self._put(f.let(fresh + update * (old - fresh)), state, y)

    def _lstm(self) -> None:
        f, h, c = self.f, self.states["h"], self.states["c"]
        self._multiply(self._round() if self.scales else h)
        peepholes = "peephole" in self.given
        for memory, y in self._walk(c, self.y):
            old = f.let(_load(memory, 0, self.lanes))

            def gate(number: int, peephole: tuple[int, Expr] | None = None) -> Expr:
                total = self._input(number) + self._scaled(self._gate(number), number)
                if peepholes and peephole is not None:
                    total = total + self._of("peephole", peephole[0], 3) * peephole[1]
                return total

            into = self._activate(0, gate(0, (0, old)))
            forget = 1.0 - into if self.layer.input_forget else self._activate(0, gate(2, (2, old)))
            new = f.let(forget * old + into * self._activate(1, gate(3)))
            self._put(new, memory)
            self._put(self._activate(0, gate(1, (1, new))), y)
        # Another loop: what waits for one activation after the other leaves processors nothing else to do.
        for state, memory, y in self._walk(h, c, self.y):
            out = _load(y, 0, self.lanes)
            self._put(f.let(out * self._activate(2, _load(memory, 0, self.lanes))), state, y)


def _number(value: int) -> Sequence[Any]:
    return ["const", "int32", value]


def _load(address: Expr, offset: int, lanes: int) -> Expr:
    """So many floats, and zeros."""
    if lanes == 4:
        return f32x4.load(address, offset=offset)
    x = (v128.load32_zero if lanes == 1 else v128.load64_zero)(address, offset=offset)
    if lanes == 3:
        x = v128.load32_lane(address, x, lane=2, offset=offset + 8)
    return x.as_(f32x4)


def _store(f: Function, address: Expr, value: Expr, lanes: int) -> None:
    """The first of 4 words, so many."""
    if lanes == 4:
        f.store(address, value)
        return
    value = f.let(value)
    f.do((v128.store32_lane if lanes == 1 else v128.store64_lane)(address, value, lane=0))
    if lanes == 3:
        f.do(v128.store32_lane(address, value, lane=2, offset=8))
