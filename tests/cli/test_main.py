"""The entry point: commands, help, errors, exit codes, other packages' commands."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from onnx import TensorProto

from sardonyx import __version__
from sardonyx.cli import BUILT_IN, main

Save = Callable[..., Path]
HEAVY = """
import sys
from sardonyx.cli import BUILT_IN, _parser
_parser(["--help"])
_parser(["--version"])
print(*sorted({"numpy", "rich", "importlib.metadata", "dataclasses", "sardonyx.errors"} & set(sys.modules)))
for name in BUILT_IN:
    _parser([name])
print(*sorted({"rich", "PIL", "sardonyx.api.session", "sardonyx.ops", "sardonyx.primitives"} & set(sys.modules)))
"""

OTHERS = '''
class Serve:
    """answer requests, 100% of them

    All of them.
    """

    def add_arguments(self, parser):
        parser.add_argument("--port", type=int)

    def run(self, args):
        if args.port < 0:
            raise ZeroDivisionError("odd")
        if args.port == 0:
            raise KeyboardInterrupt
        print(args.port, args.json)


serve = Serve()
'''
POINTS = """
[sardonyx.commands]
serve = acme_commands:serve
broken = acme_absent:serve
info = acme_absent:serve
"""


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([])
    text = capsys.readouterr().out
    for name in BUILT_IN:
        assert f"    {name} " in text


def test_help_has_examples_and_fits(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for arguments in ([], *([name, "--help"] for name in BUILT_IN)):
        with pytest.raises(SystemExit, match="0"):
            main(arguments)
        text = capsys.readouterr().out
        assert max(map(len, text.splitlines())) <= 80
        assert arguments or "\n  sardonyx run resnet50.onnx --input cat.jpg\n" in text


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_list_says_what_the_commands_say(name: str) -> None:
    text = importlib.import_module(f"sardonyx.cli.{name}").__doc__
    assert text is not None
    assert text.partition("\n")[0] == BUILT_IN[name]


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([name, "--help"])
    text = capsys.readouterr().out
    assert "--json" in text
    assert "--debug" in text


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"sardonyx {__version__}\n"


@pytest.mark.parametrize("arguments", [["frobnicate"], ["run"], ["info", "--frobnicate"], ["demo", "--provider"]])
def test_arguments_that_make_no_sense(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("sardonyx: ")
    assert line.endswith("--help")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inspekt"], "there is no command 'inspekt', but 'inspect'; see sardonyx --help"),
        (["frobnicate"], "there is no command 'frobnicate'; see sardonyx --help"),
        (["info", "--frobnicate"], "info does not take --frobnicate; see sardonyx info --help"),
        (["--json", "info"], "--json is no command; options come behind one, as in sardonyx info --json; see sard"),
        (["run", "x.onnx", "--seed", "-1"], "argument --seed: -1 is no seed; take 0 or more; see sardonyx run --help"),
    ],
)
def test_what_may_be_meant(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert capsys.readouterr().err.startswith(f"sardonyx: {message}")


CODE = """

    @sardonyx.custom_op("my.domain", "Mish")
    def mish(x0, *, alpha=1.5):
        return ...  # of sardonyx.primitives, or with host=True of NumPy
"""


@pytest.mark.parametrize("command", ["run", "bench", "verify", "inspect"])
@pytest.mark.usefixtures("screen")
def test_code_in_errors_keeps_its_lines(command: str, model: Save, capsys: pytest.CaptureFixture[str]) -> None:
    ports = [("x", TensorProto.FLOAT, ["N"])], [("y", TensorProto.FLOAT, ["N"])]
    main([command, str(model("Mish", *ports, domain="my.domain", alpha=1.5))])
    captured = capsys.readouterr()
    assert (captured.out if command == "inspect" else captured.err).endswith(CODE)


def test_errors_fit_the_terminal(
    model: Save, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    ports = [("x", TensorProto.FLOAT, ["N"])], [("y", TensorProto.FLOAT, ["N"])]
    assert main(["run", str(model("Mish", *ports, domain="my.domain", alpha=1.5))]) == 1
    said = capsys.readouterr().err
    prose, _, _ = said.partition("\n\n")
    assert said.endswith(CODE)
    assert max(map(len, prose.splitlines())) <= 50
    assert "is known in domain" in " ".join(prose.split())


def test_an_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "absent.onnx"]) == 1
    captured = capsys.readouterr()
    assert captured.err == "sardonyx: absent.onnx does not exist\n"
    assert captured.out == ""


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "absent.onnx", "--debug"]) == 1
    text = capsys.readouterr().err
    assert "Traceback" in text
    assert "NoSuchFile" in text


@pytest.fixture
def others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with three commands: one works, one cannot be imported, one has a name that is taken."""
    info = tmp_path / "acme-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1\n")
    (info / "entry_points.txt").write_text(POINTS)
    (tmp_path / "acme_commands.py").write_text(OTHERS)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("others")
def test_other_packages_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--port", "8000", "--json"]) == 0
    assert capsys.readouterr().out == "8000 True\n"
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    text = capsys.readouterr().out
    assert "answer requests, 100% of them" in text
    assert "not usable" in text
    assert "show versions" in text  # nobody takes a built-in command away


@pytest.mark.usefixtures("others")
def test_other_packages_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["broken"]) == 1
    expected = "'broken' of acme_absent:serve cannot be loaded: No module named 'acme_absent'"
    assert capsys.readouterr().err == f"sardonyx: {expected}\n"
    assert main(["serve", "--port", "-1"]) == 1
    assert capsys.readouterr().err == "sardonyx: ZeroDivisionError: odd (--debug shows where)\n"


@pytest.mark.usefixtures("others")
def test_an_interrupt_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--port", "0"]) == 130
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_a_warning_is_a_line(relu: Path) -> None:
    command = [sys.executable, "-m", "sardonyx", "inspect", str(relu), "--provider", "CUDAExecutionProvider"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert [line.startswith("sardonyx: ") for line in done.stderr.splitlines()] == [True]


def test_starts_without_the_engine() -> None:
    done = subprocess.run([sys.executable, "-c", HEAVY], capture_output=True, text=True, check=True, timeout=500)
    assert done.stdout.split() == []


def test_as_a_module(relu: Path) -> None:
    command = [sys.executable, "-m", "sardonyx", "inspect", str(relu), "--provider", "numpy"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "Relu" in done.stdout


def test_a_reader_that_goes_away(relu: Path) -> None:
    command = [sys.executable, "-m", "sardonyx", "inspect", str(relu), "--provider", "numpy"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 1
