"""WGSL with repetition and choice, for shaders that name what other languages would index.

    #for r in ROWS      lines are repeated, $r being 0, 1, ... below a number; ends with #end
    #if WHOLE           lines stay if a value is true; may have an #else; ends with #end
    #include TILE       the lines of the template whose name is a value
    $ROWS               a name's value
    $(out[r] + 1)       an expression's value
    #include "x.wgsl"   the text of another template

Where a value is wanted there may be an expression of names, as Python has them. Names after $ are letters alone, so
that x$r_$c are two of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from sardonyx.errors import EngineError

_INCLUDE = re.compile(r'^ *#include "(\w+)\.wgsl"\n', re.MULTILINE)
_NAME = re.compile(r"\$(?:([A-Za-z]+)|\(((?:[^()]|\([^()]*\))*)\))")


def fill(text: str, **values: Any) -> str:
    """The text with its repetitions written out, and names replaced.

    >>> print(fill("#for r in ROWS\\nlet a$r = load($r * $N + $(r + 1));\\n#end\\n", ROWS=2, N="p0"), end="")
    let a0 = load(0 * p0 + 1);
    let a1 = load(1 * p0 + 2);
    """
    return "".join(f"{line}\n" for line in _expand(text.splitlines(), values))


@cache
def source(name: str) -> str:
    """The template of this name, in this folder, with what it includes.

    >>> "fn less" in source("sort_runs"), "#include" in source("sort_runs")
    (True, False)
    """
    text = (Path(__file__).parent / f"{name}.wgsl").read_text(encoding="utf-8")
    return _INCLUDE.sub(lambda found: source(found[1]), text)


def _expand(lines: Sequence[str], values: Mapping[str, Any]) -> Iterator[str]:
    k = 0
    while k < len(lines):
        word, _, rest = lines[k].strip().partition(" ")
        if word == "#include":
            yield from _expand(source(_value(rest, values)).splitlines(), values)
            k += 1
            continue
        if word not in ("#for", "#if"):
            yield _NAME.sub(lambda found: str(_value(found[1] or found[2], values)), lines[k])
            k += 1
            continue
        middle, end = _parts(lines, k)
        if word == "#for":
            name, _, count = rest.partition(" in ")
            for number in range(int(_value(count, values))):
                yield from _expand(lines[k + 1 : end], {**values, name: number})
        elif _value(rest, values):
            yield from _expand(lines[k + 1 : middle], values)
        else:
            yield from _expand(lines[middle + 1 : end], values)
        k = end + 1


def _value(expression: str, values: Mapping[str, Any]) -> Any:
    try:
        return eval(_compiled(expression), {"__builtins__": {}}, {**values})
    except NameError as error:
        raise EngineError(f"a template has no {expression!r}") from error


@cache
def _compiled(expression: str) -> Any:
    return compile(expression.strip(), "<template>", "eval")


def _parts(lines: Sequence[str], start: int) -> tuple[int, int]:
    """Where the #else and the #end of a block are; without an #else both are the #end."""
    depth, middle = 0, None
    for k in range(start + 1, len(lines)):
        word = lines[k].split(maxsplit=1)[0] if lines[k].strip() else ""
        if word in ("#for", "#if"):
            depth += 1
        elif word == "#else" and depth == 0:
            middle = k
        elif word == "#end":
            if depth == 0:
                return k if middle is None else middle, k
            depth -= 1
    raise EngineError(f"a template has no #end for {lines[start].strip()!r}")
