"""What is told of frames: how many, how fast, and how hot the board is."""

from __future__ import annotations

import time
from collections import deque
from statistics import median

from sardonyx.cli.board import temperature
from sardonyx.cli.text import count
from sardonyx.vision import Seen

COOL = 2.0
"""Seconds between two readings of the temperature."""
RECENT = 1000
"""Frames of which the summary tells the median."""


class Tally:
    """What is told of all frames: how many, how fast, and how hot the board is."""

    def __init__(self) -> None:
        self.temperature: float | None = None
        self._read = float("-inf")
        self._seconds: deque[float] = deque(maxlen=RECENT)
        self._begun = self._ended = 0.0
        self._frames = self._dropped = 0

    def note(self, seen: Seen) -> None:
        """Count a frame, and see how warm it is, now and then."""
        now = time.monotonic()
        if not self._frames:
            self._begun = now - seen.seconds
        self._ended = now
        self._frames += 1
        self._dropped += seen.dropped
        self._seconds.append(seen.seconds)
        if now - self._read >= COOL:
            self._read, self.temperature = now, temperature()

    def status(self, seen: Seen) -> str:
        """How it goes, in a line."""
        told = [f"{seen.rate:.1f} frames/s", f"{1e3 * seen.seconds:.0f} ms", f"{1e3 * seen.latency:.0f} ms old"]
        return " · ".join([*told, *self._more()])

    def summary(self) -> str:
        """How it went, in a line."""
        if not self._frames:
            return "no frames"
        took = max(self._ended - self._begun, 1e-9)
        told = [f"{count(self._frames, 'frame')} in {took:.1f} s", f"{self._frames / took:.1f} frames/s"]
        return " · ".join([*told, f"{1e3 * median(self._seconds):.0f} ms each", *self._more()])

    def _more(self) -> list[str]:
        dropped = [f"{self._dropped:,} dropped"] if self._dropped else []
        return dropped + ([] if self.temperature is None else [f"{self.temperature:.0f} °C"])
