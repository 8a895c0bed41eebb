"""Values as a person reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def clean(value: Any) -> str:
    """The text of a value, with what is no printable character escaped: names come from files of strangers."""
    text = str(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def paragraphs(text: str) -> str:
    """A text with each paragraph in a line; indented ones, which are code, stay as they are.

    >>> paragraphs("one\\n line\\n\\n    def f():\\n        pass")
    'one line\\n\\n    def f():\\n        pass'
    """
    parts = text.strip("\n").split("\n\n")
    return "\n\n".join(part.rstrip() if part.startswith("    ") else " ".join(part.split()) for part in parts)


def count(number: int, noun: str) -> str:
    """A number with its noun.

    >>> count(1, "node"), count(1200, "copy"), count(0, "launch")
    ('1 node', '1,200 copies', '0 launches')
    """
    if number == 1:
        return f"1 {noun}"
    ending = "ies" if noun.endswith("y") else "es" if noun.endswith(("ch", "s", "x")) else "s"
    return f"{number:,} {noun.removesuffix('y') if ending == 'ies' else noun}{ending}"


def elided(text: str, width: int = 44) -> str:
    """A label without its middle where it is longer than `width`.

    >>> elided("MatMul '/model/encoder/layer.1/dense/MatMul'", 30)
    "MatMul '/m...r.1/dense/MatMul'"
    """
    head = (width - 3) * 2 // 5
    return text if len(text) <= width else f"{text[:head]}...{text[head + 3 - width :]}"


def elided_end(text: str, width: int) -> str:
    """A text without its end where it is longer than `width`.

    >>> elided_end("person 93%, dog 81%", 14)
    'person 93%, d…'
    """
    return text if len(text) <= width else f"{text[: width - 1]}…"


def shape(sizes: Sequence[int] | None) -> str:
    """A shape as it is given on the command line.

    >>> shape([1, 3, 224]), shape([]), shape(None)
    ('1x3x224', 'scalar', '')
    """
    if sizes is None:
        return ""
    return "x".join(map(str, sizes)) or "scalar"


def figure(value: float | str | None) -> str:
    """A number with five figures; what is no finite one comes as its name.

    >>> figure(3.14159265), figure(1e-9), figure("nan"), figure(None)
    ('3.1416', '1e-09', 'nan', '')
    """
    return "" if value is None else value if isinstance(value, str) else f"{value:.5g}"


def number(value: float) -> float | str:
    """A number for JSON, which has no nan and no infinity."""
    return float(value) if value - value == 0 else str(float(value))
