"""Mistakes in pages, WebAssembly and WebGPU."""

from __future__ import annotations

from tests.mutations.runner import Mutation

_ALGEBRA = "tests/engine/test_algebra.py"

PAGES = [
    Mutation(
        "remainders have the sign of what is divided",
        "web/sardonyx/sizes.js",
        "a - b * Math.floor(a / b)",
        "a % b",
        (_ALGEBRA,),
    ),
    Mutation(
        "a guard that does not hold is not broken",
        "web/sardonyx/sizes.js",
        '(relation === "==" ? value === 0 : value >= 0) !== truth',
        '(relation === "==" ? value === 0 : value > 0) !== truth',
        (_ALGEBRA,),
    ),
    Mutation(
        "ranges that come back are not joined with the next one",
        "web/sardonyx/memory.js",
        "if (this.free[k + 1]?.[0] === end)",
        "if (this.free[k + 1]?.[0] < end)",
        ("tests/web/test_modules.py",),
    ),
    Mutation(
        "a section that is damaged is used",
        "web/sardonyx/bundle.js",
        "if (sum !== checksum || !isRight)",
        "if (!isRight)",
        ("tests/web/test_modules.py",),
    ),
    Mutation(
        "a submission may take any time",
        "web/sardonyx/queue.js",
        "if (!last.dispatches.length || last.cost + cost <= limits.submission)",
        "if (last)",
        ("tests/web/test_modules.py",),
    ),
    Mutation(
        "what a session submits for another one is heard by nobody",
        "web/sardonyx/queue.js",
        "this.client.watch(() => this.device.queue.submit([this.encoder.finish()]))",
        "this.device.queue.submit([this.encoder.finish()])",
        ("tests/web/test_gpu.py",),
    ),
    Mutation(
        "outputs that were made before a run failed are lost",
        "web/sardonyx/session.js",
        "made.forEach((buffer) => device.gpu.free(buffer))",
        "made.splice(0)",
        ("tests/web/test_gpu.py",),
    ),
    Mutation(
        "a session is closed before its runs are over",
        "web/sardonyx/session.js",
        "this.last.then(() => device?.close())",
        "device?.close()",
        ("tests/web/test_gpu.py",),
    ),
    Mutation(
        "what a run leaves on the GPU is submitted later",
        "web/sardonyx/client.js",
        "    this.gpu.flush();\n    const found",
        "    const found",
        ("tests/web/test_gpu.py",),
    ),
    Mutation(
        "pictures shrink without an average",
        "web/sardonyx/picture.js",
        "let reach = max(scale, vec2f(1))",
        "let reach = vec2f(1)",
        ("tests/web/test_pictures.py",),
    ),
    Mutation(
        "a download goes on with another file",
        "web/sardonyx/downloads.js",
        "if (rest.status === 206 && markOf(rest) === mark)",
        "if (rest.status === 206)",
        ("tests/web/test_modules.py",),
    ),
    Mutation(
        "a download goes on from its start",
        "web/sardonyx/downloads.js",
        "at += piece.value.length;",
        "at = piece.value.length;",
        ("tests/web/test_modules.py",),
    ),
    Mutation(
        "of equal elements the last is the largest",
        "web/sardonyx/ort/operators.js",
        ".sort((i, j) => line[j] - line[i])",
        ".sort((i, j) => line[j] - line[i] || j - i)",
        ("tests/web/test_modules.py",),
    ),
    Mutation(
        "bundlers take what was made with other options",
        "web/sardonyx/bundlers/compiler.js",
        "await releaseOf(words), JSON.stringify(how)]",
        "await releaseOf(words)]",
        ("tests/web/test_builds.py",),
    ),
]

WASM = [
    Mutation(
        "weights that hosts add in 16 bits may be too large for them",
        "wasm/sardonyx_wasm/primitives.py",
        "    pair = 128\n",
        "    pair = 129\n",
        ("tests/wasm/test_quads.py",),
    ),
    Mutation(
        "hosts are not asked whether bytes have a sign",
        "wasm/sardonyx_wasm/routines/quads.py",
        "f.select(moved, 128, i32.const(0)) - f.zero",
        "i32.const(128) - f.zero",
        ("tests/wasm/test_quads.py",),
    ),
    Mutation(
        "NaN becomes another integer than 0",
        "wasm/sardonyx_wasm/vectors/conversion.py",
        "return truncate(x) & (x == x) if s.fused else truncate(x)",
        "return truncate(x)",
        ("tests/wasm/test_kernels.py",),
    ),
    Mutation(
        "ranges that come back are not joined with the one before",
        "wasm/sardonyx_wasm/hosts/allocator.py",
        "if index and self._free[index - 1][1] == start:",
        "if index and self._free[index - 1][1] == -start:",
        ("tests/wasm/test_hosts.py",),
    ),
    Mutation(
        "an error in another thread is lost",
        "core/sardonyx/common/crew.py",
        "outcomes.tell(error)",
        "outcomes.tell(None)",
        ("tests/engine/test_crew.py",),
    ),
    Mutation(
        "the place of the largest element is that of the last NaN",
        "wasm/sardonyx_wasm/kernels/accumulator.py",
        'call("and", _BOOL, [call("isnan", k, [element]), is_number])',
        'call("isnan", k, [element])',
        ("tests/engine/test_kernels.py",),
    ),
    Mutation(
        "large sums of integers take tiles of 4 x 4",
        "wasm/sardonyx_wasm/legalization/integers.py",
        "_LOST = {1: 0, 2: 1, 4: 3}",
        "_LOST = {1: 0, 2: 1, 4: 0}",
        ("tests/wasm/test_winograd_int8.py",),
    ),
    Mutation(
        "what hangs over a tile is stored last",
        "wasm/sardonyx_wasm/routines/winograd_int8.py",
        "for k in reversed(range(columns)):",
        "for k in range(columns):",
        ("tests/wasm/test_winograd_int8.py",),
    ),
    Mutation(
        "NumPy multiplies integers as floats that do not hold their sums",
        "core/sardonyx/numpy_backend/integers.py",
        "if largest > EXACT:\n            return not is_product and self._halves(equation)\n        params",
        "if False:\n            return False\n        params",
        ("tests/engine/test_numpy_integers.py",),
    ),
    Mutation(
        "small weights are dequantized beforehand",
        "core/sardonyx/passes/fold.py",
        "if _is_weights(node):",
        "if False:",
        ("tests/passes/test_fold.py",),
    ),
    Mutation(
        "integers take tiles, too",
        "wasm/sardonyx_wasm/legalization/tiling.py",
        "    if not exact:\n        ways +=",
        "    if True:\n        ways +=",
        ("tests/wasm/test_tiling.py",),
    ),
    Mutation(
        "a band of queries sees a key less than its last one does",
        "wasm/sardonyx_wasm/device/attended.py",
        "else length - 1, self._keys - 1 - self._place)",
        "else length - 2, self._keys - 1 - self._place)",
        ("tests/wasm/test_attended.py",),
    ),
    Mutation(
        "attention of BLAS takes all rows of a cache for keys",
        "wasm/sardonyx_wasm/device/attended.py",
        "self._keys = room if keys is None else known(keys)",
        "self._keys = room",
        ("tests/wasm/test_attended.py",),
    ),
    Mutation(
        "small weights are none",
        "wasm/sardonyx_wasm/routines/attention.py",
        "_LEAST, _SHIFT = -86.0,",
        "_LEAST, _SHIFT = -6.0,",
        ("tests/wasm/test_attention.py",),
    ),
]

WEBGPU = [
    Mutation(
        "long work is one submission",
        "webgpu_backend/sardonyx_webgpu/runtime/queue.py",
        "if k > first and total + self._factor * seconds > BOUND:",
        "if k > first and total + self._factor * seconds > 1e9:",
        ("tests/webgpu/test_queue.py",),
    ),
    Mutation(
        "what waits has the parameters of later runs",
        "webgpu_backend/sardonyx_webgpu/runtime/device.py",
        "            self.device.queue.flush()\n            self.device.gpu.write(self.uniform",
        "            self.device.gpu.write(self.uniform",
        ("tests/webgpu/test_rebinding.py",),
    ),
    Mutation(
        "threads that write parts of a word do so one over the other",
        "webgpu_backend/sardonyx_webgpu/wgsl/bindings.py",
        "return k in self.written and k not in self.fours and self._is_packed(k)",
        "return False",
        ("tests/webgpu/test_conversion.py",),
    ),
    Mutation(
        "NaN is not larger than what is largest",
        "webgpu_backend/sardonyx_webgpu/kernels/accumulator.py",
        'better = (better | call("isnan", a)) & ~call("isnan", b)',
        'better = better & ~call("isnan", a)',
        ("tests/engine/test_kernels.py",),
    ),
    Mutation(
        "either zero has a place of its own",
        "webgpu_backend/sardonyx_webgpu/legalization/sorting.py",
        "number = p.where(p.equal(magnitude, 0), 1 << 31, number)",
        "number = p.where(p.equal(magnitude, 0), number, number)",
        ("tests/webgpu/test_sorting.py",),
    ),
    Mutation(
        "a grid of many workgroups has no second axis",
        "webgpu_backend/sardonyx_webgpu/runtime/grid.py",
        "rows = -(-groups // most)",
        "rows = min(1, groups)",
        ("tests/webgpu/test_program.py",),
    ),
]
