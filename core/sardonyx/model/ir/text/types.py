"""Types in the text form: `float32[N,3]`, `seq(string)`, `map(int64, float32[2])`, `optional(...)` and so on."""

from __future__ import annotations

import re

from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.model.ir.text.scanner import IDENTIFIER, NAME, NUMBER, Scanner, quote
from sardonyx.model.ir.types import (
    DimLike,
    MapType,
    OpaqueType,
    OptionalType,
    SequenceType,
    SparseTensorType,
    TensorType,
    ValueType,
)

DEPTH = 50
"""How deeply graphs and types may nest in a text."""

DTYPES = {name: dtype for dtype in dtypes.ALL for name in (dtype.name, dtype.onnx_name)}

_BRACKET = re.compile(r"\w+\[")
_CONTAINERS = ("seq", "map", "optional", "sparse_tensor", "sparse", "opaque")


def format_type(kind: ValueType | None) -> str:
    """A type as ONNX's text form has it: `float32` is a scalar, `float32[...]` of unknown rank."""
    if kind is None:
        return "?"
    if isinstance(kind, MapType):
        return f"map({kind.key.name}, {format_type(kind.value)})"
    if isinstance(kind, (SequenceType, OptionalType)):
        return f"{'seq' if isinstance(kind, SequenceType) else 'optional'}({format_type(kind.element)})"
    if isinstance(kind, OpaqueType):
        return f"opaque({quote(kind.domain)}, {quote(kind.name)})"
    dims = "[...]" if kind.shape is None else f"[{','.join(map(_dim, kind.shape))}]" if kind.shape else ""
    text = (kind.dtype.name if kind.dtype else "undefined") + dims
    return f"sparse_tensor({text})" if isinstance(kind, SparseTensorType) else text


def _dim(dim: DimLike) -> str:
    if isinstance(dim, str):
        return dim if IDENTIFIER.fullmatch(dim) else quote(dim)
    return "?" if dim is None else str(dim)


class TypeParser(Scanner):
    """A scanner that knows types."""

    depth = 0

    def at_type(self) -> bool:
        word = self.peek(NAME)
        return word in DTYPES or word in _CONTAINERS or word == "undefined" or self.at("?")

    def optional_type(self) -> ValueType | None:
        """The type before a name, unless the name looks like a type."""
        start = self.pos
        if not self.at_type():
            if _BRACKET.match(self.text, start):
                self.fail(f"'{self.peek(NAME)}' is no type")
            return None
        if self.match(IDENTIFIER) and (self.at(",") or self.at(")") or self.at("=")):
            self.pos = start
            return None
        self.pos = start
        return self.type()

    def type(self) -> ValueType | None:
        if self.depth == DEPTH:
            self.fail(f"types nest more than {DEPTH} deep")
        self.depth += 1
        kind = self.inner_type()
        self.depth -= 1
        return kind

    def inner_type(self) -> ValueType | None:
        start = self.pos
        if self.take("?"):
            return None
        word = self.match(IDENTIFIER) or self.fail("expected a type")
        if word in DTYPES or word == "undefined":
            return TensorType(DTYPES.get(word), self.shape())
        if word not in _CONTAINERS:
            self.fail(f"'{word}' is no type", start)
        self.expect("(")
        if word == "opaque":
            domain = self.string() or ""
            self.expect(",")
            name = self.string() or ""
            self.expect(")")
            return OpaqueType(domain, name)
        if word == "map":
            key = self.key()
            self.expect(",")
        inner = self.type()
        self.expect(")")
        if word == "map":
            return MapType(key, inner)
        if word in ("sparse_tensor", "sparse"):
            if not isinstance(inner, TensorType):
                self.fail("a sparse tensor's type is written sparse_tensor(float32[2,3])", start)
            return SparseTensorType(inner.dtype, inner.shape)
        return SequenceType(inner) if word == "seq" else OptionalType(inner)

    def key(self) -> DType:
        start = self.pos
        word = self.word(IDENTIFIER, "the type of a map's keys")
        if word not in DTYPES:
            self.fail(f"'{word}' is no element type", start)
        return DTYPES[word]

    def shape(self) -> tuple[DimLike, ...] | None:
        """A missing bracket is a scalar; `[]`, as ONNX has it, and `[...]` are of unknown rank."""
        if not self.take("["):
            return ()
        if self.take("]"):
            return None
        if self.take("..."):
            self.expect("]")
            return None
        dims: list[DimLike] = []
        while True:
            if self.take("?"):
                dims.append(None)
            elif self.peek(NUMBER):
                dims.append(self.integer("a size"))
            else:
                dims.append(self.word(IDENTIFIER, "a size, a symbol or '?'"))
            if not self.take(","):
                self.expect("]")
                return tuple(dims)
