"""Sardonyx on WebGPU: programs printed as WGSL, run natively by wgpu."""

from sardonyx_webgpu.provider import WebGpuProvider, provider

__all__ = ["WebGpuProvider", "provider"]
