"""WebGPU from Python in a page: where Python can wait for it, and where only what is awaited can."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from tests.engine.graphs import CONTROL_FLOW, model
from tests.pyodide import arrays
from tests.pyodide.test_digits import MODEL
from tests.support.browser import Chromium

pytestmark = pytest.mark.slow

IMAGES = np.random.default_rng(0).random((3, 1, 28, 28), np.float32)
START = """
import asyncio, json, warnings
import numpy as np
import sardonyx as ort
from arrays import packed, unpacked
from sardonyx.errors import EngineError, EPFail, MustAwait
from sardonyx_webgpu import provider

WEBGPU = "WebGpuExecutionProvider"
feeds = {"image": unpacked(json.load(open("image.json")))}

def complaint(kind, work, *arguments):
    try:
        work(*arguments)
    except kind as error:
        return str(error)
"""


def run(chromium: Chromium, code: str, *, jspi: bool = True) -> list[Any]:
    """What the lines that `code` prints say in JSON."""
    files = {
        "digits.onnx": MODEL.read_bytes(),
        "flow.onnx": model(CONTROL_FLOW),
        "image.json": json.dumps(arrays.packed(IMAGES)).encode(),
        "arrays.py": Path(arrays.__file__).read_bytes(),
    }
    return [json.loads(line) for line in chromium.run(START + code, files, jspi=jspi).splitlines()]


def assert_digits(found: Any) -> None:
    (expected,) = onnxruntime.InferenceSession(MODEL).run(None, {"image": IMAGES})
    np.testing.assert_allclose(arrays.unpacked(found), expected, atol=1e-4 * np.abs(expected).max())


def test_digits(chromium: Chromium) -> None:
    code = """
session = ort.InferenceSession("digits.onnx", providers=[WEBGPU])
one, = session.run(None, {"image": feeds["image"][:1]})
results, = session.run(None, feeds)
print(json.dumps([session.get_providers()[0], session.plans[0].placement, packed(one), packed(results)]))
"""
    ((name, placement, one, results),) = run(chromium, code)
    assert name == "WebGpuExecutionProvider"
    assert set(placement) <= {0, -1}
    assert_digits(results)
    np.testing.assert_allclose(arrays.unpacked(one), arrays.unpacked(results)[:1], atol=1e-6)


def test_runs_that_are_awaited_share_a_session(chromium: Chromium) -> None:
    code = """
sessions = [ort.InferenceSession("digits.onnx", providers=[WEBGPU]) for _ in range(2)]
runs = [session.run_async(None, {"image": feeds["image"] * (k + 1)}) for k in range(3) for session in sessions]
found = await asyncio.gather(*runs)
alike = [np.array_equal(found[2 * k][0], found[2 * k + 1][0]) for k in range(3)]

told = asyncio.get_running_loop().create_future()
sessions[0].run_async(None, feeds, lambda *given: told.set_result(given), "mine")
results, data, error = await told
print(json.dumps([alike, packed(found[0][0]), packed(results[0]), data, error]))
"""
    ((alike, first, results, data, error),) = run(chromium, code)
    assert alike == [True, True, True]
    assert (data, error) == ("mine", "")
    assert_digits(first)
    assert_digits(results)


FLOW = """
feeds = {
    "x": np.array([[-1, 2, 0.5, -4], [1, 1, -1, -1], [0.25, 3, -2, 0]], np.float32),
    "n": np.array(3, np.int64),
    "c": np.array(True),
}
wanted = ort.InferenceSession("flow.onnx", providers=["NumpyExecutionProvider"]).run(None, feeds)
session = ort.InferenceSession("flow.onnx", providers=[WEBGPU])
"""


def test_halts(chromium: Chromium) -> None:
    code = f"""{FLOW}
for found in (session.run(None, feeds), await session.run_async(None, feeds)):
    print(json.dumps(all(np.allclose(*pair, atol=1e-5) for pair in zip(found, wanted))))
"""
    assert run(chromium, code) == [True, True]


def test_python_that_cannot_wait(chromium: Chromium) -> None:
    code = f"""
session = ort.InferenceSession("digits.onnx", providers=[WEBGPU])
early = complaint(MustAwait, session.run, None, feeds)
results, = await session.run_async(None, feeds)
late = complaint(MustAwait, session.run, None, feeds)
again, = await session.run_async(None, feeds)
on_cpu = ort.InferenceSession("digits.onnx", providers=["CPUExecutionProvider"])
print(json.dumps([early, late, packed(results), packed(again), packed(on_cpu.run(None, feeds)[0])]))
results, = await on_cpu.run_async(None, feeds)
print(json.dumps(packed(results)))
{FLOW}
try:
    await session.run_async(None, feeds)
except MustAwait as error:
    print(json.dumps(str(error)))
"""
    (early, late, *found), on_cpu, halts = run(chromium, code, jspi=False)
    for complaint in (early, late, halts):
        assert "await session.run_async" in complaint
        assert "Chrome or Edge from 137" in complaint
    for result in (*found, on_cpu):
        assert_digits(result)


def test_what_is_refused_is_said_by_the_next_read(chromium: Chromium) -> None:
    code = """
from sardonyx_webgpu.gpu.interface import Shader

session = ort.InferenceSession("digits.onnx", providers=[WEBGPU])
gpu = provider.device({}).gpu
good = Shader("good", "@compute @workgroup_size(1) fn main() {}", 0)
gpu.pipelines([good, Shader("bad", "fn f() {\\n  nope();\\n}", 1)])
shader = complaint(EngineError, session.run, None, feeds)
gpu.buffer(1 << 40)
buffer = complaint(EngineError, session.run, None, feeds)
print(json.dumps([shader, buffer, packed(session.run(None, feeds)[0])]))
"""
    ((shader, buffer, results),) = run(chromium, code)
    assert shader.startswith("WebGPU refused the shader of 'bad': line 2: ")
    assert shader.endswith(": nope();")
    assert "1099511627776" in buffer
    assert_digits(results)


@pytest.mark.parametrize("jspi", [True, False])
def test_a_device_that_is_lost(chromium: Chromium, jspi: bool) -> None:
    code = """
session = ort.InferenceSession("digits.onnx", providers=[WEBGPU])
await session.run_async(None, feeds)
provider.device({}).gpu.close()
with warnings.catch_warnings(record=True) as told:
    results = await session.run_async(None, feeds)
print(json.dumps([str(item.message) for item in told]))
print(json.dumps(packed(results[0])))
"""
    (warning,), results = run(chromium, code, jspi=jspi)
    assert warning.startswith("WebGpuExecutionProvider: the browser took the GPU away (")
    assert warning.endswith("; it is opened again, and the model runs once more")
    assert_digits(results)


def test_options(chromium: Chromium) -> None:
    code = """
def open_with(**options):
    return ort.InferenceSession("digits.onnx", providers=[(WEBGPU, options)])

most = provider.device({"limits": "max", "adapter": "SwiftShader"})
few = open_with(power_preference="low-power")
print(json.dumps([provider.describe(), most.gpu.limits["maxBufferSize"], few.compiled]))
wrong = complaint(EPFail, lambda: open_with(adapter="no such"))
with warnings.catch_warnings():
    warnings.simplefilter("error", UserWarning)
    print(json.dumps([wrong, complaint(UserWarning, lambda: open_with(colour=1))]))
"""
    (description, most, compiled), (adapter, option) = run(chromium, code)
    assert description["kind"] == "software"
    assert "swiftshader" in description["adapter"]
    assert int(description["largest tensor"].removesuffix(" MiB")) >= 128
    assert most > 1 << 28
    assert compiled <= 1
    assert "no adapter has 'no such' in its name; the browser offers 'google swiftshader'" in adapter
    assert option.startswith("WebGpuExecutionProvider: the option 'colour' has no effect here; there are adapter, ")


def test_buffers_are_given_back(chromium: Chromium) -> None:
    code = """
import gc
from sardonyx_webgpu.gpu.browser import BrowserGpu

made = []
make = BrowserGpu._buffer

def counted(self, *arguments):
    made.append(buffer := make(self, *arguments))
    made[-1].gone = False
    return buffer

destroy = BrowserGpu.destroy

def gone(self, buffer):
    buffer.gone = True
    destroy(self, buffer)

BrowserGpu._buffer, BrowserGpu.destroy = counted, gone
device = provider.device({})

def alive():
    gc.collect()
    device.free(device.allocate(16))
    return sum(buffer.mapState == "unmapped" and buffer.usage != 9 and not buffer.gone for buffer in made)

for _ in range(3):
    session = ort.InferenceSession("digits.onnx", providers=[WEBGPU])
    for rows in (1, 2, 3, 1):
        session.run(None, {"image": feeds["image"][:rows]})
    before = alive()
    del session
    print(json.dumps([before, alive()]))
"""
    for before, after in run(chromium, code):
        assert before > 2
        assert after == 1  # what is bound for buffers without elements
