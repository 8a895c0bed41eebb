"""Routines and legalizers, which are found by name, and the texts of shaders."""

from PyInstaller.utils.hooks import collect_data_files, collect_submodules

datas = collect_data_files("sardonyx_webgpu", includes=["**/*.wgsl"])
hiddenimports = collect_submodules("sardonyx_webgpu", filter=lambda name: ".browser" not in name)
