"""What many tests share: `require` what the machine may lack, keep downloads, build the wheel, run code in Pyodide."""

from .needs import absent, require
from .pyodide import lines_from_pyodide, run_in_pyodide
from .wheel import build_wheel

__all__ = ["absent", "build_wheel", "lines_from_pyodide", "require", "run_in_pyodide"]
