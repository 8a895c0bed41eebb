"""The library that wasmtime opens by its path."""

from PyInstaller.utils.hooks import collect_dynamic_libs

binaries = collect_dynamic_libs("wasmtime", search_patterns=["*wasmtime.*"])
