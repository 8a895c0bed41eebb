"""Emscripten side modules: what `ctypes.CDLL` opens in Pyodide.

Pyodide links a `.so` file that is a WebAssembly module with a `dylink.0` section first, which says how much memory and
how many table entries the module wants. The linker hands over the interpreter's own memory as env.memory, so that the
module and NumPy see the same bytes.

Format: https://github.com/WebAssembly/tool-conventions/blob/main/DynamicLinking.md
"""

from __future__ import annotations

from .module import Memory, Module
from .opcodes import section, text, uleb

_MEMORY_INFO = 1  # the subsection's number


def side_module(module: Module) -> bytes:
    """The module as the bytes of a shared library for Pyodide.

    >>> side_module(Module())[8:19]
    b'\\x00\\x0f\\x08dylink.0'
    """
    alignment = module.data_align.bit_length() - 1
    sizes = [module.data_size, alignment, len(module.pointers), 0]
    info = section(0, text("dylink.0") + section(_MEMORY_INFO, b"".join(map(uleb, sizes))))
    return module.to_bytes(Memory(), prologue=info)
