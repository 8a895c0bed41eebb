"""A WebAssembly assembler: functions are written as typed Python expressions and come out as bytes.

    m = Module()
    with m.function("saxpy", {"n": i32, "a": f32, "x": i32, "y": i32}, export=True) as f:
        at = f.local(i32)
        with f.loop(at, 0, f.n * 4, step=4):
            f.store(f.y + at, f.a * f32.load(f.x + at) + f32.load(f.y + at))
    m.to_bytes()

What can be written in an expression is in `expression`; its public names are this module's too. An expression is
evaluated where it is used and as often as it is used: `f.let(expr)` evaluates it once, now. Statements (`f.store`,
`f.set`, `f.loop`, ...) are methods of the function that is being built.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import groupby
from typing import NamedTuple

from .expression import (
    TYPES,
    Expr,
    Operand,
    ValueType,
    Variable,
    code_of,
    f32,
    f32x4,
    f64,
    f64x2,
    i8x16,
    i16x8,
    i32,
    i32x4,
    i64,
    i64x2,
    op,
    v128,
    void,
)
from .opcodes import CONTROL, section, text, uleb, vector

__all__ = [
    "TYPES",
    "Callee",
    "Expr",
    "Function",
    "Label",
    "Memory",
    "Module",
    "Operand",
    "ValueType",
    "Variable",
    "f32",
    "f32x4",
    "f64",
    "f64x2",
    "i8x16",
    "i16x8",
    "i32",
    "i32x4",
    "i64",
    "i64x2",
    "op",
    "v128",
    "void",
]


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
        if variable.owner not in (self, None):
            raise ValueError(f"{self.name}: {variable.name!r} is a local of another function")
        return code_of(value, variable.type, f"{self.name}: the value of {variable.name!r}")

    def _emit(self, code: bytes) -> None:
        if self._encoded is not None:
            raise ValueError(f"function {self.name!r} is complete and takes no more statements")
        self._body += code

    def store(self, address: Operand, value: Expr, *, bits: int | None = None, offset: int = 0, align: int = 0) -> None:
        """Store `value` at `address + offset`; `bits` = 8, 16 or 32 stores only the low bits of an integer."""
        if not isinstance(value, Expr):
            raise TypeError(f"{self.name}: store needs a type; use f32.const({value!r}), i32.const({value!r}), ...")
        store = getattr(value.type, "store" if bits is None else f"store{bits}")
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


class Memory(NamedTuple):
    """A module's memory, in pages of 64 KiB; `import_from=None` defines it in the module and exports it as "memory"."""

    minimum: int = 1
    maximum: int | None = None
    shared: bool = False
    import_from: tuple[str, str] | None = ("env", "memory")

    def to_bytes(self) -> bytes:
        """The type's encoding."""
        if self.shared and self.maximum is None:
            raise ValueError("a shared memory needs a maximum")
        flags = (self.maximum is not None) | self.shared << 1
        return bytes([flags]) + uleb(self.minimum) + (b"" if self.maximum is None else uleb(self.maximum))


IMPORTED = Memory()


class Module:
    """Functions with what they import, export and hold; `to_bytes` is the binary.

    Whether the memory is shared stays open until then, since hosts differ. Data and function pointers are relative to
    the imported globals env.__memory_base and env.__table_base, as in Emscripten's side modules, so that any number of
    modules live in one memory.
    """

    def __init__(self, name: str = "", memory: Memory = IMPORTED) -> None:
        self.name = name
        self.memory = memory
        self.exports: dict[str, Callee] = {}
        self.imports: list[tuple[str, str]] = []  # namespace and name, in order, without memory and table
        self.pointers: list[Callee] = []
        self.data_size, self.data_align, self.uses_table = 0, 1, False
        self._import_types: list[bytes] = []
        self._types: dict[bytes, int] = {}
        self._callees: list[Callee] = []
        self._functions: list[Function] = []
        self._types_of: dict[Function, bytes] = {}
        self._variables: list[Variable] = []
        self._globals: list[bytes] = []
        self._data = bytearray()
        self._segments: list[bytes] = []
        self._custom: list[bytes] = []

    def _type(self, params: Mapping[str, ValueType], results: Sequence[ValueType]) -> bytes:
        code = b"\x60" + vector(t.code for t in params.values()) + vector(t.code for t in results)
        return uleb(self._types.setdefault(code, len(self._types)))

    def _import(self, namespace: str, name: str, type_code: bytes, own: Sequence[object]) -> None:
        if own:
            raise ValueError(f"import {name!r} earlier: imports have the first indices, and one of the module's exists")
        self.imports.append((namespace, name))
        self._import_types.append(type_code)

    def import_function(
        self, namespace: str, name: str, params: Mapping[str, ValueType], results: Sequence[ValueType] = ()
    ) -> Callee:
        """A function of the host; imports come before the module's own functions."""
        self._import(namespace, name, b"\x00" + self._type(params, results), self._functions)
        self._callees.append(Callee(name, params, results, CONTROL["call"] + uleb(len(self._callees))))
        return self._callees[-1]

    def import_global(self, namespace: str, name: str, type: ValueType, mutable: bool = False) -> Variable:
        """A global of the host; imports come before the module's own globals."""
        self._import(namespace, name, b"\x03" + type.code + bytes([mutable]), self._globals)
        self._variables.append(Variable(type, len(self._variables), name))
        return self._variables[-1]

    def global_(self, name: str, type: ValueType, init: Operand, mutable: bool = True) -> Variable:
        """A global of the module; `init` is a constant."""
        self._globals.append(type.code + bytes([mutable]) + code_of(init, type, f"global {name!r}") + CONTROL["end"])
        self._variables.append(Variable(type, len(self._variables), name))
        return self._variables[-1]

    def _base(self, name: str) -> Variable:
        if ("env", name) not in self.imports:
            self.import_global("env", name, i32)
        return next(variable for variable in self._variables if variable.name == name)

    def function(
        self, name: str, params: Mapping[str, ValueType], results: Sequence[ValueType] = (), *, export: bool = False
    ) -> Function:
        """A new function, to be written in a `with` block; it may call itself and those before it."""
        function = Function(name, params, results, len(self._callees))
        self._callees.append(function)
        self._functions.append(function)
        self._types_of[function] = self._type(params, results)
        if export:
            self.export(function)
        return function

    def export(self, function: Callee, name: str = "") -> None:
        """Export a function under its name, or another."""
        if self.exports.setdefault(name or function.name, function) is not function:
            raise ValueError(f"two functions are exported as {name or function.name!r}")

    def pointer(self, function: Callee) -> Expr:
        """The index (i32) of the function in the table, for `indirect` calls."""
        if function not in self.pointers:
            self.pointers.append(function)
        self.uses_table = True
        return self._base("__table_base") + self.pointers.index(function)

    def table(self, functions: Sequence[Callee]) -> Expr:
        """The index (i32) of the first of these functions in the table, where they stand one after another."""
        first = len(self.pointers)
        self.pointers += functions
        self.uses_table = True
        return self._base("__table_base") + first

    def indirect(self, params: Mapping[str, ValueType], results: Sequence[ValueType] = ()) -> Callee:
        """What calls any function of this type: its last operand, `pointer`, says which."""
        self.uses_table = True
        code = CONTROL["call_indirect"] + self._type(params, results) + b"\x00"
        return Callee("indirect", {**params, "pointer": i32}, results, code)

    def data(self, payload: bytes, align: int = 16) -> Expr:
        """The address (i32) of these bytes, which are in memory from the start."""
        self._data += bytes(-len(self._data) % align) + payload
        self.data_size, self.data_align = len(self._data), max(self.data_align, align)
        return self._base("__memory_base") + (len(self._data) - len(payload))

    def segment(self, payload: bytes) -> int:
        """The `index` of bytes that `op("memory.init", ...)` copies into the memory."""
        self._segments.append(b"\x01" + uleb(len(payload)) + payload)
        return len(self._segments) - 1

    def custom(self, name: str, payload: bytes) -> None:
        """Add a custom section, which engines ignore."""
        self._custom.append(section(0, text(name) + payload))

    def to_bytes(self, memory: Memory | None = None, prologue: bytes = b"", names: bool = True) -> bytes:
        """The module in WebAssembly's binary format, with another `memory` if given, `prologue` its first section.

        `names` are for who debugs.
        """
        memory = memory or self.memory
        index = {callee: uleb(i) for i, callee in enumerate(self._callees)}
        imports = [(*names, kind) for names, kind in zip(self.imports, self._import_types)]
        exports = [text(name) + b"\x00" + index[callee] for name, callee in self.exports.items()]
        if memory.import_from:
            imports.append((*memory.import_from, b"\x02" + memory.to_bytes()))
        else:
            exports.append(text("memory") + b"\x02\x00")
        if self.uses_table:
            imports.append(("env", "__indirect_function_table", b"\x01\x70\x00" + uleb(len(self.pointers))))
        elements, segments = [], list(self._segments)
        if self.pointers:
            slots = vector(index[callee] for callee in self.pointers)
            elements.append(b"\x00" + self._base("__table_base").code + CONTROL["end"] + slots)
        if self._data:
            start = b"\x00" + self._base("__memory_base").code + CONTROL["end"]
            segments.append(start + uleb(len(self._data)) + self._data)
        sections = {
            1: list(self._types),
            2: [text(namespace) + text(name) + kind for namespace, name, kind in imports],
            3: [self._types_of[function] for function in self._functions],
            5: [] if memory.import_from else [memory.to_bytes()],
            6: self._globals,
            7: exports,
            9: elements,
            10: [function.to_bytes() for function in self._functions],
            11: segments,
        }
        encoded = {number: section(number, vector(items)) for number, items in sections.items() if items}
        if segments:
            encoded[9] = encoded.get(9, b"") + section(12, uleb(len(segments)))  # their number, before the code
        custom = list(self._custom)
        if names:
            named = section(0, text(self.name)) if self.name else b""
            named += section(1, vector(index[callee] + text(callee.name) for callee in self._callees))
            custom.insert(0, section(0, text("name") + named))
        body = [encoded[number] for number in sorted(encoded)]
        return b"".join([b"\0asm\x01\0\0\0", prologue, *body, *custom])
