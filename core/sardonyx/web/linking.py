"""The page runtime in few files: each script that pages name has inside it the modules that it imports.

A browser learns what a module imports once it has the module, so twenty of them cost several ways to the server and
back, and their texts are compressed one by one. `package.json` exports what pages name; workers are started by their
names, and some scripts are imported while others run: these stay files. The modules of `runtime.js` are in that file
alone, and other files take them from there, so that a page has each of them once. A worker has what it needs in its
own file.

A module becomes a function that returns what the module exports. So modules keep to few forms, each on one line. Lines
of comments are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from posixpath import dirname, join, normpath, relpath

from sardonyx.errors import Fail
from sardonyx.web import scripts

RUNTIME = "runtime.js"
_COMMENT = re.compile(r"^[ \t]*(?:/\*\*(?:(?!\*/).)*\*/|//[^\n]*)\n", re.M | re.S)
_LINE = re.compile(r"^(?:import|export)\b(?!\().*", re.M)
_IMPORT = re.compile(r'import (?:\{ (.+) \}|\* as (\w+)) from "(.+)";')
_GIVEN = re.compile(r'export \{ default \} from "(\..+)";')
_KEPT = re.compile(r'export \* from "[^.].+";|export \{ \w+(?:, \w+)* \};')
_DECLARED = re.compile(r"export ((?:async )?(?:const|class|function\*?) (?:\[([\w, ]+)\]|(\w+)).*)")
_DEFAULT = re.compile(r"export default (\w+);")
_STARTED = re.compile(r'new URL\("(\.{1,2}/[^"]+\.js)", import\.meta\.url\)')
_LATE = re.compile(r'import\("(\.{1,2}/[^"]+\.js)"\)')
_PLACED = re.compile(r'import\.meta|import\("\.')


def served() -> dict[str, bytes]:
    """What a server has of the page runtime, by path: linked scripts, their types and `package.json`.

    >>> [path for path in served() if path.startswith("runtime")]
    ['runtime.d.ts', 'runtime.js']
    """
    texts = {
        f"{place}{file.name}": file.read_text("utf-8")
        for place in ("", "ort/", "genai/")
        for file in (scripts() / place).iterdir()
        if file.name.endswith((".js", ".json", ".ts"))
    }
    files = linked(texts) | {path: text for path, text in texts.items() if not path.endswith(".js")}
    return {path: files[path].encode() for path in sorted(files)}


def linked(modules: Mapping[str, str]) -> dict[str, str]:
    """The files of a page runtime, of its modules' texts and its `package.json`, all by path.

    Raises Fail naming the line of a module that has none of the forms.

    >>> modules = {"package.json": '{"exports": {".": "./runtime.js"}}', "b.js": "export const two = 2;"}
    >>> modules["runtime.js"] = 'import { two as b } from "./b.js";\\nexport const four = 2 * b;'
    >>> print(linked(modules)["runtime.js"])
    export const MODULES = {};
    MODULES["b.js"] = (() => {
    const two = 2;
    return { two };
    })();
    const { two: b } = MODULES["b.js"];
    export const four = 2 * b;
    """
    return _Linker(modules).files()


class _Linker:
    def __init__(self, modules: Mapping[str, str]) -> None:
        exports = re.findall(r'"\./([^"]+\.js)"', json.dumps(json.loads(modules["package.json"])["exports"]))
        self.modules = {path: _COMMENT.sub("", text) for path, text in modules.items() if path.endswith(".js")}
        self.workers = {*self._named(_STARTED)}
        self.pages = self.modules.keys() & {*exports, *self._named(_LATE)}
        self.shared = {*self._inside(RUNTIME, self.pages - {RUNTIME})} - {RUNTIME}

    def files(self) -> dict[str, str]:
        found = {path: self._file(path, (), ()) for path in self.workers}
        for path in self.pages:
            found[path] = self._file(path, self.pages - {path}, self.shared if path != RUNTIME else ())
        return found

    def _named(self, form: re.Pattern[str]) -> Iterator[str]:
        """The scripts that modules name in a form."""
        for path, text in self.modules.items():
            yield from (_beside(path, name) for name in form.findall(text))

    def _imported(self, path: str) -> Iterator[str]:
        """The modules and packages that a module imports, each as often as it does."""
        for line in _LINE.findall(self.modules[path]):
            if found := _IMPORT.match(line) or _GIVEN.match(line):
                yield _beside(path, found[found.re.groups])

    def _inside(self, path: str, apart: Collection[str]) -> Iterator[str]:
        """The modules that a file has inside, without those `apart`: each after what it imports, its own last."""
        seen = {*apart}

        def visit(each: str) -> Iterator[str]:
            if each in seen or each not in self.modules:
                return
            seen.add(each)
            for other in self._imported(each):
                yield from visit(other)
            yield each

        return visit(path)

    def _file(self, path: str, pages: Collection[str], shared: Collection[str]) -> str:
        """The text of a file; `pages` are other files that it may import, `shared` what the runtime has for it."""
        inside = [*self._inside(path, {*pages, *shared})]
        for each in inside:
            if dirname(each) != dirname(path) and _PLACED.search(self.modules[each]):
                raise Fail(f"{each} tells where files lie, so {path}, in another folder, cannot have it inside")
        needed = {name for each in inside for name in self._imported(each)} - {*inside}
        outside = sorted({RUNTIME if name in shared else name for name in needed})
        sources = [name if name not in self.modules else _relative(path, name) for name in outside]
        imports = [f'import * as outside{k} from "{source}";' for k, source in enumerate(sources)]
        known = [f"...outside{k}.MODULES" for k, name in enumerate(outside) if name == RUNTIME]
        known += [f'"{name}": outside{k}' for k, name in enumerate(outside)]
        mapping = "{ " + ", ".join(known) + " }" if known else "{}"
        own = ["export " * (path == RUNTIME) + f"const MODULES = {mapping};"]
        return "\n".join([*imports, *own, *(self._function(each) for each in inside[:-1]), self._main(path)])

    def _function(self, path: str) -> str:
        given: list[str] = []

        def changed(line: re.Match[str]) -> str:
            if found := _DECLARED.fullmatch(line[0]):
                given.append(found[2] or found[3])
                return found[1]
            if found := _DEFAULT.fullmatch(line[0]):
                given.append(f"default: {found[1]}")
                return ""
            return self._taken(path, line[0])

        text = _LINE.sub(changed, self.modules[path]).strip()
        return f'MODULES["{path}"] = (() => {{\n{text}\nreturn {{ {", ".join(given)} }};\n}})();'

    def _main(self, path: str) -> str:
        def changed(line: re.Match[str]) -> str:
            if any(form.fullmatch(line[0]) for form in (_DECLARED, _DEFAULT, _KEPT)):
                return line[0]
            if found := _GIVEN.fullmatch(line[0]):
                return f'export default MODULES["{_beside(path, found[1])}"].default;'
            return self._taken(path, line[0])

        return _LINE.sub(changed, self.modules[path])

    def _taken(self, path: str, line: str) -> str:
        """What stands for an import."""
        found = _IMPORT.fullmatch(line)
        if not found:
            raise Fail(f"{path} cannot be linked, since this line has none of the forms of modules here: {line}")
        names = f"{{ {found[1].replace(' as ', ': ')} }}" if found[1] else found[2]
        return f'const {names} = MODULES["{_beside(path, found[3])}"];'


def _beside(path: str, name: str) -> str:
    return normpath(join(dirname(path), name)) if name.startswith(".") else name


def _relative(path: str, name: str) -> str:
    found = relpath(name, dirname(path) or ".")
    return found if found.startswith(".") else f"./{found}"
