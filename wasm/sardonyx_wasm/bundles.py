"""Code of bundles: one module for pages and Python, in two forms, for engines with relaxed SIMD and for those without.

What `targets.wasm` of a manifest says: `codes`, `[name, buffers read, buffers written]` for each, in the order of the
numbers by which `run` knows them (see `drivers`); `modules`, the first of which that an engine can run is to be
taken: the `features` that it must have, the `section` with the binary, `memory`, the place of the byte that says
whether the imported memory is shared (3) or not (1), `table`, entries of the table for functions, and `data`, bytes of
memory that it wants at a multiple of `align`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sardonyx.common.record import record
from sardonyx.errors import EPFail, UnsoundError
from sardonyx.providers import contract

from .assembler import Callee, Memory, Module, i32
from .generator import generate

MODULES = (("wasm", frozenset({"simd", "relaxed-simd", "threads"})), ("wasm-simd", frozenset({"simd", "threads"})))
"""Sections, and the features for which the module in them is written. Atomic instructions work without threads, too."""
_PAGES = 1 << 16
_MEMORY = b"\x03env\x06memory\x02"
_EXPORTS = {"run": ("words", "thread", "threads"), "turns": ("words", "record", "count")}


class Bundler(contract.Bundler):
    """Puts modules into bundles."""

    target = "wasm"

    def __init__(self, provider: contract.Provider) -> None:
        self.provider = provider

    def write(self, given: Sequence[tuple[Any, Sequence[int]]]) -> tuple[dict[str, Any], dict[str, bytes]]:
        codes = [code for code, _ in given]
        modules, sections = [], {}
        for section, features in MODULES if codes else ():
            generated = generate(codes, features, "v8")
            binary = generated.to_bytes(Memory(1, _PAGES, shared=True), names=False)
            flag = binary.index(_MEMORY) + len(_MEMORY)
            wanted = {
                "table": len(generated.pointers),
                "data": generated.data_size,
                "align": generated.data_align,
            }
            modules.append({"section": section, "features": sorted(features - {"threads"}), "memory": flag, **wanted})
            sections[section] = binary
        listed = [[code.name, len(code.reads), len(code.writes)] for code in codes]
        return {"codes": listed, "modules": modules}, sections

    def read(self, bundle: contract.Sections, told: Mapping[str, Any]) -> list[StoredCode]:
        from .hosts import host

        for module in told["modules"]:
            if host().features.issuperset(module["features"]):
                library = Library(bundle.section(module["section"]), module)
                arity = [((None,) * reads, (None,) * writes) for _, reads, writes, _ in told["codes"]]
                return [StoredCode(library, k, *each) for k, each in enumerate(arity)]
        if told["codes"]:
            raise EPFail(f"{bundle.name} is for SIMD, which WebAssembly lacks here; run the .onnx model")
        return []


@record(frozen=True)
class StoredCode:
    """A code of a bundle's module, which a device takes instead of a Kernel."""

    library: Library
    number: int
    reads: tuple[None, ...]
    writes: tuple[None, ...]


class Library(Module):
    """A module of a bundle."""

    def __init__(self, binary: bytes | memoryview, data: Mapping[str, Any]) -> None:
        super().__init__("sardonyx")
        self._binary, self._flag = bytes(binary), data["memory"]
        self.data_size, self.data_align = data["data"], data["align"]
        sizes, most = (self.data_size, self.data_align, data["table"]), len(self._binary)
        is_sound = {*map(type, sizes)} == {int} and min(sizes) >= 0 and max(sizes) <= max(most, _PAGES)
        if not is_sound or self.data_align.bit_count() != 1 or not self._binary[: self._flag].endswith(_MEMORY):
            raise UnsoundError(f"a module of {most:,} bytes cannot have {data}")
        params = {name: dict.fromkeys(words, i32) for name, words in _EXPORTS.items()}
        self.exports = {name: Callee(name, signature, [i32], b"") for name, signature in params.items()}
        self.pointers = [self.exports["run"]] * data["table"]

    def to_bytes(self, memory: Memory | None = None, prologue: bytes = b"", names: bool = True) -> bytes:
        shared = bytes([1 | (memory or Memory()).shared << 1])
        binary = self._binary[: self._flag] + shared + self._binary[self._flag + 1 :]
        return binary[:8] + prologue + binary[8:]
