"""Sardonyx on WebAssembly: modules that are written in pure Python, and the hosts that run them."""

from .provider import WasmProvider, provider

__all__ = ["WasmProvider", "provider"]
