"""What an execution provider is, the contract that all of them keep, and which there are; none is implemented here.

A provider derives from `Provider`, its device from `Device`, its compiled code from `Executable`; `contract` has the
same names.
"""

from sardonyx.providers.contract import (
    ALIGNMENT,
    Address,
    Bundler,
    Device,
    Executable,
    LoopBody,
    Provider,
    Sections,
    SegmentLaunch,
    Tensor,
    Turn,
)

__all__ = [
    "ALIGNMENT",
    "Address",
    "Bundler",
    "Device",
    "Executable",
    "LoopBody",
    "Provider",
    "Sections",
    "SegmentLaunch",
    "Tensor",
    "Turn",
]
