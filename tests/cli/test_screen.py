"""Text, tables and numbers, with rich and without."""

from __future__ import annotations

import sys

import pytest

from sardonyx.cli import screen as screens
from sardonyx.cli.text import clean

LONG = "p2o.DynamicDimension.0 " * 12


@pytest.fixture
def lines(screen: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What a screen prints of everything it can print."""
    out = screens.screen()
    out.heading("First")
    out.facts({"Name": "[bold]relu[/]", "Long": LONG, "None": None, "Empty": ""})
    out.heading("Second")
    out.table(["Node", ">Count", "", "Why"], [["a\x1b[31m", 12, "", LONG], ["b", 3, "", ""]])
    out.line(LONG)
    return capsys.readouterr().out.splitlines()


def test_fits_in_80_columns(lines: list[str]) -> None:
    assert max(map(len, lines)) <= 80


def test_shows_everything(lines: list[str]) -> None:
    text = "\n".join(lines)
    assert text.count("p2o.DynamicDimension.0") == 36
    assert "[bold]relu[/]" in text
    assert "a\\x1b[31m" in text
    assert "None" not in text
    assert "Empty" not in text
    assert lines[0].rstrip() == "First"
    (row,) = (line for line in lines if line.startswith("b "))
    (title,) = (line for line in lines if line.startswith("Node "))
    assert row.index("3") == title.index("Count") + len("Count") - 1


def test_both_screens_say_the_same(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = []
    for out in (screens.PlainScreen(), screens.RichScreen()):
        out.heading("Title")
        out.table(["A", ">B"], [["x", 1], ["y", 22]])
        out.facts({"Key": "value"})
        text = capsys.readouterr().out
        words.append([word for word in text.split() if word.strip("-─")])
    assert words[0] == words[1]


def test_clean() -> None:
    assert clean("naïve 数") == "naïve 数"
    assert clean("a\nb\x07") == "a\\nb\\x07"


def test_no_drawings_in_a_pipe() -> None:
    assert not screens.draws()


@pytest.mark.usefixtures("screen")
@pytest.mark.parametrize("terminal", [False, True])
def test_progress_is_not_on_stdout(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with screens.progress("Working", 3) as step:
        for _ in range(3):
            step()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert terminal or captured.err == ""


def test_lines_do_not_end_in_blanks(lines: list[str]) -> None:
    assert [line for line in lines if line != line.rstrip()] == []


@pytest.mark.parametrize("width", [36, 44, 60, 200])
def test_narrow_tables(
    width: int, screen: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text is broken between words before it is broken inside of them, and numbers last."""
    monkeypatch.setenv("COLUMNS", str(width))
    screens.screen().table(["Provider", "State", ">Time"], [["WebGpuProvider", "usable in many ways", "12,345"]])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    assert "WebGpuProvider" in lines[2]
    assert lines[2].endswith("12,345")


@pytest.mark.usefixtures("screen")
def test_drawings_are_not_wrapped(capsys: pytest.CaptureFixture[str]) -> None:
    screens.screen().picture(["    " + "x y " * 30, "end"])
    assert capsys.readouterr().out.splitlines() == ["    " + ("x y " * 30).rstrip(), "end"]
