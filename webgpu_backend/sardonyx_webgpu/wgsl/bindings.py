"""The storage buffers of a shader, and the functions that load and store their elements.

All are bound `read_write`, since WebGPU lets no dispatch bind one buffer both ways. A buffer is an array of its
elements, or of four of them where all that is written are whole fours; elements of less than 32 bits share words. On a
device with the feature shader-f16 those of float16 are `f16` in memory, and f32 everywhere else.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sardonyx.errors import EngineError
from sardonyx_webgpu.wgsl.values import Kind, kind


class Bindings:
    """The buffers of a code: `reads`, then written ones, and for each the first one that lies at the same place.

    WebGPU refuses two bindings of one range of memory in a dispatch that writes it, so those share a binding. The
    buffers in `fours` are loaded and stored four elements at a time, beginning at multiples of four. `half` says
    whether the device has shader-f16.
    """

    def __init__(
        self,
        name: str,
        dtypes: Sequence[str],
        reads: int,
        same: Sequence[int] = (),
        half: bool = False,
        fours: Collection[int] = (),
    ) -> None:
        self.same = same or range(len(dtypes))
        self.kinds = [kind(dtype) for dtype in dtypes]
        self.half = half
        self.fours = {self.same[k] for k in fours}
        self.written = {self.same[k] for k in range(reads, len(dtypes))}
        self._used: dict[str, str] = {}
        for k, first in enumerate(self.same):
            if self.kinds[k] != self.kinds[first]:
                raise EngineError(f"{name}: buffers {first} and {k} lie at one place, but differ in dtype")

    @property
    def count(self) -> int:
        """How many buffers are bound."""
        return len(set(self.same))

    def load(self, buffer: int, index: str) -> str:
        """The element at an index."""
        k = self.same[buffer]
        if k not in self.fours and not self._is_packed(k):
            return self._value(k, f"b{k}[{index}]")
        return self._call("load", k, index)

    def load4(self, buffer: int, index: str) -> str:
        """A vector of the elements from four times this index on."""
        k = self.same[buffer]
        if self._is_packed(k):
            return self._call("load4", k, index)
        return self._value(k, f"b{k}[{index}]", "vec4")

    def word(self, buffer: int, index: str) -> str:
        """The word of the four bytes from four times this index on."""
        return f"b{self.same[buffer]}[{index}]"

    def store(self, buffer: int, index: str, value: str) -> str:
        """The statement that stores an element."""
        k = self.same[buffer]
        if not self._is_packed(k):
            return f"b{k}[{index}] = {self._stored(k, value)};"
        return self._call("store", k, f"{index}, {value}") + ";"

    def store4(self, buffer: int, index: str, value: str) -> str:
        """The statement that stores a vector of elements from four times this index on."""
        k = self.same[buffer]
        if not self._is_packed(k):
            return f"b{k}[{index}] = {self._stored(k, value, 'vec4')};"
        return self._call("store4", k, f"{index}, {value}") + ";"

    def declarations(self) -> str:
        """The bindings, once all is written that uses them."""
        lines = ["enable f16;\n"] if any(map(self._is_half, self.same)) else []
        for binding, k in enumerate(sorted(set(self.same))):
            element = f"atomic<{self._element(k)}>" if self._is_atomic(k) else self._element(k)
            lines.append(f"@group(0) @binding({binding}) var<storage, read_write> b{k}: array<{element}>;\n")
        return "".join(lines)

    def functions(self) -> str:
        """The functions that were called."""
        return "".join(self._used.values())

    def _element(self, k: int) -> str:
        held = self.kinds[k]
        if not self._is_packed(k):
            element = "f16" if self._is_half(k) else held.wgsl
            return f"vec4<{element}>" if k in self.fours else element
        return "vec2<u32>" if k in self.fours and held.stored == 16 else "u32"

    def _is_half(self, k: int) -> bool:
        return self.half and self.kinds[k].dtype == "float16"

    def _is_packed(self, k: int) -> bool:
        """Whether elements share words."""
        return self.kinds[k].stored < 32 and not self._is_half(k)

    def _value(self, k: int, text: str, vector: str = "") -> str:
        """What is computed with, of what is in memory; of four, `vector` is "vec4"."""
        return f"{_of(vector, 'f32')}({text})" if self._is_half(k) else text

    def _stored(self, k: int, text: str, vector: str = "") -> str:
        """What is in memory, of what is computed with."""
        return f"{_of(vector, 'f16')}({text})" if self._is_half(k) else text

    def _is_atomic(self, k: int) -> bool:
        """Whether threads may write different parts of a word."""
        return k in self.written and k not in self.fours and self._is_packed(k)

    def _call(self, function: str, k: int, operands: str) -> str:
        name = f"{function}_b{k}"
        if name not in self._used:
            self._used[name] = getattr(self, f"_{function}")(k)
        return f"{name}({operands})"

    def _load(self, k: int) -> str:
        held = self.kinds[k]
        head = f"fn load_b{k}(i: i32) -> {held.wgsl} {{\n"
        if not self._is_packed(k):  # one of four
            return f"{head}    return {self._value(k, f'b{k}[i >> 2u][i & 3]')};\n}}\n"
        word = f"b{k}[{_word('i', held)}]"
        if k in self.fours and held.stored == 16:
            word = f"b{k}[i >> 2u][(i >> 1u) & 1]"
        elif self._is_atomic(k):
            word = f"atomicLoad(&{word})"
        bits = f"extractBits({word}, {_shift('i', held)}, {held.stored}u)"
        return f"{head}    return {held.from_bits(bits)};\n}}\n"

    def _load4(self, k: int) -> str:
        held = self.kinds[k]
        if held.dtype == "float16":
            parts = [f"unpack2x16float(word.{half})" for half in "xy"]
            return _vector_load(k, held, ", ".join(parts))
        if held.stored == 8:
            parts = [f"extractBits(word, {8 * lane}u, 8u)" for lane in range(4)]
        else:
            parts = [f"extractBits(word.{half}, {shift}u, 16u)" for half in "xy" for shift in (0, 16)]
        return _vector_load(k, held, ", ".join(held.from_bits(part) for part in parts))

    def _store(self, k: int) -> str:
        held = self.kinds[k]
        mask = f"{(1 << held.stored) - 1:#x}u"
        return (
            f"fn store_b{k}(i: i32, x: {held.wgsl}) {{\n"
            f"    let shift = {_shift('i', held)};\n"
            f"    atomicAnd(&b{k}[{_word('i', held)}], ~({mask} << shift));\n"
            f"    atomicOr(&b{k}[{_word('i', held)}], ({held.to_bits('x')} & {mask}) << shift);\n}}\n"
        )

    def _store4(self, k: int) -> str:
        held = self.kinds[k]
        mask = f"{(1 << held.stored) - 1:#x}u"
        parts = [f"({held.to_bits(f'x.{lane}')} & {mask})" for lane in "xyzw"]
        if held.stored == 8:
            word = " | ".join(f"({part} << {8 * lane}u)" for lane, part in enumerate(parts))
        else:
            word = f"vec2<u32>({parts[0]} | ({parts[1]} << 16u), {parts[2]} | ({parts[3]} << 16u))"
        return f"fn store4_b{k}(i: i32, x: vec4<{held.wgsl}>) {{\n    b{k}[i] = {word};\n}}\n"


def _vector_load(k: int, held: Kind, values: str) -> str:
    return (
        f"fn load4_b{k}(i: i32) -> vec4<{held.wgsl}> {{\n"
        f"    let word = b{k}[i];\n    return vec4<{held.wgsl}>({values});\n}}\n"
    )


def _of(vector: str, element: str) -> str:
    return f"{vector}<{element}>" if vector else element


def _word(index: str, held: Kind) -> str:
    return f"{index} >> {2 if held.stored == 8 else 1}u"


def _shift(index: str, held: Kind) -> str:
    return f"(u32({index}) & 3u) * 8u" if held.stored == 8 else f"(u32({index}) & 1u) * 16u"
