"""What a host must know of a module besides its code."""

from __future__ import annotations

import marshal
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sardonyx.common.record import record
from sardonyx.errors import EngineError

if TYPE_CHECKING:
    from ..assembler import Module

PACKAGES = ("sardonyx", "sardonyx_wasm")
"""The packages by whose sources modules are made."""
_HEAD = 4
_NUMBERS = {"i32", "i64", "f32", "f64"}


@record(frozen=True)
class Signature:
    """The types of an exported function."""

    params: tuple[str, ...]
    results: tuple[str, ...]

    @property
    def is_callable(self) -> bool:
        """Whether Python can call it: only numbers go in, at most one comes out."""
        return _NUMBERS.issuperset(self.params + self.results) and len(self.results) <= 1


@record(frozen=True)
class Interface:
    """What a module exports, and what it wants: entries of a table for functions, and bytes for its data."""

    name: str
    exports: Mapping[str, Signature]
    pointers: int
    data_size: int
    data_align: int

    @classmethod
    def of(cls, module: Module) -> Interface:
        """The interface of a module."""
        exports = {
            name: Signature(
                tuple([kind.name for kind in function.signature.values()]),
                tuple([kind.name for kind in function.results]),
            )
            for name, function in module.exports.items()
        }
        return cls(module.name, exports, len(module.pointers), module.data_size, module.data_align)

    def callable(self, name: str) -> Signature:
        """The types of an exported function; raises EngineError if there is none that Python can call."""
        signature = self.exports.get(name)
        if signature is None or not signature.is_callable:
            names = sorted(name for name, types in self.exports.items() if types.is_callable)
            raise EngineError(f"module {self.name!r} has no function {name!r} for Python to call, only {names}")
        return signature

    def to_bytes(self) -> bytes:
        """What `from_bytes` reads; the code may follow."""
        exports = {name: (types.params, types.results) for name, types in self.exports.items()}
        facts = marshal.dumps([self.name, exports, self.pointers, self.data_size, self.data_align])
        return len(facts).to_bytes(_HEAD, "little") + facts

    @classmethod
    def from_bytes(cls, data: memoryview) -> tuple[Interface, bytes]:
        """The interface in front of a module's code, and the code."""
        end = _HEAD + int.from_bytes(data[:_HEAD], "little")
        module, exports, *wanted = marshal.loads(data[_HEAD:end])
        signatures = {name: Signature(tuple(params), tuple(results)) for name, (params, results) in exports.items()}
        return cls(module, signatures, *wanted), bytes(data[end:])
