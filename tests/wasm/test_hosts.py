"""The native host: one memory with NumPy, concurrent calls, the cache on disk; and the allocator beneath."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wasmtime
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from sardonyx.common import cache, threads
from sardonyx.errors import EngineError
from sardonyx_wasm import hosts
from sardonyx_wasm.assembler import Module, f32, f32x4, f64, i32, i64, op, v128
from sardonyx_wasm.assembler.dylink import side_module
from sardonyx_wasm.hosts import support
from sardonyx_wasm.hosts.allocator import Allocator
from sardonyx_wasm.hosts.engine import Code
from sardonyx_wasm.hosts.support import PROBES
from sardonyx_wasm.hosts.wasmtime import WasmtimeHost


@pytest.fixture(autouse=True)
def cache_folder(own_cache: Path) -> Path:
    return own_cache


@pytest.fixture
def host() -> Iterator[WasmtimeHost]:
    yield WasmtimeHost(maximum=2048)
    gc.collect()


def saxpy() -> Module:
    m = Module("blas")
    with m.function("saxpy", {"n": i32, "a": f32, "x": i32, "y": i32}, export=True) as f:
        at = f.local(i32)
        with f.loop(at, 0, f.n * 4, step=4):
            f.store(f.y + at, f.a * f32.load(f.x + at) + f32.load(f.y + at))
    return m


def matmul() -> Module:
    """C[m, n] = A[m, k] @ B[k, n], n a multiple of 4, with a register of four columns."""
    module = Module("blas")
    shape = {"m": i32, "k": i32, "n": i32}
    with module.function("matmul", shape | {"a": i32, "b": i32, "c": i32}, export=True) as f:
        row, column, inner = f.local(i32), f.local(i32), f.local(i32)
        total = f.local(f32x4)
        with f.loop(row, 0, f.m), f.loop(column, 0, f.n, step=4):
            f.set(total, 0.0)
            with f.loop(inner, 0, f.k):
                a = f32x4.load32_splat(f.a + (row * f.k + inner) * 4)
                b = f32x4.load(f.b + (inner * f.n + column) * 4)
                f.set(total, f32x4.relaxed_madd(a, b, total))
            f.store(f.c + (row * f.n + column) * 4, total)
    return module


def put(host: WasmtimeHost, values: np.ndarray[Any, Any]) -> tuple[int, np.ndarray[Any, Any]]:
    address = host.allocate(values.nbytes)
    array = host.array(address, values.shape, values.dtype)
    array[...] = values
    return address, array


class TestSelection:
    def test_one_host_for_the_process(self) -> None:
        assert hosts.available()
        host = hosts.host()
        assert host is hosts.host()
        assert host.name == "wasmtime"
        assert host.features == {"simd", "relaxed-simd", "threads"}

    def test_asking_imports_nothing(self) -> None:
        script = "import sys, sardonyx_wasm.hosts as h; print(h.available(), *sys.modules)"
        output = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=500
        ).stdout
        answer, *modules = output.split()
        assert answer == "True"
        assert {"wasmtime", "sardonyx_wasm.assembler", "sardonyx_wasm.assembler.opcodes"}.isdisjoint(modules)

    def test_without_wasmtime_the_error_says_what_installs_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(support, "find_spec", lambda name: None)
        monkeypatch.setattr(hosts, "_host", None)
        assert not hosts.available()
        with pytest.raises(RuntimeError, match=r"wasmtime is not installed; pip install wasmtime threadpoolctl"):
            hosts.host()

    def test_a_script_ends_quietly_with_everything_in_globals(self) -> None:
        script = """
from sardonyx_wasm import hosts
from sardonyx_wasm.assembler import Module, i32
module = Module()
data = module.data(b"constant")
with module.function("f", {}, [i32], export=True) as f:
    f.return_(i32.load8_u(data))
host = hosts.host()
loaded = host.load(module)
function, view = loaded.function("f"), host.memory_view()
print(function())
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=500)
        assert (done.stdout, done.stderr) == ("99\n", "")


class TestMemory:
    def test_numpy_and_functions_see_the_same_bytes(self, host: WasmtimeHost) -> None:
        x_at, x = put(host, np.arange(1000, dtype="f4"))
        y_at, y = put(host, np.ones(1000, "f4"))
        host.load(saxpy()).function("saxpy")(1000, 2.0, x_at, y_at)
        assert_array_equal(y, 2 * np.arange(1000, dtype="f4") + 1)
        x[:] = 0
        assert bytes(host.memory_view()[x_at : x_at + x.nbytes]) == bytes(x.nbytes)

    def test_addresses_of_arrays(self, host: WasmtimeHost) -> None:
        address, array = put(host, np.zeros((4, 8), "f4"))
        assert host.address_of(array) == address
        assert host.address_of(array[1:, 2:]) == address + 40
        assert host.address_of(np.zeros(4)) is None

    def test_alignment(self, host: WasmtimeHost) -> None:
        for align in (1, 64, 4096, 65536):
            address = host.allocate(100, align)
            assert address % max(align, 64) == 0
            assert host.array(address, (1,), "u1").__array_interface__["data"][0] % min(align, 4096) == 0

    def test_growing_keeps_older_views(self, host: WasmtimeHost) -> None:
        address, array = put(host, np.arange(16, dtype="i4"))
        before = host.memory_view()
        far = host.allocate(100 << 20)
        assert len(host.memory_view()) > 100 << 20 > len(before)
        array[0] = 77
        assert before[address] == host.memory_view()[address] == 77
        host.array(far, (100 << 20,), "u1")[-1] = 1

    def test_exhaustion_names_the_sizes_and_free_gives_back(self, host: WasmtimeHost) -> None:
        first = host.allocate(100 << 20)
        with pytest.raises(MemoryError, match=r"no room for 104,857,600 bytes: .* 104,857,600 are in use"):
            host.allocate(100 << 20)
        host.free(first)
        assert host.allocate(100 << 20) == first
        with pytest.raises(ValueError, match="address 123 is not allocated"):
            host.free(123)

    @pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, and only Linux takes the pages back")
    def test_large_ranges_go_back_to_the_system(self, host: WasmtimeHost) -> None:
        def resident() -> int:
            return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        before = resident()
        address = host.allocate(64 << 20)
        host.array(address, (64 << 20,), "u1")[:] = 1
        assert resident() - before > 60 << 20
        host.free(address)
        assert resident() - before < 10 << 20

    def test_arrays_keep_the_memory_and_nothing_else_does(self) -> None:
        host = WasmtimeHost(maximum=16)
        _, array = put(host, np.arange(4))
        alive = weakref.ref(host)
        del host
        gc.collect()
        assert alive() is not None
        assert_array_equal(array, np.arange(4))
        del array
        gc.collect()
        assert alive() is None


class TestFunctions:
    def test_numbers_of_every_type(self, host: WasmtimeHost) -> None:
        m = Module()
        with m.function("mix", {"a": i32, "b": i64, "c": f32, "d": f64}, [f64], export=True) as f:
            f.return_(f64.convert_i32_s(f.a) + f64.convert_i64_s(f.b) + f64.promote_f32(f.c) + f.d)
        for kind in (i32, i64, f32, f64):
            with m.function(kind.name, {"x": kind}, [kind], export=True) as f:
                f.return_(f.x)
        loaded = host.load(m)
        assert loaded.function("mix")(-3, 2**40, 0.5, 0.25) == -3 + 2**40 + 0.75
        assert loaded.function("i32")(2**32 - 5) == -5
        assert loaded.function("i64")(-(2**62)) == -(2**62)
        assert loaded.function("f32")(0.1) == float(np.float32(0.1))
        assert loaded.function("f64")(np.float64(0.1)) == 0.1

    def test_traps_and_wrong_arguments_are_errors_that_name_the_function(self, host: WasmtimeHost) -> None:
        function = host.load(saxpy()).function("saxpy")
        with pytest.raises(EngineError, match=r"function 'saxpy' failed: (.|\n)*out of bounds memory access"):
            function(1, 1.0, -64, 64)
        with pytest.raises(TypeError, match=r"function 'saxpy' called with \(1, 2\)"):
            function(1, 2)
        with pytest.raises(TypeError, match="not an integer"):
            function(1.5, 1.0, 64, 64)
        assert function(1, 1.0, host.allocate(4), host.allocate(4)) is None

    def test_what_python_cannot_call(self, host: WasmtimeHost) -> None:
        m = Module("kernels")
        with m.function("vector", {"x": v128}, export=True):
            pass
        with m.function("scalar", {"x": i32}, export=True):
            pass
        loaded = host.load(m)
        for name in ("vector", "absent"):
            with pytest.raises(EngineError, match=rf"module 'kernels' has no function '{name}'.*only \['scalar'\]"):
                loaded.function(name)

    def test_what_cannot_be_loaded(self, host: WasmtimeHost) -> None:
        m = Module("kernels")
        m.import_function("env", "expf", {"x": f32}, [f32])
        with pytest.raises(EngineError, match=r"'kernels' cannot start here: unknown import: `env::expf`"):
            host.load(m).wait()
        invalid = Module()
        with invalid.function("f", {}) as f:
            f.do(op("memory.init", 0, 0, 0, index=3))
        with pytest.raises(EngineError, match="cannot compile this module"):
            host.load(invalid).wait()

    def test_probes_are_what_the_assembler_makes(self) -> None:
        zero = f32x4.const(0.0)
        for feature, expression in (("simd", zero + zero), ("relaxed-simd", f32x4.relaxed_madd(zero, zero, zero))):
            m = Module()
            with m.function("probe", {}) as f:
                f.do(expression)
            assert m.to_bytes() == PROBES[feature]

    def test_a_module_is_loaded_once(self, host: WasmtimeHost) -> None:
        assert host.load(saxpy()) is host.load(saxpy())

    def test_data_and_pointers_of_two_modules(self, host: WasmtimeHost) -> None:
        def module(text: bytes) -> Module:
            m = Module()
            data = m.data(text, align=128)
            unary = m.indirect({"x": i32}, [i32])
            with m.function("twice", {"x": i32}, [i32]) as twice:
                twice.return_(twice.x * 2)
            with m.function("address", {}, [i32], export=True) as f:
                f.return_(data)
            with m.function("byte", {"at": i32}, [i32], export=True) as f:
                f.return_(unary(i32.load8_u(data + f.at), m.pointer(twice)))
            return m

        first, second = host.load(module(b"abc")), host.load(module(b"xyz"))
        address = first.function("address")()
        assert address % 128 == 0
        assert address != second.function("address")()
        assert [first.function("byte")(k) for k in range(3)] == [2 * value for value in b"abc"]
        assert [second.function("byte")(k) for k in range(3)] == [2 * value for value in b"xyz"]
        del first
        gc.collect()
        assert host.allocate(3, align=128) == address


class TestThreads:
    def test_concurrent_calls_are_bit_identical(self, host: WasmtimeHost) -> None:
        m, k, n = 13, 37, 24
        rng = np.random.default_rng(0)
        b_at, _ = put(host, rng.standard_normal((k, n)).astype("f4"))
        run = host.load(matmul()).function("matmul")
        inputs = [put(host, rng.standard_normal((m, k)).astype("f4")) for _ in range(8)]
        outputs = [put(host, np.zeros((m, n), "f4")) for _ in range(8)]
        expected = []
        for (a_at, _), (c_at, c) in zip(inputs, outputs):
            run(m, k, n, a_at, b_at, c_at)
            expected.append(c.tobytes())
        barrier = threading.Barrier(8, timeout=60)

        def work(index: int) -> int:
            (a_at, _), (c_at, c) = inputs[index], outputs[index]
            barrier.wait()
            same = 0
            for _ in range(200):
                c[:] = 0
                run(m, k, n, a_at, b_at, c_at)
                same += c.tobytes() == expected[index]
            return same

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(work, range(8))) == [200] * 8

    def test_calls_run_at_the_same_time(self, host: WasmtimeHost) -> None:
        """One call waits in the memory for what another one writes."""
        m = Module()
        with m.function("wait", {"flag": i32}, [i32], export=True) as f:
            with f.while_(op("i32.atomic.load", f.flag) == 0):
                pass
            f.return_(i32.load(f.flag))
        with m.function("raise_flag", {"flag": i32, "value": i32}, export=True) as f:
            f.do(op("i32.atomic.store", f.flag, f.value))
        loaded = host.load(m)
        flag, _ = put(host, np.zeros(1, "i4"))
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(loaded.function("wait"), flag)
            loaded.function("raise_flag")(flag, 42)
            assert waiting.result(timeout=30) == 42

    def test_memory_grows_while_functions_run(self, host: WasmtimeHost) -> None:
        run = host.load(saxpy()).function("saxpy")
        (x_at, _), (y_at, y) = put(host, np.ones(512, "f4")), put(host, np.zeros(512, "f4"))
        with ThreadPoolExecutor(2) as pool:
            calls = pool.submit(lambda: [run(512, 1.0, x_at, y_at) for _ in range(500)])
            growing = pool.submit(lambda: [host.allocate(1 << 20) for _ in range(80)])
            calls.result(120)
            assert len(set(growing.result(120))) == 80
        assert_array_equal(y, np.full(512, 500, "f4"))

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
    def test_a_forked_child_compiles_and_calls(self) -> None:
        script = """
import os
from sardonyx_wasm import hosts
from sardonyx_wasm.assembler import Module, i32
def add(constant):
    module = Module()
    with module.function("f", {"x": i32}, [i32], export=True) as f:
        f.return_(f.x + constant)
    return module
old = hosts.host().load(add(1)).function("f")
child = os.fork()
if child == 0:
    new = hosts.host().load(add(2)).function("f")
    os._exit(old(1) * 10 + new(1))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
        environment = os.environ | {"SARDONYX_CACHE": "0"}
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=environment)
        assert done.stdout == "23\n"


class TestCache:
    @staticmethod
    def forbid_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object) -> None:
            raise AssertionError("compiled again")

        monkeypatch.setattr(Code, "compile", fail)

    def test_compiled_code_is_kept(
        self, host: WasmtimeHost, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        host.load(saxpy()).wait()
        assert len(list(cache_folder.iterdir())) == 1
        self.forbid_compiling(monkeypatch)
        WasmtimeHost(maximum=2048).load(saxpy()).wait()

    def test_modules_are_recalled_by_their_key(
        self, host: WasmtimeHost, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        m = saxpy()
        m.data(b"bytes", 8)
        first = host.load(m, b"some key")
        first.wait()
        assert host.recall(b"some key") is first
        assert host.recall(b"another") is None
        self.forbid_compiling(monkeypatch)
        later = WasmtimeHost(maximum=2048)
        recalled = later.recall(b"some key")
        assert recalled is not None
        (x_at, _), (y_at, y) = put(later, np.ones(8, "f4")), put(later, np.zeros(8, "f4"))
        recalled.function("saxpy")(8, 2.0, x_at, y_at)
        assert_array_equal(y, np.full(8, 2, "f4"))

    @pytest.mark.parametrize("damage", [b"", b"garbage", bytes(100_000)])
    def test_damaged_files_are_replaced(self, host: WasmtimeHost, cache_folder: Path, damage: bytes) -> None:
        host.load(saxpy()).wait()
        (file,) = cache_folder.iterdir()
        whole = file.read_bytes()
        file.write_bytes(damage or whole[:-1])
        WasmtimeHost(maximum=2048).load(saxpy()).wait()
        assert file.read_bytes() == whole

    def test_code_of_another_machine_is_replaced(
        self, host: WasmtimeHost, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(cache, "recall", lambda key: b"whole, but not for wasmtime")
            host.load(saxpy()).wait()
        self.forbid_compiling(monkeypatch)
        WasmtimeHost(maximum=2048).load(saxpy()).wait()

    def test_it_can_be_turned_off(
        self, host: WasmtimeHost, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SARDONYX_CACHE", "0")
        host.load(saxpy()).wait()
        assert cache.directory() is None
        assert not cache_folder.exists()

    def test_a_folder_that_refuses_is_no_error(self, host: WasmtimeHost, cache_folder: Path) -> None:
        cache_folder.write_text("a file in the way")
        host.load(saxpy()).wait()


class TestAllocator:
    @given(st.lists(st.tuples(st.integers(0, 3000), st.sampled_from([1, 64, 256, 1024]), st.booleans()), max_size=60))
    def test_ranges_never_overlap_and_all_comes_back(self, requests: list[tuple[int, int, bool]]) -> None:
        released: list[tuple[int, int]] = []
        memory = Allocator(64, 1 << 20, lambda end: (end + 4095) // 4096 * 4096, lambda *ends: released.append(ends))
        held: dict[int, int] = {}
        for size, align, keep in requests:
            address = memory.allocate(size, align)
            assert address % max(align, 64) == 0
            assert all(address + size <= other or other + held[other] <= address for other in held)
            held[address] = max(size, 1)
            if not keep:
                oldest = next(iter(held))
                memory.free(oldest)
                del held[oldest]
        for address in held:
            memory.free(address)
        assert len(released) == len(requests)
        if requests:
            assert memory.allocate((1 << 20) - 64) == 64

    def test_freeing_inside_an_allocation_waits_for_its_end(self) -> None:
        """As a finalizer does that the garbage collector runs in the midst of `allocate`."""

        def grow(end: int) -> int:
            if end > 1024:
                memory.free(first)
            return end

        memory = Allocator(64, 1 << 20, grow)
        first = memory.allocate(900)
        memory.allocate(4096)
        assert memory.allocate(900) == first

    def test_alignment_must_be_a_power_of_two(self) -> None:
        with pytest.raises(ValueError, match="align=48 is not a power of two"):
            Allocator(64, 1024, lambda end: end).allocate(1, 48)


def test_a_side_module_starts_with_its_needs() -> None:
    m = Module()
    data = m.data(bytes(300), align=32)
    with m.function("f", {}, [i32]) as f:
        f.return_(data)
    m.pointer(f)
    library = side_module(m)
    assert library[8:22] == b"\x00\x10\x08dylink.0\x01\x05\xac"
    assert library[21:26] == bytes([0xAC, 0x02, 5, 1, 0])
    engine = wasmtime.Engine(wasmtime.Config())
    compiled = wasmtime.Module(engine, library)
    assert {item.name for item in compiled.imports} == {
        "memory", "__memory_base", "__table_base", "__indirect_function_table",
    }  # fmt: skip
    compiled.close()
    engine.close()


FEW = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]) << 20,) * 2)
import sardonyx
from sardonyx.demo import assets
model = (assets() / "digits.onnx").read_bytes()
print(sardonyx.InferenceSession(model).get_providers())
sardonyx.InferenceSession(model, providers=["WasmExecutionProvider"])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="addresses are limited by Linux's means")
def test_a_process_of_few_addresses_does_without() -> None:
    """As `ulimit -v` of shared machines has it: a memory reserves more than 4 GiB."""
    command = [sys.executable, "-c", FEW, str(4500)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['CPUExecutionProvider', 'NumpyExecutionProvider']\n"
    assert "needs 5.0 GiB of addresses, which this process may not have: raise its limit (ulimit -v)" in done.stderr


def test_the_compiler_has_the_threads_that_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library ends the process where the system refuses one that it wants."""
    counts: list[str | None] = []

    def accepts(self: WasmtimeHost, feature: str) -> bool:
        counts.append(os.environ.get("RAYON_NUM_THREADS"))
        return True

    monkeypatch.setattr(WasmtimeHost, "_accepts", accepts)
    monkeypatch.setattr(threads, "cores", lambda: 2)
    for most, count in [(2, None), (1, "1")]:
        monkeypatch.setattr(threads, "can_start", lambda number, most=most: number <= most)
        counts.clear()
        WasmtimeHost()
        assert set(counts) == {count}
    assert "RAYON_NUM_THREADS" not in os.environ
    monkeypatch.setattr(threads, "can_start", lambda number: False)
    with pytest.raises(EngineError, match=r"needs a thread, and the system starts none: raise the limit \(ulimit -u"):
        WasmtimeHost()
