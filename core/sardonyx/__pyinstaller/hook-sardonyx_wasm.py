"""Routines and legalizers, which are found by name."""

from PyInstaller.utils.hooks import collect_submodules

hiddenimports = collect_submodules("sardonyx_wasm", filter=lambda name: name != "sardonyx_wasm.hosts.pyodide")
