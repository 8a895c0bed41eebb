"""How close kernels on the GPU come to what it can do, and what Python adds to a dispatch.

    python -m tests.benchmarks.roofline [--kernels TEXT] [--runs 5] [--write]

The ceiling is measured: multiply-adds of float32 in registers, and a copy from memory to memory. An operation is an
addition or a multiplication; those of Winograd's algorithm count as in the convolution that it replaces. Times are the
GPU's own where it has a clock, the best of `--runs`. Copies to and from the GPU do not count. `SARDONYX_FLOAT16=native`
or `packed` says how float16 lies in memory. Images lie with their channels last, as kernels want them; the whole model
brings them into that order, and back.

On llvmpipe the reference is what the best of hand-written shaders takes for the same. A product of 512 x 512 x 512 that
is measured beside each kernel tells how fast the machine is.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sardonyx import InferenceSession, SessionOptions
from sardonyx.providers.contract import Address, SegmentLaunch
from sardonyx.runtime.profile import milliseconds
from sardonyx_webgpu import provider
from sardonyx_webgpu.code import Code
from sardonyx_webgpu.extents import constant, size
from sardonyx_webgpu.gpu.interface import Shader
from sardonyx_webgpu.runtime.device import WebGpuDevice
from tests.benchmarks.kernels import KERNELS, Kernel
from tests.benchmarks.report import machine, publish, table
from tests.benchmarks.table import number

DTYPES = ("float32", "float16")
TURNS = 1000
SUMS = 8
UNROLLED = 4
"""Turns of the loop that are written out."""
HEAD = """@group(0) @binding(0) var<storage, read_write> x: array<vec4f>;
@group(0) @binding(1) var<storage, read_write> y: array<vec4f>;
@group(1) @binding(0) var<uniform> params: array<vec4<i32>, 1>;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
    let i = (group.y * groups.x + group.x) * 64u + thread;
    if (i >= u32(params[0].x)) { return; }
"""
COPY = HEAD + "    y[i] = x[i];\n}\n"
LARGEST = 1 << 30
"""Bytes that are copied at most: enough of them lie in no cache."""
DISPATCHES = 400
PRODUCT = 512
REFERENCES = {
    "MatMul 512 x 512 x 512": 24,
    "MatMul 196 x 768 x 768": 21,
    "MatMul 1 x 768 x 3072": 2.5,
    "Conv 3x3, 64 at 56": 7.6,
    "Conv 3x3, 256 at 14": 9.0,
    "Conv 1x1, 256 to 64 at 56": 9.6,
    "Conv 3x3, depthwise, 96 at 112": 3.6,
    "Softmax 2364 x 197": 3.6,
    "LayerNormalization 197 x 768": 0.8,
    "Mul, Add, Max, Mul, Add, 802,816 elements": 2.6,
}
"""Milliseconds on llvmpipe, where the product takes as many as the first one."""


def code(name: str, wgsl: str, turns: int = 0) -> Code:
    """A code of one parameter, its number of threads, that reads a buffer and writes one."""
    shader = Shader(name, wgsl, 2)
    return Code(name, name, 1, [size("p0")], constant(turns), (0, 1), lambda same, half: shader)


def multiply_adds() -> str:
    """A shader that multiplies and adds in registers."""
    sums = [f"    var s{k} = x[i] + {k}.0;" for k in range(SUMS)]
    steps = [f"        s{k} = fma(s{k}, a, b);" for k in range(SUMS)] * UNROLLED
    loop = [f"    for (var k = 0; k < {TURNS // UNROLLED}; k++) {{", *steps, "    }"]
    total = " + ".join(f"s{k}" for k in range(SUMS))
    return HEAD + "\n".join(["    let a = x[i];", "    let b = y[i];", *sums, *loop, f"    y[i] = {total};", "}", ""])


def bound(device: WebGpuDevice, made: Code, threads: int, nbytes: int, count: int = 1) -> Callable[[], None]:
    """What launches a code so often, on two buffers."""
    x, y = (Address(device.allocate(nbytes), 0, nbytes) for _ in range(2))
    executable = device.load([made], [[SegmentLaunch(0)] * count])
    return executable.bind(0, [[x, y]] * count, [[threads]] * count)


def best(device: WebGpuDevice, run: Callable[[], None], runs: int) -> float:
    """The shortest time of a segment in seconds."""
    times = []
    for _ in range(runs + 1):
        begun = time.perf_counter()
        taken = device.timed(run)
        times.append(time.perf_counter() - begun if taken is None else taken)
    return min(times[1:])


def ceiling(device: WebGpuDevice, runs: int) -> tuple[float, float]:
    """Operations and bytes per second."""
    made, threads, taken = code("multiply_adds", multiply_adds(), TURNS), 1 << 12, 0.0
    while taken < 0.02 and threads < 1 << 22:
        threads *= 2
        taken = best(device, bound(device, made, threads, 16 * threads), runs)
    operations = threads * TURNS * SUMS * 4 * 2 / taken
    nbytes, taken = 1 << 25, 0.0
    while taken < 1e-3 and 2 * nbytes <= min(LARGEST, device.gpu.limits["maxStorageBufferBindingSize"]):
        nbytes *= 2
        taken = best(device, bound(device, code("copy", COPY), nbytes // 16, nbytes), runs)
    return operations, 2 * nbytes / taken


def product() -> str:
    """A shader that multiplies two matrices of 512 x 512: a thread makes 8 x 8 elements, four steps at a time."""
    quads = PRODUCT // 4
    lines = [f"    let row = i / {quads // 2}u * {2 * PRODUCT}u;", f"    let column = i % {quads // 2}u * 2u;"]
    lines += [f"    var s{r}_{q} = vec4f();" for r in range(8) for q in range(2)]
    lines.append(f"    for (var k = 0u; k < {quads}u; k++) {{")
    lines += [
        f"        let y{j}_{q} = x[(4u * k + {j}u) * {quads}u + column + {q}u];" for j in range(4) for q in range(2)
    ]
    for r in range(8):
        lines.append(f"        let x{r} = x[row + {r * quads}u + k];")
        lines += [f"        s{r}_{q} = fma(vec4f(x{r}[{j}]), y{j}_{q}, s{r}_{q});" for q in range(2) for j in range(4)]
    lines.append("    }")
    lines += [f"    y[row + {r * quads}u + column + {q}u] = s{r}_{q};" for r in range(8) for q in range(2)]
    return HEAD + "\n".join([*lines, "}", ""])


def measure(kernel: Kernel, dtype: str, last: bool, runs: int, beside: Callable[[], float]) -> tuple[float, float]:
    """Seconds of all launches of a model of one node, and of what is measured beside it."""
    options = SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = "/dev/null"
    session = InferenceSession(kernel.model(dtype, last).SerializeToString(), options, ["WebGpuExecutionProvider"])
    feeds = kernel.feeds(dtype, last)
    profiler = session._runner.profiling.profiler
    assert profiler is not None
    times, others = [], []
    for _ in range(runs + 1):
        others.append(beside())
        before = len(profiler.trace())
        session.run(None, feeds)
        events = profiler.trace()[before:]
        times.append(sum(milliseconds(event) for event in events if event.get("cat") == "Node") / 1e3)
    return min(times[1:]), min(others[1:])


def reference(name: str, seconds: float) -> str:
    """The reference of a kernel in milliseconds, where the product takes so many seconds."""
    scale = 1e3 * seconds / next(iter(REFERENCES.values()))
    return number(REFERENCES[name] * scale) if name in REFERENCES else ""


def replay(device: WebGpuDevice, runs: int) -> tuple[float, float]:
    """Microseconds of Python for each of many dispatches: a bound segment, and the raw calls of wgpu."""
    made = code("copy", COPY)
    run: Any = bound(device, made, 1, 256, DISPATCHES)
    gpu: Any = device.gpu
    times: dict[str, list[float]] = {"ours": [], "raw": []}
    for _ in range(4 * runs):
        begun = time.perf_counter()
        run()
        device.queue.flush()
        middle = time.perf_counter()
        device.synchronize()
        again = time.perf_counter()
        _raw(gpu._device, run.work.params, run.work.dispatches)
        times["raw"].append(time.perf_counter() - again)
        times["ours"].append(middle - begun)
        device.synchronize()
    ours, raw = (1e6 * statistics.median(each) / DISPATCHES for each in times.values())
    return ours, raw


def _raw(device: Any, params: Any, dispatches: Sequence[Any]) -> None:
    encoder = device.create_command_encoder()
    compute = encoder.begin_compute_pass()
    for pipeline, group, offset, x, y in dispatches:
        compute.set_pipeline(pipeline)
        compute.set_bind_group(0, group)
        compute.set_bind_group(1, params, [offset])
        compute.dispatch_workgroups(x, y)
    compute.end()
    device.queue.submit([encoder.finish()])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", default="", metavar="TEXT", help="those with this in their names")
    parser.add_argument("--runs", type=int, default=5, help="of each (default %(default)s)")
    parser.add_argument("--write", action="store_true", help="write the table into README.md")
    arguments = parser.parse_args()
    device: Any = provider.device({})
    is_llvmpipe = "llvmpipe" in device.gpu.adapter.name
    operations, nbytes = ceiling(device, arguments.runs)
    calibrate = bound(device, code("product", product(), PRODUCT // 4), (PRODUCT // 8) ** 2, 4 * PRODUCT**2)
    rows = []
    for name, kernel in KERNELS.items():
        if arguments.kernels not in name or not (kernel.operations or name in REFERENCES):
            continue
        row = [name]
        for dtype in DTYPES:
            seconds, beside = measure(kernel, dtype, True, arguments.runs, lambda: best(device, calibrate, 1))
            row.append(number(1e3 * seconds))
            if dtype == DTYPES[0]:
                row += [reference(name, beside)] if is_llvmpipe else []
                row.append(number(1e3 * measure(kernel, dtype, False, arguments.runs, lambda: 0.0)[0]))
            rate = kernel.operations / seconds
            row += [number(rate / 1e9), f"{100 * rate / operations:.0f} %"] if rate else ["", ""]
        rows.append(row)
        print(row, flush=True)
    ours, raw = replay(device, arguments.runs)
    head = ["kernel", *(text for dtype in DTYPES for text in (f"{dtype}, ms", "GFLOP/s", "of the ceiling"))]
    head[2:2] = [*(["reference"] if is_llvmpipe else []), "whole model, ms"]
    about = [
        f"Ceiling: {operations / 1e9:.0f} GFLOP/s, {nbytes / 1e9:.1f} GB/s. A dispatch costs Python {ours:.2f} us,"
        f" {raw:.2f} us of them in the raw calls.",
        f"{machine()}.",
    ]
    publish("roofline" if is_llvmpipe else "roofline-gpu", [*table(head, rows), "", *about], arguments.write)


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
