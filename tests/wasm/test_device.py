"""The WebAssembly device: memory, segments of dependent launches, threads, and what is given back."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import sardonyx
from sardonyx.code.program import Builder, Program, call
from sardonyx.common import dtypes
from sardonyx.errors import RuntimeException
from sardonyx.providers.contract import ALIGNMENT, Address, Device, Executable, Provider, SegmentLaunch
from sardonyx_wasm import provider
from sardonyx_wasm.device import WasmDevice
from sardonyx_wasm.hosts import host
from tests.engine.graphs import model
from tests.support import require, run_in_pyodide

Array = np.ndarray
require("wasm")
pytestmark = pytest.mark.usefixtures("no_cache_on_disk")


@pytest.fixture
def device() -> WasmDevice:
    return WasmDevice(host())


def buffer(device: WasmDevice, nbytes: int) -> Address:
    return Address(device.allocate(nbytes), 0, nbytes)


def affine(scale: float, offset: float) -> Program:
    """y = x * scale + offset for n elements."""
    b = Builder(["float32"], ["float32"])
    b.store(1, b.grid(0), b.load(0, b.grid(0)) * scale + offset)
    return b.program("affine", [b.param()])


def matmul() -> Program:
    b = Builder(["float32", "float32"], ["float32"])
    m, k, n = b.param(), b.param(), b.param()
    i, j = b.grid(0), b.grid(1)
    total = b.let(b.load(0, i * k) * b.load(1, j))
    with b.loop(k - 1) as p:
        b.set(total, total + b.load(0, i * k + p + 1) * b.load(1, (p + 1) * n + j))
    b.store(2, i * n + j, total)
    return b.program("matmul", [m, n])


def test_provider() -> None:
    typed: Provider = provider
    assert typed.available()
    one, other = typed.device({}), typed.device({})
    checked: Device = one
    assert checked is other
    float32, string = dtypes.float32, dtypes.string
    assert typed.supports("elementwise", [dtypes.float64], [dtypes.float64], {"function": "tanh"})
    assert not typed.supports("reshape", [string], [string], {})
    assert not typed.supports("cast", [dtypes.float8e4m3fn], [float32], {})
    assert typed.supports("bitcast", [dtypes.float8e4m3fn], [dtypes.uint8], {})
    assert "simd" in provider.describe()["features"]
    assert typed.supports("elementwise", [dtypes.bool_, dtypes.int4, dtypes.int4], [dtypes.int4], {"function": "where"})


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (7,), (2, 3, 5)])
@pytest.mark.parametrize("dtype", [d.name for d in dtypes.ALL if d.kind not in ("string", "complex")])
def test_upload_and_download(device: WasmDevice, dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> None:
    storage = dtypes.by_name(dtype).storage
    array = rng.integers(0, 2, shape).astype(storage)
    address = buffer(device, 2 * array.nbytes + ALIGNMENT)
    shifted = Address(address.chunk, ALIGNMENT, array.nbytes)
    device.upload(shifted, array)
    result = device.download(shifted, storage, shape)
    assert_array_equal(result, array)
    assert result.flags.owndata
    constant = device.constant(array)
    device.copy(constant, address)
    device.synchronize()
    assert_array_equal(device.download(address, storage, shape), array)


def test_chunks_are_aligned_and_given_back(device: WasmDevice) -> None:
    chunk = device.allocate(1000)
    assert chunk.address % ALIGNMENT == 0
    device.free(chunk)
    again = device.allocate(1000)
    assert again.address == chunk.address
    device.free(again)
    device.free(again)
    assert device.allocate(0).address % ALIGNMENT == 0


def test_segments_run_launches_in_order(device: WasmDevice, rng: np.random.Generator) -> None:
    """y = (x A) * 2 + 1, then A again; a second segment goes on with the result."""
    x, a = rng.normal(size=(5, 4)).astype("f4"), rng.normal(size=(4, 4)).astype("f4")
    left, right, first, second = device.constant(x), device.constant(a), buffer(device, 80), buffer(device, 80)
    codes = [matmul(), affine(2, 1), affine(-1, 0.5)]
    segments = [[SegmentLaunch(0, "matmul"), SegmentLaunch(1), SegmentLaunch(0)], [SegmentLaunch(2)], []]
    executable: Executable = device.load(codes, segments)
    runs = [
        executable.bind(
            0, [[left, right, first], [first, second], [second, right, first]], [[5, 4, 4], [20], [5, 4, 4]]
        ),
        executable.bind(1, [[first, second]], [[20]]),
        executable.bind(2, [], []),
    ]
    for run in runs * 2:
        run()
    expected = 0.5 - ((x @ a) * 2 + 1) @ a
    np.testing.assert_allclose(device.download(second, x.dtype, (5, 4)), expected, 1e-5, 1e-5)


def test_negative_parameters(device: WasmDevice) -> None:
    b = Builder([], ["int32"])
    b.store(0, b.param() * 0, b.param())
    target = buffer(device, 4)
    device.load([b.program("negative")], [[SegmentLaunch(0)]]).bind(0, [[target]], [[1, -7]])()
    assert device.download(target, np.dtype("i4"), (1,)) == [-7]


def test_segments_take_other_parameters(device: WasmDevice, rng: np.random.Generator) -> None:
    """Those of each launch, also negative ones, while the buffers stay where they are."""
    b = Builder(["float32"], ["int32"])
    b.store(1, b.grid(0), b.param())
    x = rng.normal(size=8).astype("f4")
    source, middle, target, told = (buffer(device, 32) for _ in range(4))
    segments = [[SegmentLaunch(0), SegmentLaunch(1), SegmentLaunch(0)]]
    executable = device.load([affine(2, 1), b.program("tell", [b.param()])], segments)
    places = [[source, middle], [source, told], [middle, target]]
    run = executable.bind(0, places, [[8], [5, 8], [8]])
    device.upload(source, x)
    for first, told_, count, last in [(8, 5, 8, 8), (3, -7, 2, 1), (3, -7, 2, 1), (5, 9, 8, 4)]:
        for address in places[1][1:] + places[2]:
            device.upload(address, np.zeros(8, "f4"))
        assert executable.rebind(run, np.array([first, told_, count, last], np.int64))
        run()
        once = np.where(np.arange(8) < first, 2 * x + 1, 0)
        np.testing.assert_allclose(device.download(middle, x.dtype, x.shape), once, 1e-6)
        twice = np.where(np.arange(8) < last, 2 * once + 1, 0)
        np.testing.assert_allclose(device.download(target, x.dtype, x.shape), twice, 1e-6)
        wanted = np.where(np.arange(8) < count, told_, 0)
        assert_array_equal(device.download(told, np.dtype("i4"), (8,)), wanted)


def test_modules_are_shared_while_in_use(device: WasmDevice) -> None:
    first, second = (device.load([affine(1, 2)], [[SegmentLaunch(0)]]) for _ in range(2))
    assert first._module is second._module
    module = weakref.ref(first._module)
    del first, second
    gc.collect()
    assert module() is None


def test_bound_segments_keep_and_free_their_memory(device: WasmDevice) -> None:
    freed: list[int] = []
    recorder = _Recorder(device.host, freed)
    watched = WasmDevice(recorder)
    source, target = watched.constant(np.ones(8, "f4")), buffer(watched, 32)
    addresses = {source.chunk.address, target.chunk.address}
    run = watched.load([affine(1, 1)], [[SegmentLaunch(0)]]).bind(0, [[source, target]], [[8]])
    del source, target
    gc.collect()
    run()
    assert not freed
    del run
    gc.collect()
    assert len(freed) == 3
    assert addresses < set(freed)


class _Recorder:
    """A host that lists what is freed."""

    def __init__(self, inner: Any, freed: list[int]) -> None:
        self._inner = inner
        self._freed = freed

    def free(self, address: int) -> None:
        self._freed.append(address)
        self._inner.free(address)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_threads(device: WasmDevice) -> None:
    """Eight threads run segments of one executable, each with memory of its own, at the same time."""
    b = Builder(["float32"], ["float32"])
    b.store(1, b.grid(0), call("tanh", b.load(0, b.grid(0))) + 1)
    executable = device.load([b.program("tanh", [b.param()]), affine(2, 0)], [[SegmentLaunch(0), SegmentLaunch(1)]])

    def work(seed: int) -> bool:
        rng = np.random.default_rng(seed)
        source, middle, target = (buffer(device, 4 * 257) for _ in range(3))
        run = executable.bind(0, [[source, middle], [middle, target]], [[257], [257]])
        good = True
        for _ in range(100):
            x = rng.normal(size=257).astype("f4")
            device.upload(source, x)
            run()
            result = device.download(target, x.dtype, x.shape)
            good &= bool(np.allclose(result, 2 * (np.tanh(x) + 1), 1e-6, 1e-6))
        return good

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


@pytest.mark.slow
def test_in_pyodide() -> None:
    """The same device on the interpreter's own WebAssembly engine."""
    require("pyodide")
    printed = run_in_pyodide("""
        import numpy as np
        from sardonyx.code.program import Builder, call, cast
        from sardonyx.providers.contract import Address, SegmentLaunch
        from sardonyx_wasm import provider

        device = provider.device({})
        b = Builder(["float32"], ["float16"])
        b.store(1, b.grid(0), cast("float16", call("tanh", b.load(0, b.grid(0))) + 1))
        x = np.linspace(-3, 3, 100, dtype="f4")
        target = Address(device.allocate(200), 0, 200)
        executable = device.load([b.program("tanh", [b.param()])], [[SegmentLaunch(0), SegmentLaunch(0)]])
        source = device.constant(x)
        executable.bind(0, [[source, target]] * 2, [[100]] * 2)()
        result = device.download(target, np.dtype("f2"), x.shape)
        print(np.abs(result - (np.tanh(x) + 1)).max() < 1e-3, provider.describe()["host"])
    """)
    assert printed.split() == ["True", "pyodide"]


def test_sessions_at_rest_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """All share one memory: what a session keeps for its next run is another's, if that needs it now."""
    text = "agent (float[N] x) => (float[M] y) { a = Exp (x) b = Neg (a) y = Concat <axis = 0> (a, b) }"
    sessions = [sardonyx.InferenceSession(model(text), providers=["WasmExecutionProvider"]) for _ in range(3)]
    x = np.arange(4 << 20, dtype=np.float32) / (1 << 22)
    allocator = host()._allocator  # type: ignore[attr-defined]
    monkeypatch.setattr(allocator, "_free", [])  # what other tests gave back
    monkeypatch.setattr(allocator, "_limit", allocator._end + (96 << 20))
    for session in (*sessions, *sessions):
        (found,) = session.run(None, {"x": x})
        np.testing.assert_allclose(found[: x.size], np.exp(x), rtol=1e-6)
    with pytest.raises(RuntimeException, match="release some, or take NumpyExecutionProvider"):
        sessions[0].run(None, {"x": np.zeros(32 << 20, np.float32)})
