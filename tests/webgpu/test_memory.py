"""Uploads, downloads and copies; loads and stores of every dtype wherever it lies; buffers that share a chunk."""

from __future__ import annotations

import numpy as np
import pytest

from sardonyx.code.program import Builder, Program, cast, const
from sardonyx.common import dtypes
from sardonyx.errors import EngineError, EPFail
from sardonyx.providers.contract import Address, SegmentLaunch
from sardonyx_webgpu.runtime.device import WebGpuDevice
from tests.webgpu.harness import FLOATS, SIGNED, UNSIGNED, elementwise, put, run

DTYPES = [*FLOATS, "bfloat16", *SIGNED, *UNSIGNED, "bool"]


def sample(dtype: str, size: int, rng: np.random.Generator) -> np.ndarray:
    storage = dtypes.by_name(dtype).storage
    return rng.integers(0, 2, size).astype(bool) if dtype == "bool" else rng.integers(0, 100, size).astype(storage)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 5, 64, 1001])
@pytest.mark.parametrize("dtype", ["bool", "float16", "float32", "int64"])
def test_what_is_uploaded_comes_back(device: WebGpuDevice, dtype: str, size: int, rng: np.random.Generator) -> None:
    array = sample(dtype, size, rng)
    address = put(device, array)
    found = device.download(address, array.dtype, array.shape)
    np.testing.assert_array_equal(found, array)
    assert found.flags.writeable
    assert found.flags.owndata or found.base is not None
    device.free(address.chunk)


def test_shapes_and_views(device: WebGpuDevice) -> None:
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    array.setflags(write=False)
    address = put(device, array)
    assert device.download(address, array.dtype, (2, 3, 4)).shape == (2, 3, 4)
    scalar = np.array(5.0, np.float32)
    device.upload(address, scalar)
    assert device.download(address, scalar.dtype, ()) == 5.0


def test_upload_leaves_other_buffers_alone(device: WebGpuDevice) -> None:
    chunk = device.allocate(1024)
    first, second = Address(chunk, 0, 256), Address(chunk, 256, 3)
    device.upload(first, np.full(256, 7, np.uint8))
    device.upload(second, np.array([1, 2, 3], np.uint8))
    assert (device.download(first, np.dtype("u1"), (256,)) == 7).all()
    assert device.download(second, np.dtype("u1"), (3,)).tolist() == [1, 2, 3]


@pytest.mark.parametrize("together", [True, False])
def test_copy(device: WebGpuDevice, together: bool) -> None:
    chunk = device.allocate(1024)
    source = Address(chunk, 256, 10)
    target = Address(chunk if together else device.allocate(1024), 512, 10)
    device.upload(source, np.arange(10, dtype=np.uint8))
    device.copy(source, target)
    device.copy(Address(chunk, 0, 0), Address(chunk, 1024, 0))
    device.synchronize()
    assert device.download(target, np.dtype("u1"), (10,)).tolist() == list(range(10))


@pytest.mark.parametrize("size", [1, 3, 7, 66])
@pytest.mark.parametrize("dtype", DTYPES)
def test_store_touches_only_its_element(device: WebGpuDevice, dtype: str, size: int, rng: np.random.Generator) -> None:
    """Every other element is written, by different threads, from an odd place in the source."""
    builder = Builder([dtype], [dtype])
    index = builder.grid(0)
    builder.store(1, index * 2 + 1, builder.load(0, index + 1))
    program = builder.program("every other", [builder.param()])
    source, target = sample(dtype, size + 1, rng), sample(dtype, 2 * size + 1, rng)
    (found,) = run(device, program, [source], [target], [size])
    expected = target.copy()
    expected[1::2] = source[1:]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_written_buffers_are_readable(device: WebGpuDevice, dtype: str, rng: np.random.Generator) -> None:
    builder = Builder([], [dtype])
    with builder.loop(builder.param()) as k:
        builder.store(0, k + 1, builder.load(0, k))
    (found,) = run(device, builder.program("spread"), [], [sample(dtype, 30, rng)], [29])
    assert (found == found[0]).all()


def add_one(dtype: str = "float32") -> Program:
    return elementwise([dtype], dtype, lambda x: x + 1, "add one")


def test_a_chunk_is_read_and_written_in_one_launch(device: WebGpuDevice) -> None:
    chunk = device.allocate(2048)
    source, target = Address(chunk, 1024, 400), Address(chunk, 0, 400)
    device.upload(source, np.arange(100, dtype=np.float32))
    device.load([add_one()], [[SegmentLaunch(0)]]).bind(0, [[source, target]], [[100]])()
    np.testing.assert_array_equal(device.download(target, np.dtype("f4"), (100,)), np.arange(1, 101))


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "float16"])
def test_in_place(device: WebGpuDevice, dtype: str) -> None:
    array = np.arange(100).astype(dtype)
    address = put(device, array)
    device.load([add_one(dtype)], [[SegmentLaunch(0)]]).bind(0, [[address, address]], [[100]])()
    np.testing.assert_array_equal(device.download(address, array.dtype, (100,)), array + array.dtype.type(1))


def test_one_buffer_read_twice(device: WebGpuDevice) -> None:
    program = elementwise(["float32", "float32"], "float32", lambda x, y: x * y, "square")
    source = put(device, np.arange(10, dtype=np.float32))
    target = put(device, np.zeros(10, np.float32))
    device.load([program], [[SegmentLaunch(0)]]).bind(0, [[source, source, target]], [[10]])()
    np.testing.assert_array_equal(device.download(target, np.dtype("f4"), (10,)), np.arange(10) ** 2)


def test_overlaps_are_refused(device: WebGpuDevice) -> None:
    chunk = device.allocate(4096)
    executable = device.load([add_one()], [[SegmentLaunch(0)]])
    with pytest.raises(EPFail, match="overlap"):
        executable.bind(0, [[Address(chunk, 0, 1024), Address(chunk, 256, 1024)]], [[100]])
    converts = elementwise(["float32"], "int32", lambda x: cast("int32", x), "converts")
    with pytest.raises(EngineError, match=r"'?converts'?: buffers 0 and 1 .* differ in dtype"):
        device.load([converts], [[SegmentLaunch(0)]]).bind(0, [[Address(chunk, 0, 400)] * 2], [[100]])


def test_empty_buffers(device: WebGpuDevice) -> None:
    """A buffer without elements may lie at the very end of its chunk, several of them at one place."""
    builder = Builder(["float32", "uint8"], ["float32", "int64"])
    empty, size = builder.param(), builder.param()
    with builder.loop(empty) as k:
        builder.store(3, k, cast("int64", builder.load(0, k)))
        builder.store(3, k, cast("int64", builder.load(1, k)))
    builder.store(2, builder.grid(0), const("float32", 3.0))
    chunk = device.allocate(256)
    nothing = Address(chunk, 256, 0)
    program = builder.program("no inputs", [size])
    bound = device.load([program], [[SegmentLaunch(0)]]).bind(
        0, [[nothing, nothing, Address(chunk, 0, 256), nothing]], [[0, 64]]
    )
    bound()
    assert (device.download(Address(chunk, 0, 256), np.dtype("f4"), (64,)) == 3).all()
    device.free(device.allocate(0))


def test_limits(native: WebGpuDevice) -> None:
    with pytest.raises(EPFail, match=r"a buffer of 268,435,457 bytes exceeds 268,435,456.*limits"):
        native.allocate((1 << 28) + 1)
    chunk = native.allocate((1 << 27) + 256)
    executable = native.load([add_one()], [[SegmentLaunch(0)]])
    with pytest.raises(EPFail, match="a tensor of 134,217,984 bytes exceeds"):
        executable.bind(0, [[Address(chunk, 0, (1 << 27) + 256), put(native, np.zeros(4, np.float32))]], [[1]])
    native.free(chunk)
