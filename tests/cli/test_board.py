"""`sardonyx bench --board`, on folders that look like /sys, with a `vcgencmd` that says what a test wants."""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sardonyx.cli import board, main, measurement

PI = {
    "firmware/devicetree/base/model": "Raspberry Pi 4 Model B Rev 1.5\0",
    "class/thermal/thermal_zone0/temp": "48686\n",
    "class/thermal/thermal_zone1/temp": "-274000\n",
    "devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "1800000\n",
    "devices/system/cpu/cpu1/cpufreq/scaling_cur_freq": "600000\n",
    "devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": "1800000\n",
    "devices/system/cpu/cpu0/cpufreq/scaling_governor": "ondemand\n",
}
Told = Callable[..., dict[str, Any]]


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Mapping[str, str]], None]:
    """Puts files into a folder that is taken for /sys."""
    monkeypatch.setattr(board, "SYSTEM", tmp_path / "sys")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    def write(files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = tmp_path / "sys" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return write


@pytest.fixture
def vcgencmd(tmp_path: Path) -> Callable[..., None]:
    """Puts a program of that name on the path; it gives these answers by turns, then the last one."""
    if sys.platform == "win32":
        pytest.skip("the program is a shell script")

    def write(*answers: str) -> None:
        folder = tmp_path / "bin"
        folder.mkdir()
        (folder / "answers").write_text("\n".join(answers))
        program = folder / "vcgencmd"
        program.write_text(
            f"#!{sys.executable}\nimport pathlib, sys\n"
            "assert sys.argv[1:] == ['get_throttled']\n"
            "path = pathlib.Path(__file__).with_name('answers')\n"
            "first, *others = path.read_text().split('\\n')\n"
            "print(first)\npath.write_text('\\n'.join(others or [first]))\n"
        )
        program.chmod(0o755)

    return write


@pytest.fixture
def told(relu: Path, capsys: pytest.CaptureFixture[str]) -> Told:
    """What `--json` says of the board."""

    def run() -> dict[str, Any]:
        assert main(["bench", str(relu), "--provider", "numpy", "--runs", "1", "--board", "--json"]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)["board"]
        return found

    return run


def test_a_board_that_is_well(system: Any, vcgencmd: Any, told: Told) -> None:
    system(PI)
    vcgencmd("throttled=0x0")
    found = told()
    assert found["name"] == "Raspberry Pi 4 Model B Rev 1.5"
    assert found["temperature"] == found["most_temperature"] == pytest.approx(48.686)
    assert found["least_clock"] == found["most_clock"] == 1800
    assert found["governor"] == "ondemand"
    assert found["throttled"] == 0
    assert found["warnings"] == []
    assert 1 << 20 < found["peak_memory"] < found["memory"]


@pytest.mark.parametrize(
    ("answers", "warnings"),
    [
        (
            ["throttled=0x50005"],
            [
                "the board is throttled: under-voltage; use a 5 V 3 A supply (5 V 5 A for a Raspberry Pi 5)",
            ],
        ),
        (["throttled=0x0", "throttled=0x80000"], ["the board was throttled during these runs: the soft limit of"]),
        (
            ["throttled=0x20000"],
            ["the board was throttled before: its clock is capped; give it a heat sink or a fan"],
        ),
        (["throttled=0x9"], ["the board is throttled: under-voltage", "the board is throttled: the soft limit of"]),
        (["VCHI initialization failed"], []),
    ],
)
def test_throttling(answers: list[str], warnings: list[str], system: Any, vcgencmd: Any, told: Told) -> None:
    system(PI)
    vcgencmd(*answers)
    found = told()["warnings"]
    assert len(found) == len(warnings)
    for one, start in zip(found, warnings, strict=True):
        assert one.startswith(start)


@pytest.mark.parametrize(
    ("name", "text", "warning"),
    [
        ("class/thermal/thermal_zone0/temp", "83200", "the board reached 83 °C, and slows down from 80 °C on; give it"),
        ("devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "1000000", "the clock fell to 1000 MHz of 1800 MHz; "),
        ("devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave", "the clock is kept low by the governor"),
    ],
)
def test_warnings(name: str, text: str, warning: str, system: Any, told: Told) -> None:
    system({**PI, name: text})
    (found,) = told()["warnings"]
    assert found.startswith(warning)


def test_a_board_that_tells_nothing(system: Any, told: Told) -> None:
    system({"class/thermal/thermal_zone0/temp": "unknown"})
    found = told()
    known = {name for name, value in found.items() if value}
    assert known == {"memory", "peak_memory"}


@pytest.mark.usefixtures("screen")
def test_for_a_person(system: Any, vcgencmd: Any, relu: Path, capsys: pytest.CaptureFixture[str]) -> None:
    system({**PI, "class/thermal/thermal_zone0/temp": "81000"})
    vcgencmd("throttled=0x50001")
    assert main(["bench", str(relu), "--provider", "numpy", "--runs", "1", "--board"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    for part in ("Raspberry Pi 4 Model B", "81 °C before the runs", "1800 MHz at least", "0x50001", "Peak memory"):
        assert part in text
    assert "Warning: the board is throttled: under-voltage; use a 5 V 3 A supply" in " ".join(text.split())


@pytest.mark.usefixtures("screen")
def test_silence_for_a_person(system: Any, relu: Path, capsys: pytest.CaptureFixture[str]) -> None:
    system({})
    assert main(["bench", str(relu), "--provider", "numpy", "--runs", "1", "--board"]) == 0
    assert "Not told here: temperature, clock, throttled." in capsys.readouterr().out


def test_only_when_asked(relu: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", str(relu), "--provider", "numpy", "--runs", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["board"] is None


def test_what_is_sent_in(system: Any, vcgencmd: Any, relu: Path, tmp_path: Path, monkeypatch: Any) -> None:
    """Machine, model, times and board; no path and no name of the host."""
    system(PI)
    vcgencmd("throttled=0x0")
    listed = tmp_path / "cpuinfo"
    listed.write_text("processor\t: 0\nCPU part\t: 0xd08\n\nprocessor\t: 1\nCPU part\t: 0xd08\n\nHardware\t: BCM2835\n")
    monkeypatch.setattr(measurement, "PROCESSORS", listed)
    target = tmp_path / "sent" / "times.json"
    command = ["bench", str(relu), "--provider", "numpy", "--provider", "wasm", "--runs", "2", "--board"]
    assert main([*command, "--export", str(target)]) == 0
    text = target.read_text("utf-8")
    sent = json.loads(text)
    assert (sent["format"], sent["version"], sent["runs"], sent["threads"]) == ("sardonyx-bench", 1, 2, 1)
    digest = hashlib.sha256(relu.read_bytes()).hexdigest()
    assert sent["model"] == {"name": "model.onnx", "sha256": digest, "bytes": relu.stat().st_size}
    assert sent["machine"]["processor"] == "BCM2835"
    assert sent["machine"]["packages"]["numpy"] == np.__version__
    assert [side["name"] for side in sent["sides"]] == ["NumpyExecutionProvider", "WasmExecutionProvider"]
    assert all(0 < side["least"] <= side["median"] for side in sent["sides"])
    assert sent["board"]["name"] == "Raspberry Pi 4 Model B Rev 1.5"
    assert str(tmp_path) not in text
    assert platform.node() not in text
    listed.write_text("processor\t: 0\nCPU part\t: 0xd08\n")
    assert measurement.processor() == "CPU part 0xd08"


def test_a_file_that_cannot_be_written(relu: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", str(relu), "--export", str(tmp_path)]) == 1
    assert f"--export {tmp_path} is a folder; name a file in it" in capsys.readouterr().err
