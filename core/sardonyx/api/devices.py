"""Where tensors lie, in onnxruntime's words: devices, memory and allocators.

The engine lays out its memory itself. What configures onnxruntime's allocators is kept, and has no effect.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any, NoReturn, Self

from sardonyx.common.enums import Choice
from sardonyx.common.record import field, record
from sardonyx.errors import NotImplemented
from sardonyx.providers import registry


class OrtAllocatorType(Choice):
    """How onnxruntime would allocate."""

    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class OrtMemType(Choice):
    """What memory is for."""

    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = -1
    DEFAULT = 0


class OrtDeviceMemoryType(Choice):
    """Who can reach memory: its device alone, or the host too."""

    DEFAULT = 0
    HOST_ACCESSIBLE = 5


class OrtMemoryInfoDeviceType(Choice):
    """Kinds of devices."""

    CPU = 0
    GPU = 1
    NPU = 3
    FPGA = 2


class OrtHardwareDeviceType(Choice):
    """Kinds of hardware."""

    CPU = 0
    GPU = 1
    NPU = 2


class OrtDeviceVendorId(Choice):
    """The vendors of devices, by their PCI numbers."""

    NONE = 0x0000
    AMD = 0x1002
    NVIDIA = 0x10DE
    ARM = 0x13B5
    MICROSOFT = 0x1414
    HUAWEI = 0x19E5
    QUALCOMM = 0x5143
    INTEL = 0x8086


class OrtExecutionProviderDevicePolicy(Choice):
    """What `SessionOptions.set_provider_selection_policy` can prefer."""

    DEFAULT = 0
    PREFER_CPU = 1
    PREFER_NPU = 2
    PREFER_GPU = 3
    MAX_PERFORMANCE = 4
    MAX_EFFICIENCY = 5
    MIN_OVERALL_POWER = 6

    def providers(self) -> list[str]:
        """The names of the providers that it takes here, the one to be preferred first."""
        gpu = self in (self.PREFER_GPU, self.MAX_PERFORMANCE) and registry.WEBGPU in registry.available()
        return [registry.WEBGPU, registry.CPU] if gpu else [registry.CPU]


_TYPES = {"cpu": 0, "cuda": 1, "dml": 1, "webgpu": 1, "gpu": 1, "npu": 3, "cann": 3}
_VENDORS = {
    "cuda": OrtDeviceVendorId.NVIDIA,
    "dml": OrtDeviceVendorId.MICROSOFT,
    "cann": OrtDeviceVendorId.HUAWEI,
}


class OrtDevice:
    """A device by kind and number.

    >>> device = OrtDevice.make("webgpu", 0)
    >>> device.device_type() == OrtDevice.gpu(), device.device_id()
    (True, 0)
    """

    def __init__(self, device_type: int, memory: int, vendor: int, device_id: int | None = None) -> None:
        """Of a kind, with a type of memory and, between that and its number, the number of a vendor."""
        self._type, self._memory = int(device_type), int(memory)
        self._vendor, self._id = (0, int(vendor)) if device_id is None else (int(vendor), int(device_id))

    @classmethod
    def make(cls, ort_device_name: str, device_id: int, vendor_id: int = -1) -> Self:
        """The device of a kind: `cpu`, `gpu`, `webgpu` and others of onnxruntime's."""
        if ort_device_name not in _TYPES:
            raise ValueError(f"Unsupported device type: {ort_device_name}; there are {', '.join(_TYPES)}")
        vendor = _VENDORS.get(ort_device_name, OrtDeviceVendorId.NONE) if vendor_id < 0 else vendor_id
        return cls(_TYPES[ort_device_name], 0, int(vendor), device_id)

    def device_id(self) -> int:
        return self._id

    def device_type(self) -> int:
        return self._type

    def device_vendor_id(self) -> int:
        return self._vendor

    def device_mem_type(self) -> int:
        return self._memory

    vendor_id = device_vendor_id
    mem_type = device_mem_type

    @staticmethod
    def cpu() -> int:
        return 0

    @staticmethod
    def gpu() -> int:
        return 1

    @staticmethod
    def fpga() -> int:
        return 2

    @staticmethod
    def npu() -> int:
        return 3

    cuda = webgpu = gpu

    @staticmethod
    def dml() -> int:
        return 4

    cann = npu

    @staticmethod
    def default_memory() -> int:
        return 0

    def _get_c_device(self) -> Self:
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OrtDevice) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self._type, self._memory, self._vendor, self._id))


@record
class OrtMemoryInfo:
    """Which memory a tensor lies in."""

    name: str
    allocator_type: OrtAllocatorType
    device_id: int
    mem_type: OrtMemType
    device_mem_type: OrtDeviceMemoryType = OrtDeviceMemoryType.DEFAULT
    device_vendor_id: int = 0

    @classmethod
    def create_v2(
        cls,
        name: str,
        device_type: OrtMemoryInfoDeviceType,
        vendor_id: int,
        device_id: int,
        memory_type: OrtDeviceMemoryType,
        alignment: int,
        allocator_type: OrtAllocatorType,
    ) -> Self:
        """The memory of a device; kind and alignment have no effect."""
        return cls(name, allocator_type, device_id, OrtMemType.DEFAULT, memory_type, vendor_id)


_ARENA = (
    "max_mem",
    "arena_extend_strategy",
    "initial_chunk_size_bytes",
    "max_dead_bytes_per_chunk",
    "initial_growth_chunk_size_bytes",
    "max_power_of_two_extend_bytes",
)


class OrtArenaCfg:
    """How onnxruntime's arena would grow; kept, and without effect.

    >>> OrtArenaCfg({"max_mem": 1 << 20}).max_mem
    1048576
    """

    max_mem: int
    arena_extend_strategy: int
    initial_chunk_size_bytes: int
    max_dead_bytes_per_chunk: int
    initial_growth_chunk_size_bytes: int
    max_power_of_two_extend_bytes: int

    def __init__(self, *args: Any) -> None:
        """Of a dictionary of options, or the first four of them as numbers."""
        given = args[0] if len(args) == 1 and isinstance(args[0], Mapping) else dict(zip(_ARENA[:4], args, strict=True))
        if unknown := given.keys() - set(_ARENA):
            raise RuntimeError(f"Invalid OrtArenaCfg option: {min(unknown)}; there are {', '.join(_ARENA)}")
        for name in _ARENA:
            setattr(self, name, int(given.get(name, -1)))


@record(frozen=True)
class OrtHardwareDevice:
    """A processor of this machine."""

    type: OrtHardwareDeviceType
    vendor: str = ""
    vendor_id: int = 0
    device_id: int = 0
    metadata: dict[str, str] = field(default_factory=dict)


@record(frozen=True)
class OrtEpDevice:
    """A processor, and the execution provider that runs models on it."""

    ep_name: str
    device: OrtHardwareDevice
    ep_vendor: str = "Sardonyx"
    ep_metadata: dict[str, str] = field(default_factory=dict)
    ep_options: dict[str, str] = field(default_factory=dict)

    def create_sync_stream(self) -> NoReturn:
        """Raises NotImplemented: runs wait for their results."""
        raise NotImplemented("devices have no streams here; a run waits for its results")

    def memory_info(self, memory_type: OrtDeviceMemoryType) -> OrtMemoryInfo:
        """Where its tensors lie."""
        return memory_of(self.ep_name)


def get_ep_devices() -> list[OrtEpDevice]:
    """A device for each execution provider that is available."""
    devices = []
    for name in registry.available():
        gpu = name == registry.WEBGPU
        kind = OrtHardwareDeviceType.GPU if gpu else OrtHardwareDeviceType.CPU
        devices.append(OrtEpDevice(name, OrtHardwareDevice(kind, "" if gpu else platform.processor())))
    return devices


def get_hardware_devices() -> list[OrtHardwareDevice]:
    """The processors that providers run on here."""
    return list({device.device.type: device.device for device in get_ep_devices()}.values())


def memory_of(provider: str) -> OrtMemoryInfo:
    """The memory of a provider; inputs and outputs of runs are on the host unless they are bound elsewhere."""
    name = "WebGPU_Buffer" if provider == registry.WEBGPU else "Cpu"
    return OrtMemoryInfo(name, OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, OrtMemType.DEFAULT)


def create_and_register_allocator(mem_info: OrtMemoryInfo, arena_cfg: OrtArenaCfg) -> None:
    """Accepted for compatibility: sessions lay out their memory themselves."""


def create_and_register_allocator_v2(
    provider_type: str, mem_info: OrtMemoryInfo, options: Mapping[str, str], arena_cfg: OrtArenaCfg
) -> None:
    """Accepted for compatibility: sessions lay out their memory themselves."""
