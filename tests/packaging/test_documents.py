"""Every command in the documents can work, and every path and name is there: README's, those of examples and pages."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sardonyx.version import __version__
from tests.packaging import documents
from tests.packaging.documents import ROOT, faults

DOCUMENTS = [path.relative_to(ROOT).as_posix() for path in documents.documents()]


def test_all_documents_are_read() -> None:
    assert {"README.md", "edge/README.md", "examples/README.md", "examples/notebook/digits.ipynb"} <= {*DOCUMENTS}
    assert {"SECURITY.md", "docs/README.md", "docs/fusion.md", "tests/benchmarks/README.md"} <= {*DOCUMENTS}
    assert {"examples/pyscript/pyscript.toml", "examples/marimo/digits.py", "edge/examples/camera.py"} <= {*DOCUMENTS}
    commands = [snippet.text for path in documents.documents() for snippet in documents.snippets(path)]
    for text in (
        "pip install .",
        "make wheel",
        "sardonyx demo",
        "~/env/bin/python ~/camera.py",
        "python -m tests.benchmarks.page",
    ):
        assert any(each.startswith(text) for each in commands), text


def test_the_index_has_all_documents() -> None:
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    names = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert {*re.findall(r"\]\((\w[^/)]*\.md)\)", index)} == names


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "core/README.md"])
def test_every_room_is_in_the_table(name: str) -> None:
    rooms = {path.name for path in (ROOT / "core" / "sardonyx").iterdir() if path.is_dir()}
    rows = re.findall(r"^\| (`\w+[/.].*?) \|", (ROOT / name).read_text("utf-8"), re.MULTILINE)
    listed = {room for row in rows for room in re.findall(r"`(\w+)/`", row)}
    assert {room for room in rooms if not room.startswith("__")} <= listed


@pytest.mark.parametrize("name", DOCUMENTS)
def test_its_commands_can_work(name: str) -> None:
    assert [*faults(ROOT / name)] == []


def test_the_wheel_has_the_name_that_pages_ask_for() -> None:
    wheel = f"sardonyx-{__version__}-py3-none-any.whl"
    for name in ("examples/pyscript/pyscript.toml", "examples/marimo/digits.py"):
        assert wheel in (ROOT / name).read_text("utf-8"), name


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("    pip install sardonyx\n", "no release is on an index"),
        ("Say `~/env/bin/pip install 'sardonyx[wasm]'`.", "no release is on an index"),
        ("    python -m pip install marimo sardonyx==0.1\n", "no release is on an index"),
        ('    await micropip.install("sardonyx")\n', "from an index"),
        ('    packages = ["numpy", "sardonyx"]\n', "from an index"),
        ("```\nmake wheels\n```\n", "there is no `make wheels`"),
        ("    python -m tests.benchmarks.pages\n", "there is no module tests.benchmarks.pages"),
        ("    python -m tests.benchmarks.report\n", "tests.benchmarks.report is no program"),
        ("    python examples/none.py\n", "examples/none.py does not exist"),
        ("    pytest tests/none -k x\n", "tests/none does not exist"),
        ("    sardonyx run model.onnx --inputs x\n", "unrecognized arguments: --inputs x"),
        ("Say `sardonyx compile --weights float17`.", "invalid choice: 'float17'"),
        ("    sardonyx optimize --output x.onnx\n", "the following arguments are required"),
        ("    sardonyx walk\n", "there is no command 'walk'"),
        ("# Installing\n\nA [link](nowhere.md), [another](README.md#installing).", "(nowhere.md) leads nowhere"),
        (
            "# Installing\n\nA [link](README.md#running), [another](#installing).",
            "(README.md#running) leads to no heading",
        ),
        ("The file `core/sardonyx/none.py`, or `README.md`.", "`core/sardonyx/none.py` does not exist"),
        ("The file `executor.py`, which is `runtime/executor.py`.", "`executor.py` does not exist"),
        ("The rooms `plans/bundle/` and `plans/rooms/`.", "`plans/rooms/` does not exist"),
        ("`plan.VERSION`, and `plan.Kernel`.", "`plan.Kernel`: no module plan has Kernel"),
        ("`Device.download_all`, and `Device.download_none`.", "download_none is nowhere"),
        ("`sardonyx.host`, `sardonyx.commands`, `sardonyx.no_such.name()`.", "`sardonyx.no_such.name()` is nowhere"),
    ],
)
def test_what_cannot_work_is_found(text: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(text)
    (fault,) = faults(tmp_path / "README.md")
    assert complaint in fault


def test_what_can_work_is_left_alone(tmp_path: Path) -> None:
    lines = ["pip install .", 'pip install ".[gpu,wasm,cli]"', "pip install dist/sardonyx-*.whl", "make demo test"]
    lines += ["sardonyx demo        recognise digits", "python -m venv x", "python -m tests.operators --write"]
    lines += ['interpreter = "./pyodide/pyodide.mjs"', 'packages = ["sardonyx"]', "cp model.onnx elsewhere"]
    text = "".join(f"    {line}\n" for line in lines)
    (tmp_path / "README.md").write_text(
        f"Text.\n\n{text}\nSay `sardonyx compile --weights int8`, `sardonyx COMMAND`.\n"
    )
    assert [*faults(tmp_path / "README.md")] == []
    cell = {"cell_type": "code", "source": ["%pip install sardonyx\n", "x = 1"]}
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": [cell]}))
    assert len([*faults(tmp_path / "a.ipynb")]) == 1
