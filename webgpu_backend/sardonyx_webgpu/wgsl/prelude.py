"""The functions in prelude/*.wgsl, from which each shader takes those that it needs."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_FUNCTION = re.compile(r"(?:^//.*\n)*^fn (\w+)\((?:.*\n)+?}\n", re.MULTILINE)
_CALL = re.compile(r"\b([a-z]\w*)\(")


@cache
def functions() -> dict[str, str]:
    """The source text of each function by its name.

    >>> print(functions()["is_inf"], end="")
    fn is_inf(x: f32) -> bool {
        return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u;
    }
    """
    folder = Path(__file__).parent / "prelude"
    texts = (path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.wgsl")))
    return {found[1]: found[0] for text in texts for found in _FUNCTION.finditer(text)}


@cache
def _calls(name: str) -> frozenset[str]:
    return frozenset(_CALL.findall(functions()[name])) & functions().keys()


def needed(text: str) -> list[str]:
    """The functions that this text calls, and those that they call, in the order of the files."""
    sources = functions()
    wanted: set[str] = set()
    rest = [name for name in set(_CALL.findall(text)) if name in sources]
    while rest:
        name = rest.pop()
        if name not in wanted:
            wanted.add(name)
            rest += _calls(name)
    return [sources[name] for name in sources if name in wanted]


_EXACT = {"float_div": "a / b", "float_sqrt": "sqrt(x)"}
"""What processors compute exactly, and hardware does not; a product and a sum they round twice, whatever fma says."""


def exact(text: str) -> str:
    """A shader for a processor that plays the GPU.

    >>> print(exact(functions()["float_sqrt"]).splitlines()[-2])
        return sqrt(x);
    """
    for name, expression in _EXACT.items():
        source = functions()[name]
        head = next(line for line in source.splitlines() if line.startswith("fn "))
        text = text.replace(source, f"{head}\n    return {expression};\n}}\n")
    return text
