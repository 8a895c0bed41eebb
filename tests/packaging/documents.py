"""Every command, path and name in the repository's documents, and what is wrong with one that is not there."""

from __future__ import annotations

import ast
import io
import json
import re
import shlex
from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from sardonyx.cli import _parser
from tests.packaging.names import unknown

ROOT = Path(__file__).resolve().parents[2]
RELEASED = False
"""Whether `sardonyx` may be installed by its name: only once it is ours on the index."""
SOURCES = ("examples", "edge/examples")
"""Where programs are examples, whose docstrings are documents."""
FOLDERS = ("core", "docs", "edge", "examples", "tests", "wasm", "web", "webgpu_backend")
HISTORY = "CHANGELOG.md"
"""It may name what is gone."""
SHELL = ("", "sh", "bash", "console", "text")
LATER = re.compile(r"\.(whl|sdx|npy|npz)$|^examples/marimo/public$")
"""Paths in these folders that commands make."""
PLACES = (
    "",
    "core",
    "core/sardonyx",
    "wasm",
    "wasm/sardonyx_wasm",
    "webgpu_backend",
    "webgpu_backend/sardonyx_webgpu",
    "web",
    "web/sardonyx",
    "tests",
)
"""From where documents name files, besides their own folder; those of one folder also name what lies deeper in it."""
NAMED = re.compile(r"[\w.-]+(/[\w.-]+)*/?")
FILE = re.compile(r"\.(py|js|mjs|md|wgsl|toml|ipynb|html|css|service)$")
FOLDER = re.compile(r"\w+(/\w+)*/")
RUNNERS = re.compile(r"^(?:python[\d.]*|py)(?:\.exe)?$")


@dataclass(frozen=True)
class Snippet:
    """Text between other prose that a reader may type: `is_line` tells a line of its own from a word of a sentence."""

    text: str
    place: Path
    is_line: bool = True


def documents() -> list[Path]:
    """Every document, and every example that has commands in it."""
    found = [path for path in ROOT.rglob("*.md") if not _is_hidden(path)]
    for folder in SOURCES:
        for suffix in (".py", ".ipynb", ".html", ".toml", ".service"):
            found += [path for path in (ROOT / folder).rglob(f"*{suffix}") if not _is_hidden(path)]
    return sorted(found)


def _is_hidden(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    return parts[0] in ("build", "dist") or any(part.startswith(".") or part == "node_modules" for part in parts)


def snippets(path: Path) -> Iterator[Snippet]:
    """What may be typed, of a document or an example."""
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        yield from _of_markdown(text, path)
    elif path.suffix == ".ipynb":
        for cell in json.loads(text)["cells"]:
            source = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                yield from _of_markdown(source, path)
            else:
                yield from (Snippet(line[1:], path) for line in source.splitlines() if line[:1] in ("%", "!"))
    elif path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                lines = (ast.get_docstring(node) or "").splitlines()
                typed = (re.split(r"\s{2,}", line.strip())[0] for line in lines)
                yield from (Snippet(text, path) for text in typed if _command(text))
                yield from _inline("\n".join(lines), path)
    elif path.suffix == ".service":
        yield from (Snippet(line.partition("=")[2], path) for line in text.splitlines() if line.startswith("Exec"))


def _of_markdown(text: str, place: Path) -> Iterator[Snippet]:
    prose, lines, is_fenced, language = [], text.splitlines(), False, ""
    for number, line in enumerate(lines):
        if line.startswith("```"):
            is_fenced, language = not is_fenced, line[3:].strip()
        elif is_fenced:
            if language in SHELL:
                yield Snippet(line.strip(), place)
        elif line.startswith("    ") and (
            number == 0 or not lines[number - 1].strip() or lines[number - 1][:4] == "    "
        ):
            yield Snippet(line.strip(), place)
        else:
            prose.append(line)
    yield from _inline("\n".join(prose), place)


def _inline(text: str, place: Path) -> Iterator[Snippet]:
    for _, code in re.findall(r"(`+)(.+?)\1(?!`)", text, re.DOTALL):
        yield Snippet(" ".join(code.split()), place, is_line=False)


def faults(path: Path) -> Iterator[str]:
    """What cannot work in a document, each with the text that says it."""
    text = path.read_text("utf-8")
    yield from _from_an_index(text)
    if path.suffix == ".md":
        for target, anchor in re.findall(
            r"\]\(([^()\s#]*)#?([^()\s]*)\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        ):
            place = path.parent / target if target else path
            if ":" not in target and not place.exists():
                yield f"({target}) leads nowhere"
            elif anchor and place.suffix == ".md" and anchor not in _anchors(place.read_text("utf-8")):
                yield f"({target}#{anchor}) leads to no heading"
    for snippet in snippets(path):
        words = _command(snippet.text if not snippet.is_line else re.split(r"\s{2,}", snippet.text)[0])
        if words:
            yield from (f"`{snippet.text}`: {fault}" for fault in _wrong(words, snippet))
        elif not snippet.is_line and path.suffix == ".md":
            found = [_missing(snippet), "" if path.name == HISTORY else unknown(snippet.text)]
            yield from (fault for fault in found if fault)


def _anchors(text: str) -> list[str]:
    """What GitHub makes of the headings of a document."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


def _from_an_index(text: str) -> Iterator[str]:
    """Ways to get Sardonyx by its name alone, which takes whatever somebody else registered."""
    if RELEASED:
        return
    for line in re.findall(r"install\([^)]*\)", text):
        if re.search(r"""["']sardonyx(\[[^]]*\])?["']""", line):
            yield f"{line} takes a package of that name from an index"
    for block in re.split(r"\n\s*\n", text):
        if re.search(r"^\s*packages\s*=.*[\"']sardonyx[\"']", block, re.MULTILINE) and "interpreter" not in block:
            yield 'packages = ["sardonyx"] takes it from an index, where no `interpreter` has it in its lock file'
    if re.search(r"^# dependencies = .*\bsardonyx\b", text, re.MULTILINE) and "# sardonyx = { path" not in text:
        yield "the script's dependencies take sardonyx from an index"


@cache
def _targets() -> frozenset[str]:
    return frozenset(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def _command(text: str) -> list[str]:
    """The words of a command that is checked, none for others."""
    try:
        words = shlex.split(text.replace("\\", "/"), comments=True)
    except ValueError:
        return []
    while words and (words[0] in ("sudo", "$", "time", "nice") or re.match(r"[A-Z_]+=", words[0])):
        words.pop(0)
    if not words:
        return []
    name = words[0].rpartition("/")[2]
    known = ("make", "pip", "pip3", "pipx", "uv", "sardonyx", "pytest", "marimo", "cp", "pyinstaller", "node")
    return [name, *words[1:]] if name in known or RUNNERS.match(name) else []


def _wrong(words: list[str], snippet: Snippet) -> Iterator[str]:
    for part in _parts(words):
        name, *rest = part
        if name == "make":
            targets = [word for word in rest if "=" not in word]
            yield from (f"there is no `make {each}`" for each in targets if each not in _targets() and each != "X")
            continue
        if name in ("pip", "pip3", "pipx", "uv") or (RUNNERS.match(name) and rest[:2] == ["-m", "pip"]):
            yield from _installed(rest)
        elif name == "sardonyx":
            yield from _parsed(rest, snippet.is_line)
        elif RUNNERS.match(name):
            yield from _run(rest, snippet.place)
        yield from (f"{word} does not exist" for word in rest if _is_gone(word, snippet.place))


def _parts(words: list[str]) -> Iterator[list[str]]:
    """The commands in a line of several."""
    part: list[str] = []
    for word in [*words, "&&"]:
        if word in ("&&", "||", "|", ";"):
            if part:
                yield part
            part = []
        else:
            part.append(word)


def _installed(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        if not RELEASED and re.match(r"sardonyx(\[|[=<>~!@]|$)", word):
            yield "no release is on an index: name a path, as README.md says"


def _parsed(words: list[str], is_whole: bool) -> Iterator[str]:
    """What the command line says against arguments; a sentence may leave out what is clear."""
    if not words or words[0].isupper():
        return
    words = [word for word in words if word != "..."]
    errors = io.StringIO()
    try:
        with redirect_stderr(errors):
            _parser(words).parse_args(words)
    except SystemExit as stop:
        if stop.code and (is_whole or "the following arguments are required" not in errors.getvalue()):
            yield errors.getvalue().strip()


def _run(words: list[str], place: Path) -> Iterator[str]:
    """What is wrong with what Python is to run."""
    if words[:1] == ["-m"] and len(words) > 1:
        module = words[1].rstrip(".")
        try:
            is_there = find_spec(module) is not None
        except ModuleNotFoundError:
            is_there = False
        if not is_there:
            yield f"there is no module {module}"
        elif module.startswith("tests.") and not _can_run(module):
            yield f"{module} is no program"
    elif words and words[0].endswith(".py") and words[0][:1] not in ("~", "%") and not _is_ours(words[0]):
        is_there = any((folder / words[0]).is_file() for folder in (ROOT, place.parent))
        yield from () if is_there else (f"{words[0]} does not exist",)


def _is_ours(path: str) -> bool:
    """Whether a path begins in a folder of the repository."""
    return "/" in path and path.partition("/")[0] in FOLDERS


def _can_run(module: str) -> bool:
    spec = find_spec(module)
    assert spec is not None
    if spec.submodule_search_locations:
        return find_spec(f"{module}.__main__") is not None
    return spec.origin is not None and "__main__" in Path(spec.origin).read_text("utf-8")


def _is_gone(word: str, place: Path) -> bool:
    """Whether a word names a path of the repository that is not there, and that no command makes."""
    path = word.partition("::")[0].rpartition("=")[2]
    if path.partition("/")[0] not in FOLDERS or "/" not in path or LATER.search(path):
        return False
    return (
        not any(folder.glob(path.rstrip("/")) for folder in (ROOT,))
        if "*" in path
        else not ((ROOT / path).exists() or (place.parent / path).exists())
    )


def _missing(snippet: Snippet) -> str:
    """Says that a path which a sentence names is nowhere, "" if it is somewhere or no path of the repository."""
    path = snippet.text.partition("::")[0]
    if not NAMED.fullmatch(path) or not (_is_ours(path) or FILE.search(path) or FOLDER.fullmatch(path)):
        return ""
    folder = snippet.place.parent
    if LATER.search(path) or any((place / path).exists() for place in (folder, *(ROOT / each for each in PLACES))):
        return ""
    is_general = folder in (ROOT, ROOT / "docs")
    return "" if not is_general and any(folder.rglob(path)) else f"`{snippet.text}` does not exist"
