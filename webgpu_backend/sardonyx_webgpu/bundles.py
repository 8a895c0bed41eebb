"""Code of bundles: WGSL, for `navigator.gpu` as for wgpu.

What `targets.webgpu` of a manifest says: `codes`, for each its name, how many buffers it reads, and how many it writes;
`section`, which is JSON: for each code `[wgsl, bindings, params, grid, turns]`. The nth of `bindings` is the binding of
the nth buffer, and equal for buffers that are the same; `params` are how many words it takes; the dispatch covers the
product of the extents in `grid`, and a thread's loops turn `turns` times at most: expressions as programs have them
(`compiler.program`), over parameters alone. Group 0 has the buffers, all of them `read_write` storage; group 1 has one
uniform, the parameters, in windows of 256 bytes. Workgroups are those of `grid.workgroups`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sardonyx_webgpu.gpu import Shader
from sardonyx_webgpu.provider import WebGpuProvider
from sardonyx_webgpu.turns import turns_of
from sardonyx_webgpu.wgsl import shader

if TYPE_CHECKING:
    from sardonyx.bundle import Bundle
    from sardonyx.device import Provider

SECTION = "wgsl"


class PageProvider(WebGpuProvider):
    """Compiles without a GPU."""

    def available(self) -> bool:
        return True


class Bundler:
    """Implements `sardonyx.device.Bundler`."""

    target = "webgpu"
    provider: Provider = PageProvider()

    def write(self, codes: Sequence[tuple[Any, Sequence[int]]]) -> tuple[dict[str, Any], dict[str, bytes]]:
        stored = []
        for program, same in codes:
            made = shader(program, same)
            order = sorted(set(same))
            bindings = [order.index(first) for first in same]
            stored.append([made.wgsl, bindings, program.params, program.grid, turns_of(program)])
        listed = [[program.name, len(program.reads), len(program.writes)] for program, _ in codes]
        text = json.dumps(stored, separators=(",", ":"), ensure_ascii=False).encode()
        return {"codes": listed, "section": SECTION}, {SECTION: text}

    def read(self, bundle: Bundle, told: Mapping[str, Any]) -> list[StoredProgram]:
        stored = json.loads(bytes(bundle.section(told["section"])))
        return [
            StoredProgram(name, (None,) * reads, (None,) * writes, *code)
            for (name, reads, writes), code in zip(told["codes"], stored, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class StoredProgram:
    """A code of a bundle, which a device takes instead of a Program."""

    name: str
    reads: tuple[None, ...]
    writes: tuple[None, ...]
    wgsl: str
    bindings: list[int]
    params: int
    grid: list[Any]
    turns: list[Any]

    @property
    def key(self) -> str:
        return hashlib.sha256(self.wgsl.encode()).hexdigest()

    @property
    def same(self) -> tuple[int, ...]:
        """For each buffer the first that is the same."""
        return tuple(map(self.bindings.index, self.bindings))

    @property
    def shader(self) -> Shader:
        return Shader(self.name, self.wgsl, len(set(self.bindings)))
