"""The repository's documents and sources as pages: what the demonstration links to, since it lies beside them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("core", "docs", "edge", "examples", "tests", "wasm", "web", "webgpu_backend")
SUFFIXES = (".md", ".py", ".js", ".mjs", ".css", ".html", ".wgsl", ".toml", ".json", ".ipynb", ".svg", ".service")
FILES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "LICENSE", "Makefile", "pyproject.toml")
"""Those at the top."""

PAGE = """<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <title>{title}: Sardonyx</title>
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <link rel="icon" href="{up}icon.svg" type="image/svg+xml">
    <link rel="stylesheet" href="{up}stone.css">
    <link rel="stylesheet" href="{up}documents.css">
  </head>
  <body>
    <div class="strata" aria-hidden="true"></div>
    <nav class="wide" aria-label="Where this lies"><a href="{up}">Sardonyx</a> / {way}</nav>
    <main class="wide">
{body}
    </main>
  </body>
</html>
"""


def page(path: str) -> str | None:
    """The page for a file of the repository, or for a folder, whose path ends in a slash; None where none is shown."""
    file = _found(path)
    if file is None or file.is_dir() != (path.endswith("/") or not path):
        return None
    up = "../" * (path.count("/") + 1)
    title = escape(path or "Source")
    readme = file / "README.md"
    if file.is_dir():
        body = _listing(file) + (rendered(readme.read_text("utf-8")) if readme.is_file() and path else "")
    else:
        text = file.read_text("utf-8")
        body = rendered(text) if file.suffix == ".md" else _code(text.split("\n"))
    head = "" if "<h1>" in body else f"<h1>{title}</h1>"
    return PAGE.format(title=title, up=up, way=_way(path), body=head + body)


def is_folder(path: str) -> bool:
    """Whether this is a folder that is shown.

    >>> is_folder("web"), is_folder("web/README.md"), is_folder("build"), is_folder("web/../.git")
    (True, False, False, False)
    """
    file = _found(path)
    return file is not None and file.is_dir()


def _found(path: str) -> Path | None:
    parts = PurePosixPath(path).parts
    if any(part.startswith((".", "/", "__pycache__")) for part in parts):
        return None
    if parts and parts[0] not in FOLDERS and parts not in [(name,) for name in FILES]:
        return None
    file = ROOT.joinpath(*parts)
    return file if file.is_dir() or (file.is_file() and (len(parts) == 1 or file.suffix in SUFFIXES)) else None


def _listing(folder: Path) -> str:
    own = folder.relative_to(ROOT)
    names = sorted(file.name for file in folder.iterdir() if _found((own / file.name).as_posix()))
    paths = [f"{name}/" if (folder / name).is_dir() else name for name in names]
    return "<ul>" + "".join(f'<li><a href="{escape(each)}">{escape(each)}</a></li>' for each in paths) + "</ul>"


def _way(path: str) -> str:
    """Links to the folders around a page."""
    parts = ["Source", *PurePosixPath(path).parts]
    up = [*range(path.count("/"), 0, -1), 0] if not path.endswith("/") else [*range(path.count("/"), -1, -1)]
    links = (f'<a href="{"../" * level or "./"}">{escape(part)}</a>' for level, part in zip(up, parts[:-1]))
    return " / ".join([*links, escape(parts[-1])])


def rendered(text: str) -> str:
    """The HTML of a text in the Markdown that this repository writes: headings, lists, tables, code, links.

    >>> rendered("# A *b*\\n\\none\\n`<two>`, [three](4.md)")
    '<h1>A <em>b</em></h1>\\n<p>one <code>&lt;two&gt;</code>, <a href="4.md">three</a></p>'
    """
    return "\n".join(_blocks(text.split("\n")))


def _blocks(lines: list[str]) -> Iterator[str]:
    rest = [*lines, ""]
    while rest:
        line = rest[0]
        if not line.strip():
            rest.pop(0)
        elif line.startswith("```"):
            end = next((k for k in range(1, len(rest)) if rest[k].startswith("```")), len(rest) - 1)
            yield _code(rest[1:end])
            del rest[: end + 1]
        elif heading := re.match(r"(#+) (.*)", line):
            level = len(heading[1])
            yield f"<h{level}>{_inline(heading[2])}</h{level}>"
            rest.pop(0)
        elif line.startswith("    "):
            yield _code([each[4:] for each in _while(rest, lambda each: each.startswith("    ") or not each.strip())])
        elif line.startswith("|"):
            yield _table(_while(rest, lambda each: each.startswith("|")))
        elif mark := re.match(r"(\* |\d+\. )", line):
            yield _list(_while(rest, lambda each: bool(each.strip())), "ul" if mark[1] == "* " else "ol")
        else:
            plain = _while(rest, lambda each: bool(each.strip()) and not re.match(r"(#+ |```|\||\* )", each))
            yield f"<p>{_inline(' '.join(plain))}</p>"


def _while(rest: list[str], goes_on: Callable[[str], bool]) -> list[str]:
    """The lines that belong together, at least one, which go from the rest."""
    taken = [rest.pop(0)]
    while rest and goes_on(rest[0]):
        taken.append(rest.pop(0))
    return taken


def _code(lines: list[str]) -> str:
    return f'<pre tabindex="0">{escape(chr(10).join(lines).strip(chr(10)))}</pre>'


def _list(lines: list[str], tag: str) -> str:
    items: list[list[str]] = []
    for line in lines:
        mark, text = re.match(r"\s*(\* |\d+\. )?(.*)", line, re.DOTALL).groups()  # type: ignore[union-attr]
        if mark or not items:
            items.append([text])
        else:
            items[-1].append(text)
    return f"<{tag}>" + "".join(f"<li>{_inline(' '.join(item))}</li>" for item in items) + f"</{tag}>"


def _table(lines: list[str]) -> str:
    head, _, *body = [[_inline(cell.strip()) for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in lines]
    heads = "".join(f'<th scope="col">{cell or "&nbsp;"}</th>' for cell in head)
    rows = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in body)
    return f'<div class="scroll" tabindex="0"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'


def _inline(text: str) -> str:
    """Code, links, bold and slanted letters."""
    parts = re.split(r"(`+)(.+?)\1", text)
    done = []
    for plain, code in zip(parts[0::3], [*parts[2::3], None]):
        html = escape(plain, quote=False).replace("\\|", "|")
        html = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", html)
        html = re.sub(r"(?<![\w*])\*([^*\s][^*]*)\*(?!\w)", r"<em>\1</em>", html)
        done += [html, f"<code>{escape(code, quote=False)}</code>" if code is not None else ""]
    return re.sub(r"\[((?:[^\[\]]|\[[^\]]*\])+)\]\(([^()\s]+)\)", _link, "".join(done))


def _link(found: re.Match[str]) -> str:
    """A link, unless it leads out of this site: the page is to need nothing else."""
    words, target = found[1], found[2]
    return words if ":" in target else f'<a href="{escape(target)}">{words}</a>'
