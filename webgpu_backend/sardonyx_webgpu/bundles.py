"""Code of bundles: WGSL, for `navigator.gpu` as for wgpu.

What `targets.webgpu` of a manifest says: `codes`, for each its name, how many buffers it reads, and how many it writes;
`section`, which is JSON: `shaders`, texts in WGSL, and `codes`, each `[shader, bindings, params, grid, trips]`. The nth
of `bindings` is the binding of the nth buffer, and equal for buffers that are the same; `params` are how many words it
takes; the dispatch covers the product of the extents in `grid`, and a thread's loops turn `trips` times at most:
expressions as programs have them (`sardonyx.code.program`), over parameters alone. Group 0 has the buffers, all of
them `read_write` storage; group 1 has one uniform, the parameters, in windows of 256 bytes. Workgroups are those of
`runtime.grid.workgroups`. A code may have a sixth part, null or `[shader, grid, trips]`, which is faster where a
processor plays the GPU, and a seventh one, the `steps` of `code.Code`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from sardonyx.common.record import record
from sardonyx.errors import EPFail
from sardonyx.model.ir import Graph
from sardonyx.providers import contract
from sardonyx_webgpu.code import Code
from sardonyx_webgpu.gpu.interface import Shader
from sardonyx_webgpu.legalization.singles import use_singles
from sardonyx_webgpu.lower import lower

SECTION = "wgsl"


@record
class Bundler(contract.Bundler):
    """Puts WGSL into bundles, of codes that `provider` has compiled."""

    provider: contract.Provider
    target: str = "webgpu"

    def narrow(self, graph: Graph) -> bool:
        """Have float32 in place of float64."""
        return use_singles(graph)

    def write(self, codes: Sequence[tuple[Any, Sequence[int]]]) -> tuple[dict[str, Any], dict[str, bytes]]:
        stored = []
        texts: dict[str, int] = {}

        def number(code: Code, same: Sequence[int]) -> int:
            return texts.setdefault(code.shader(same, False).wgsl, len(texts))

        for source, same in codes:
            code, other = lower(source), lower(source, software=True)
            order = sorted(set(same))
            bindings = [order.index(first) for first in same]
            stored.append([number(code, same), bindings, code.params, code.grid, code.trips])
            if (shader := number(other, same)) != stored[-1][0]:
                stored[-1].append([shader, other.grid, other.trips])
            if code.steps is not None:
                stored[-1] += [*[None] * (6 - len(stored[-1])), code.steps]
        listed = [[source.name, len(source.reads), len(source.writes)] for source, _ in codes]
        shaders_and_codes = {"shaders": list(texts), "codes": stored}
        text = json.dumps(shaders_and_codes, separators=(",", ":"), ensure_ascii=False).encode()
        return {"codes": listed, "section": SECTION}, {SECTION: text}

    def read(self, bundle: contract.Sections, told: Mapping[str, Any]) -> list[Code]:
        stored = json.loads(bytes(bundle.section(told["section"])))
        named = zip(told["codes"], stored["codes"], strict=True)
        return [_stored(stored["shaders"], name, *code) for (name, *_), code in named]


def _stored(
    shaders: Sequence[str],
    name: str,
    number: int,
    bindings: list[int],
    params: int,
    grid: list[Any],
    trips: list[Any],
    software: Sequence[Any] | None = None,
    steps: list[Any] | None = None,
) -> Code:
    """A code of a bundle."""
    wgsl = shaders[number]
    expected = tuple(map(bindings.index, bindings))
    stored = Shader(name, wgsl, len(set(bindings)))

    def shader(same: Sequence[int], half: bool) -> Shader:
        if tuple(same) != expected:
            raise EPFail(f"WebGpuExecutionProvider: the bundle's {name!r} is for other buffers than these")
        return stored

    other = _stored(shaders, name, software[0], bindings, params, *software[1:]) if software else None
    return Code(name, hashlib.sha256(wgsl.encode()).hexdigest(), params, grid, trips, expected, shader, other, steps)
