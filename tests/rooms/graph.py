"""Modules, rooms, and the imports between them, read from the sources without running them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set
from functools import cached_property
from graphlib import TopologicalSorter
from pathlib import Path

PACKAGES = {
    "sardonyx": "core/sardonyx",
    "sardonyx_wasm": "wasm/sardonyx_wasm",
    "sardonyx_webgpu": "webgpu_backend/sardonyx_webgpu",
    "web": "web/demo",
    "edge": "edge/examples",
}
"""The packages of the tree, and where they lie."""

Arrows = Mapping[str, Set[str]]


class House:
    """The modules of a tree; `rooms` and `modules` say for each one which others it imports."""

    def __init__(self, tree: Path) -> None:
        self.files: dict[str, Path] = {}
        for package, folder in PACKAGES.items():
            for file in sorted((tree / folder).rglob("*.py")):
                parts = [package, *file.relative_to(tree / folder).with_suffix("").parts]
                self.files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file

    @cached_property
    def modules(self) -> dict[str, set[str]]:
        """For each module those that it imports."""
        return {module: set(self._imported(module)) - {module} for module in self.files}

    @cached_property
    def rooms(self) -> dict[str, set[str]]:
        """For each room those that it imports."""
        arrows: dict[str, set[str]] = {room_of(module): set() for module in self.files}
        for module, imported in self.modules.items():
            arrows[room_of(module)].update(map(room_of, imported))
        return {room: imported - {room} for room, imported in arrows.items()}

    @property
    def loose(self) -> list[str]:
        """The modules at the root of the engine."""
        return [m for m in self.files if m.count(".") == 1 and m.startswith("sardonyx.") and not self._is_package(m)]

    def sentence(self, room: str) -> str:
        """The first paragraph of what a room's docstring says."""
        docstring = ast.get_docstring(ast.parse(self.files[room].read_text("utf-8"))) or ""
        return " ".join(docstring.partition("\n\n")[0].split())

    def _is_package(self, module: str) -> bool:
        return self.files[module].name == "__init__.py"

    def _imported(self, module: str) -> Iterator[str]:
        for node in ast.walk(ast.parse(self.files[module].read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = self._base(module, node)
                names = [f"{base}.{alias.name}" for alias in node.names]
            else:
                continue
            for name in names:
                while name and name not in self.files:
                    name = name.rpartition(".")[0]
                if name:
                    yield name

    def _base(self, module: str, node: ast.ImportFrom) -> str:
        """The module that a `from` names, which may be relative."""
        if not node.level:
            return node.module or ""
        parts = module.split(".")[: None if self._is_package(module) else -1]
        parts = parts[: len(parts) - node.level + 1]
        return ".".join([*parts, *([node.module] if node.module else [])])


def room_of(module: str) -> str:
    """The room in which a module lies.

    >>> room_of("sardonyx.ops.ml.trees"), room_of("sardonyx.version"), room_of("sardonyx_wasm.hosts.engine")
    ('sardonyx.ops', 'sardonyx.version', 'sardonyx_wasm')
    """
    package, *inside = module.split(".")
    return f"{package}.{inside[0]}" if package == "sardonyx" and inside else package


def circles(arrows: Arrows) -> list[list[str]]:
    """Groups of which each member can be reached from each other one (Tarjan's strongly connected components)."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(node: str) -> None:
        numbers[node] = lowest[node] = len(numbers)
        stack.append(node)
        for other in sorted(arrows[node]):
            if other not in numbers:
                visit(other)
            if other in stack:
                lowest[node] = min(lowest[node], lowest[other])
        if lowest[node] == numbers[node]:
            group = [stack.pop()]
            while group[-1] != node:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for node in sorted(arrows):
        if node not in numbers:
            visit(node)
    return sorted(found)


def floors(arrows: Arrows) -> dict[str, int]:
    """How many steps of the longest way down are below each node; those of a circle lie on one floor.

    >>> floors({"a": {"b", "c"}, "b": {"c"}, "c": set()})
    {'c': 0, 'b': 1, 'a': 2}
    """
    group = {node: node for node in arrows}
    for circle in circles(arrows):
        group.update(dict.fromkeys(circle, circle[0]))
    joined: dict[str, set[str]] = {first: set() for first in group.values()}
    for node, others in arrows.items():
        joined[group[node]].update(group[other] for other in others if group[other] != group[node])
    height: dict[str, int] = {}
    for node in TopologicalSorter(joined).static_order():
        height[node] = max((height[other] + 1 for other in joined[node]), default=0)
    return {node: height[group[node]] for node in sorted(arrows, key=lambda node: (height[group[node]], node))}
