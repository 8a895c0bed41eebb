"""What a board tells of itself while it works: temperature, clock, and why it is slower than it could be."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sardonyx.cli.screen import Screen
from sardonyx.common.units import nbytes

SYSTEM = Path("/sys")
"""Where Linux tells of the hardware."""
HOT = 80.0
"""Degrees Celsius at which boards begin to slow down."""
SLOW = 0.9
"""The part of the largest clock below which it is called slow."""

SUPPLY = "use a 5 V 3 A supply (5 V 5 A for a Raspberry Pi 5)"
COOLING = "give it a heat sink or a fan"
CAUSES = {
    1 << 0: ("under-voltage", SUPPLY),
    1 << 3: ("the soft limit of temperature", COOLING),
    1 << 2: ("it is too hot, or lacks power", f"{COOLING}, and {SUPPLY}"),
    1 << 1: ("its clock is capped", f"{COOLING}, and {SUPPLY}"),
}
"""The bits of `vcgencmd get_throttled`, and what helps; the last two follow from the others, where those are told."""
SINCE_START = 16
"""So many places higher there is what was since the board was started."""


class Board:
    """What was read: temperatures in degrees Celsius, clocks in MHz; what the board does not tell is empty or None."""

    def __init__(self) -> None:
        self.before = throttled()
        self.temperatures: list[float] = []
        self.clocks: list[float] = []
        self.read()

    def read(self) -> None:
        """Note temperature and clock; takes less than a millisecond."""
        self.temperatures += [] if (now := temperature()) is None else [now]
        clocks = [1e-3 * number for number in _numbers("devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq")]
        self.clocks += [max(clocks)] if clocks else []

    def facts(self) -> dict[str, Any]:
        """All that was found, as `--json` prints it: bytes, degrees Celsius, MHz, bits, and warnings in words."""
        from sardonyx.common.memory import available, peak

        most = max(_numbers("devices/system/cpu/cpu[0-9]*/cpufreq/cpuinfo_max_freq"), default=None)
        facts: dict[str, Any] = {
            "name": next(_texts("firmware/devicetree/base/model"), None),
            "memory": available(),
            "peak_memory": peak() or None,
            "temperature": self.temperatures[0] if self.temperatures else None,
            "most_temperature": max(self.temperatures, default=None),
            "least_clock": min(self.clocks[1:] or self.clocks, default=None),
            "most_clock": most and 1e-3 * most,
            "governor": next(_texts("devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"), None),
            "throttled": throttled(),
        }
        return {**facts, "warnings": list(_warnings(facts, self.before))}


def temperature() -> float | None:
    """Degrees Celsius of the hottest place; None where the machine does not tell."""
    zones = (1e-3 * number for number in _numbers("class/thermal/thermal_zone*/temp"))
    return max((zone for zone in zones if 0 < zone < 150), default=None)


def throttled() -> int | None:
    """The bits of `vcgencmd get_throttled`; None where the program is missing or fails, as on other boards."""
    program = shutil.which("vcgencmd")
    if program is None:
        return None
    try:
        done = subprocess.run([program, "get_throttled"], capture_output=True, text=True, timeout=5)
        return int(done.stdout.strip().removeprefix("throttled="), 16)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def _warnings(facts: dict[str, Any], before: int | None) -> Iterator[str]:
    """What makes times worse than they could be, each with what helps."""
    now, since = (facts["throttled"] or 0) & 15, (facts["throttled"] or 0) >> SINCE_START & 15
    for cause, remedy in _causes(now):
        yield f"the board is throttled: {cause}; {remedy}"
    when = "before" if before is None or before >> SINCE_START & since else "during these runs"
    for cause, remedy in _causes(since & ~now):
        yield f"the board was throttled {when}: {cause}; {remedy}"
    most, clock, fastest = facts["most_temperature"], facts["least_clock"], facts["most_clock"]
    if most is not None and most >= HOT:
        yield f"the board reached {most:.0f} °C, and slows down from {HOT:.0f} °C on; {COOLING}"
    if facts["governor"] == "powersave":
        where = SYSTEM / "devices/system/cpu/cpu*/cpufreq/scaling_governor"
        yield f"the clock is kept low by the governor powersave; echo ondemand | sudo tee {where}"
    elif not now and clock is not None and fastest is not None and clock < SLOW * fastest:
        yield f"the clock fell to {clock:.0f} MHz of {fastest:.0f} MHz; try more --runs"


def _causes(bits: int) -> list[tuple[str, str]]:
    told = [CAUSES[bit] for bit in CAUSES if bits & bit]
    return [told[k] for k in range(len(told)) if k == 0 or told[k] == CAUSES[1 << 3]]


def render(screen: Screen, board: dict[str, Any]) -> None:
    """Draw `Board.facts()`."""
    screen.heading(board["name"] or "Board")
    told = {
        "Peak memory": f"{nbytes(board['peak_memory'])} of {nbytes(board['memory'])}" if board["peak_memory"] else "",
        "Temperature": _span(board["temperature"], board["most_temperature"], "°C", "before the runs", "at most"),
        "Clock": _span(board["least_clock"], board["most_clock"], "MHz", "at least", "possible"),
        "Governor": board["governor"],
        "Throttled": {None: "", 0: "never since the start"}.get(board["throttled"], f"{board['throttled'] or 0:#x}"),
    }
    screen.facts(told)
    silent = [name.lower() for name in ("Temperature", "Clock", "Throttled") if not told[name]]
    if silent:
        screen.line("")
        screen.line(f"Not told here: {', '.join(silent)}.", quiet=True)
    if board["warnings"]:
        screen.line("")
    for warning in board["warnings"]:
        screen.line(f"Warning: {warning}.")


def _span(first: float | None, second: float | None, unit: str, *words: str) -> str:
    pairs = zip((first, second), words, strict=True)
    return ", ".join(f"{value:.0f} {unit} {word}" for value, word in pairs if value is not None)


def _texts(pattern: str) -> Iterator[str]:
    """What the files say that can be read."""
    for path in sorted(SYSTEM.glob(pattern)):
        try:
            yield path.read_text(errors="replace").strip("\0\n ")
        except OSError:  # a zone that is switched off
            continue


def _numbers(pattern: str) -> list[float]:
    return [float(text) for text in _texts(pattern) if text.lstrip("-").isdecimal()]
