"""The library of wasmtime, opened by its path, and which release it is of."""

from PyInstaller.utils.hooks import collect_dynamic_libs, copy_metadata

binaries = collect_dynamic_libs("wasmtime", search_patterns=["*wasmtime.*"])
datas = copy_metadata("wasmtime")
