"""Names of the code that documents mention, and whether there are such."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("core", "wasm", "webgpu_backend", "web", "edge", "examples", "tests")
SUFFIXES = (".py", ".js", ".mjs", ".wgsl", ".json", ".toml", ".md")
"""Files whose words are known; of documents those of operators and packages alone."""
PACKAGES = ("sardonyx", "sardonyx_wasm", "sardonyx_webgpu")
NAME = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:\(.*\))?")
SPOKEN = re.compile(r"[a-z]+|[A-Z][a-z]*|[A-Z]+")
"""Words that may be no names: of one part, in small letters or capitals."""
ELSEWHERE = re.compile(r"dot4I8Packed|np\..*|onnx\..*|picamera2|DIR.*|XDG_CACHE_HOME|Plan\.from_json")


def unknown(text: str) -> str:
    """Says what a word of a sentence, set as code, names that is nowhere in the sources; "" if it may be a name.

    >>> unknown("Provider.epilogues"), unknown("lower.ELEMENT"), unknown("session"), unknown("a b")
    ('', '', '', '')
    >>> unknown("lower.RULES"), unknown("neverwritten_here")
    ('`lower.RULES`: no module lower has RULES', '`neverwritten_here` is nowhere in the sources')
    """
    found = NAME.fullmatch(text)
    if not found or SPOKEN.fullmatch(found[1]) or ELSEWHERE.fullmatch(found[1]):
        return ""
    name = found[1]
    first, *more = name.split(".")
    if first in PACKAGES:
        return "" if not more or _is_there(name) or _is_quoted(name) else f"`{text}` is nowhere in {first}"
    if missing := [part for part in (first, *more) if part not in _words()]:
        return f"`{text}` is nowhere in the sources" if missing == [name] else f"`{text}`: {missing[0]} is nowhere"
    if more and (modules := _modules().get(first)) and more[0][:1].isupper():
        pattern = re.compile(rf"^(class |def )?{more[0]}\b", re.MULTILINE)
        return "" if any(map(pattern.search, modules)) else f"`{text}`: no module {first} has {more[0]}"
    return ""


def _is_there(name: str) -> bool:
    """Whether a name of a package leads to a module, or to something in one."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            thing = import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            if not hasattr(thing, part):
                return False
            thing = getattr(thing, part)
        return True
    return False


def _is_quoted(name: str) -> bool:
    """Whether the sources have it as a text: the name of a group of entry points."""
    return any(f'"{name}"' in text for _, text in _texts())


@cache
def _texts() -> list[tuple[Path, str]]:
    found = []
    for folder in SOURCES:
        for path in (ROOT / folder).rglob("*"):
            is_document = path.suffix == ".md" and path.parent != ROOT / "core/sardonyx/ops"
            if path.suffix in SUFFIXES and not is_document and "node_modules" not in path.parts:
                found.append((path, path.read_text("utf-8")))
    return [*found, *((ROOT / name, (ROOT / name).read_text("utf-8")) for name in ("pyproject.toml", "Makefile"))]


@cache
def _words() -> frozenset[str]:
    """Every word of the sources but those of this test, and the names of modules."""
    own = Path(__file__).parent
    words = {word for path, text in _texts() if path.parent != own for word in re.findall(r"[A-Za-z_]\w*", text)}
    return frozenset(words | _modules().keys())


@cache
def _modules() -> dict[str, list[str]]:
    """The texts of modules by the modules' last names; a package is called as its folder."""
    found: dict[str, list[str]] = {}
    for path, text in _texts():
        if path.suffix == ".py":
            found.setdefault(path.parent.name if path.stem == "__init__" else path.stem, []).append(text)
    return found
