"""The entry point: commands, help, errors, exit codes, other packages' commands."""

from __future__ import annotations

import argparse
import importlib.metadata
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from sardonyx import __version__
from sardonyx.cli import BUILT_IN, main

HEAVY = """
import sys
from sardonyx.cli import _parser
for name in ("demo", "run", "info", "inspect"):
    _parser([name])
print(*sorted({"rich", "PIL", "sardonyx.session", "sardonyx.ops", "sardonyx.primitives"} & set(sys.modules)))
"""


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([])
    text = capsys.readouterr().out
    for name in BUILT_IN:
        assert f"    {name} " in text


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
    assert line.startswith("sardonyx")
    assert line.endswith("--help")


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


class Serve:
    """answer requests, 100% of them

    All of them.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--port", type=int)

    def run(self, args: argparse.Namespace) -> None:
        if args.port < 0:
            raise ZeroDivisionError("odd")
        print(args.port, args.json)


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two commands of other packages, one of which cannot be imported."""

    def fail() -> None:
        raise ImportError("no flask")

    points = [
        SimpleNamespace(name="serve", value="a:b", load=Serve),
        SimpleNamespace(name="broken", value="c:d", load=fail),
        SimpleNamespace(name="info", value="e:f", load=fail),
    ]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points)


@pytest.mark.usefixtures("others")
def test_other_packages_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--port", "8000", "--json"]) == 0
    assert capsys.readouterr().out == "8000 True\n"
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    text = capsys.readouterr().out
    assert "answer requests, 100% of them" in text
    assert "not usable" in text
    assert "versions" in text  # nobody takes a built-in command away


@pytest.mark.usefixtures("others")
def test_other_packages_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["broken"]) == 1
    assert capsys.readouterr().err == "sardonyx: 'broken' of c:d cannot be loaded: no flask\n"
    assert main(["serve", "--port", "-1"]) == 1
    assert capsys.readouterr().err == "sardonyx: ZeroDivisionError: odd (--debug shows where)\n"


def test_starts_without_the_engine() -> None:
    done = subprocess.run([sys.executable, "-c", HEAVY], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_as_a_module(relu: Path) -> None:
    command = [sys.executable, "-m", "sardonyx", "inspect", str(relu), "--provider", "numpy"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
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
        assert process.wait() == 1
