"""Functions being built: their parameters, locals and statements, and the blocks that these stand in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import groupby

from .expression import Expr, Operand, ValueType, Variable, code_of, i32, void
from .opcodes import CONTROL, uleb, vector


class Callee:
    """A function of a module; calling it builds the expression of the call: `f.set(y, exp(x))`."""

    def __init__(self, name: str, params: Mapping[str, ValueType], results: Sequence[ValueType], code: bytes) -> None:
        self.name = name
        self.signature = dict(params)
        self.results = tuple(results)
        self._call = code

    def __call__(self, *operands: Operand) -> Expr:
        """The call as an expression; without a result it is `void`, for `f.do`."""
        if len(self.results) > 1:
            raise TypeError(f"{self.name} has {len(self.results)} results; use f.call(..., into=locals)")
        return Expr(self.results[0] if self.results else void, self.code(*operands))

    def code(self, *operands: Operand) -> bytes:
        """The code of a call, whatever it leaves on the stack."""
        if len(operands) != len(self.signature):
            raise TypeError(f"{self.name} takes {len(self.signature)} operands, not {len(operands)}")
        pairs = zip(operands, self.signature.items())
        return b"".join(code_of(v, t, f"{self.name}: operand {name!r}") for v, (name, t) in pairs) + self._call


class Label:
    """What `f.br` leaves (a block, an if, a counted loop) or starts again (`f.repeat`)."""


class Function(Callee):
    """A function being built, in a `with`: its parameters are its attributes, its statements its methods."""

    def __init__(self, name: str, params: Mapping[str, ValueType], results: Sequence[ValueType], index: int) -> None:
        super().__init__(name, params, results, CONTROL["call"] + uleb(index))
        self._body = bytearray()
        self._encoded: bytes | None = None  # the code section's entry, once complete
        self._locals: list[ValueType] = []
        self._labels: list[Label] = []
        self._if_end = -1
        if hidden := [name for name in params if name in self.__dict__ or hasattr(Function, name)]:
            raise ValueError(f"{self.name}: the parameter {hidden[0]!r} would hide a method; rename it")
        self._params = {name: Variable(t, i, name, self) for i, (name, t) in enumerate(params.items())}

    def __enter__(self) -> Function:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._encoded = self._encode()

    def __getattr__(self, name: str) -> Variable:
        try:
            return self.__dict__["_params"][name]  # type: ignore[no-any-return]
        except KeyError:
            raise AttributeError(f"function {self.__dict__.get('name')!r} has no parameter {name!r}") from None

    @property
    def params(self) -> tuple[Variable, ...]:
        """The parameters in order: `n, a, x, y = f.params`."""
        return tuple(self._params.values())

    def local(self, type: ValueType, name: str = "", init: Operand | None = None) -> Variable:
        """A new local: assigned `init` here, else 0 from the start of the function."""
        variable = Variable(type, len(self._params) + len(self._locals), name, self)
        self._locals.append(type)
        if init is not None:
            self.set(variable, init)
        return variable

    def let(self, value: Expr, name: str = "") -> Variable:
        """A new local that holds `value`, evaluated once, here."""
        return self.local(value.type, name, value)

    def constant(self, value: Expr, name: str = "") -> Variable:
        """A new local that holds a constant from the start of the function, wherever it is asked for."""
        variable = self.local(value.type, name)
        self._body[:0] = value.code + variable.setter
        return variable

    def set(self, variable: Variable, value: Operand) -> None:
        """`variable = value`."""
        self._emit(self._value(variable, value) + variable.setter)

    def tee(self, variable: Variable, value: Operand) -> Expr:
        """The expression that assigns `value` to a local and has that value."""
        return Expr(variable.type, self._value(variable, value) + variable.teer)

    def _value(self, variable: Variable, value: Operand) -> bytes:
        if variable.owner is not self and variable.owner is not None:
            raise ValueError(f"{self.name}: {variable.name!r} is a local of another function")
        if isinstance(value, Expr) and value.type is variable.type:
            return value.code
        return code_of(value, variable.type, f"{self.name}: the value of {variable.name!r}")

    def _emit(self, code: bytes) -> None:
        if self._encoded is not None:
            raise ValueError(f"function {self.name!r} is complete and takes no more statements")
        self._body += code

    def store(self, address: Operand, value: Expr, *, bits: int | None = None, offset: int = 0, align: int = 0) -> None:
        """Store `value` at `address + offset`; `bits` = 8, 16 or 32 stores only the low bits of an integer."""
        if not isinstance(value, Expr):
            raise TypeError(f"{self.name}: store needs a type; use f32.const({value!r}), i32.const({value!r}), ...")
        store = value.type.store if bits is None else getattr(value.type, f"store{bits}")
        self._emit(store(address, value, offset=offset, align=align).code)

    def do(self, expr: Expr) -> None:
        """Execute `expr` here; its result, if it has one, is dropped."""
        self._emit(expr.code + (b"" if expr.type is void else CONTROL["drop"]))

    def call(self, callee: Callee, *operands: Operand, into: Sequence[Variable] = ()) -> None:
        """Call here; the results go `into` variables, or are dropped."""
        if into and tuple(v.type for v in into) != callee.results:
            raise TypeError(f"{callee.name} has results {callee.results}, not {tuple(v.type for v in into)}")
        ends = [v.setter for v in reversed(into)] or [CONTROL["drop"]] * len(callee.results)
        self._emit(callee.code(*operands) + b"".join(ends))

    def return_(self, *values: Operand) -> None:
        """Return the values, one for each result."""
        if len(values) != len(self.results):
            raise TypeError(f"{self.name} returns {len(self.results)} values, not {len(values)}")
        pairs = enumerate(zip(values, self.results), 1)
        self._emit(b"".join(code_of(v, t, f"{self.name}: result {i}") for i, (v, t) in pairs) + CONTROL["return"])

    def trap(self) -> None:
        """Stop the program, should it come here."""
        self._emit(CONTROL["unreachable"])

    def select(self, condition: Operand, yes: Operand, no: Operand) -> Expr:
        """`yes` where `condition` (i32) is not 0, else `no`; both are evaluated."""
        kind, codes = _alternatives("select", yes, no)
        return Expr(kind, b"".join(codes) + code_of(condition, i32, "select: condition") + CONTROL["select"])

    def if_expr(self, condition: Operand, yes: Operand, no: Operand) -> Expr:
        """`yes` where `condition` (i32) is not 0, else `no`; only that one is evaluated."""
        kind, (then, otherwise) = _alternatives("if_expr", yes, no)
        opening = code_of(condition, i32, "if_expr: condition") + CONTROL["if"] + kind.code
        return Expr(kind, opening + then + CONTROL["else"] + otherwise + CONTROL["end"])

    @contextmanager
    def _nest(self, opening: bytes) -> Iterator[Label]:
        self._emit(opening)
        self._labels.append(Label())
        yield self._labels[-1]
        self._labels.pop()
        self._emit(CONTROL["end"])

    def block(self) -> AbstractContextManager[Label]:
        """A block that `f.br(label)` leaves."""
        return self._nest(CONTROL["block"] + void.code)

    def repeat(self) -> AbstractContextManager[Label]:
        """A block that `f.br(label)` starts again; reaching its end leaves it."""
        return self._nest(CONTROL["loop"] + void.code)

    @contextmanager
    def if_(self, condition: Operand) -> Iterator[Label]:
        """A block for where `condition` (i32) is not 0; `f.br(label)` leaves it."""
        with self._nest(code_of(condition, i32, f"{self.name}: if_") + CONTROL["if"] + void.code) as label:
            yield label
        self._if_end = len(self._body)

    @contextmanager
    def else_(self) -> Iterator[Label]:
        """The other branch of the `f.if_` block that ended just before."""
        if self._if_end != len(self._body):
            raise ValueError(f"{self.name}: else_ must follow the block of an if_ directly")
        self._body.pop()  # the `end` of the if
        with self._nest(CONTROL["else"]) as label:
            yield label

    @contextmanager
    def while_(self, condition: Expr) -> Iterator[Label]:
        """Repeat the block while `condition` (i32), evaluated before each turn, is not 0; `f.br(label)` leaves it."""
        opening = code_of(condition, i32, f"{self.name}: while_") + CONTROL["if"] + void.code
        with self._nest(opening) as label, self.repeat() as again:
            yield label
            self.br_if(again, condition)

    @contextmanager
    def loop(
        self, index: Variable, start: Operand, stop: Operand, *, step: Operand = 1, unsigned: bool = False
    ) -> Iterator[Label]:
        """`for index in range(start, stop, step)`; `f.br(label)` leaves it.

        `stop` is evaluated once, but a local is read at each turn. A `step` that is an expression must be positive.
        Addresses above 2 GiB compare right only with `unsigned`. `index` ends as the first value past the range.
        """
        if not isinstance(step, Expr) and step == 0:
            raise ValueError(f"{self.name}: a loop's step cannot be 0")
        if isinstance(stop, Expr) and not isinstance(stop, Variable):
            stop = self.let(stop)
        compare = "lt" if isinstance(step, Expr) or step > 0 else "gt"
        self.set(index, start)
        with self.while_(getattr(index.type, compare + ("_u" if unsigned else "_s"))(index, stop)) as label:
            yield label
            self.set(index, index + step)

    def _depth(self, label: Label) -> bytes:
        if label not in self._labels:
            raise ValueError(f"{self.name}: the block of this label has ended, or belongs to another function")
        return uleb(len(self._labels) - 1 - self._labels.index(label))

    def br(self, label: Label) -> None:
        """Leave the label's block, or start it again if it is `f.repeat`'s."""
        self._emit(CONTROL["br"] + self._depth(label))

    def br_if(self, label: Label, condition: Operand) -> None:
        """`f.br(label)` where `condition` (i32) is not 0."""
        self._emit(code_of(condition, i32, f"{self.name}: br_if") + CONTROL["br_if"] + self._depth(label))

    def br_table(self, index: Operand, labels: Sequence[Label], default: Label) -> None:
        """`f.br(labels[index])`, or `f.br(default)` where there is no such label."""
        targets = vector(map(self._depth, labels)) + self._depth(default)
        self._emit(code_of(index, i32, f"{self.name}: br_table") + CONTROL["br_table"] + targets)

    def to_bytes(self) -> bytes:
        """The entry of the code section."""
        if self._encoded is None:
            raise ValueError(f"function {self.name!r} is not complete: its `with` block has not ended")
        return self._encoded

    def _encode(self) -> bytes:
        runs = [(len(list(run)), code) for code, run in groupby(t.code for t in self._locals)]
        # With results, the end is reached only past a return; `unreachable` tells the validator.
        end = CONTROL["unreachable"] + CONTROL["end"] if self.results else CONTROL["end"]
        code = vector(uleb(count) + kind for count, kind in runs) + self._body + end
        return uleb(len(code)) + code


def _alternatives(where: str, yes: Operand, no: Operand) -> tuple[ValueType, tuple[bytes, bytes]]:
    kind = next((operand.type for operand in (yes, no) if isinstance(operand, Expr)), None)
    if kind is None:
        raise TypeError(f"{where}: two Python numbers have no type; use i32.const, f32.const, ... for one of them")
    return kind, (code_of(yes, kind, f"{where}: operand 2"), code_of(no, kind, f"{where}: operand 3"))
