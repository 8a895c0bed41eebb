"""Modules: functions with what they import, export and hold, and their bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sardonyx.common.record import record

from .expression import Expr, Operand, ValueType, Variable, code_of, i32
from .function import Callee, Function
from .opcodes import CONTROL, section, text, uleb, vector


@record(frozen=True)
class Memory:
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
