"""Running a program on a device, and the values to run it on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sardonyx.code.program import Builder, Program, Value
from sardonyx.common import dtypes
from sardonyx.providers.contract import Address, SegmentLaunch
from sardonyx_webgpu.runtime.device import WebGpuDevice

FLOATS = ["float32", "float16"]
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]


def put(device: WebGpuDevice, array: np.ndarray) -> Address:
    """A chunk of its own with this array."""
    address = Address(device.allocate(array.nbytes), 0, array.nbytes)
    device.upload(address, array)
    return address


def run(
    device: WebGpuDevice,
    program: Program,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    params: Sequence[int] = (),
) -> list[np.ndarray]:
    """What the buffers written hold after one run that started with `outputs` in them."""
    addresses = [put(device, array) for array in (*inputs, *outputs)]
    device.load([program], [[SegmentLaunch(0)]]).bind(0, [addresses], [params])()
    written = addresses[len(inputs) :]
    results = [device.download(at, array.dtype, array.shape) for at, array in zip(written, outputs, strict=True)]
    for address in addresses:
        device.free(address.chunk)
    return results


def elementwise(reads: Sequence[str], write: str, value: Callable[..., Value], name: str = "elementwise") -> Program:
    """The program that stores, at each index of a grid of one parameter, what `value` makes of the loads."""
    builder = Builder(list(reads), [write])
    size, index = builder.param(), builder.grid(0)
    builder.store(len(reads), index, value(*(builder.load(k, index) for k in range(len(reads)))))
    return builder.program(name, [size])


def apply(
    device: WebGpuDevice, reads: Sequence[str], write: str, value: Callable[..., Value], *inputs: np.ndarray
) -> np.ndarray:
    """An element-wise function of arrays of one length."""
    output = np.zeros(inputs[0].shape, dtypes.by_name(write).storage)
    return run(device, elementwise(reads, write, value), inputs, [output], [output.size])[0]


def edges(dtype: str) -> np.ndarray:
    """Values at which functions of this dtype may go wrong, and a few plain ones."""
    storage = dtypes.by_name(dtype).storage
    if storage.kind == "b":
        return np.array([False, True])
    if storage.kind == "f":
        info = np.finfo(storage)
        special = [0.0, 1.0, 0.5, 1.5, 2.5, 3.0, 0.3, 1.0009765625, 7.75, 11.5, 100.0, 1000.0, np.inf]
        special += [float(info.max), float(info.tiny), float(info.eps)]
        return np.array([*special, *(-x for x in special), np.nan], storage)
    info = np.iinfo(storage)
    near = [0, 1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100]
    far = [info.min, info.min + 1, info.max, info.max - 1, info.max // 3, info.max // 7, info.min // 5]
    wide = [1 << 15, 1 << 31, (1 << 32) + 5, (1 << 33) - 1, (1 << 62) + 12345]
    values = [*near, *(-x for x in near), *far, *wide, *(-x for x in wide)]
    return np.array([x for x in dict.fromkeys(values) if info.min <= x <= info.max], storage)


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of edge values."""
    values = edges(dtype)
    a, b = np.meshgrid(values, values)
    return a.reshape(-1).copy(), b.reshape(-1).copy()
