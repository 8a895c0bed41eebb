"""Blink a lamp at a pin as often as the digit before the camera says; without pins, say when it would be on."""

from __future__ import annotations

import sys
from typing import Protocol

from camera import arguments, recognised

from sardonyx.errors import SardonyxError

PIN = 17
SECONDS = 0.2
SURE = 0.8
"""The probability from which on a digit counts."""


class Lamp(Protocol):
    """What gpiozero.LED and its stand-in can do."""

    def blink(self, on_time: float, off_time: float, n: int, background: bool) -> None: ...


class Words:
    """Stands in for a lamp where there are no pins."""

    def blink(self, on_time: float, off_time: float, n: int, background: bool) -> None:
        print(f"pin {PIN}: " + " ".join(["on, off"] * n), flush=True)


def lamp() -> Lamp:
    """The lamp at the pin."""
    try:
        from gpiozero import LED
        from gpiozero.exc import GPIOZeroError
    except ImportError:
        return Words()
    try:
        return LED(PIN)  # type: ignore[no-any-return]
    except GPIOZeroError:
        return Words()


def main() -> None:
    names = arguments(__doc__)
    light = lamp()
    try:
        for digit, probability in recognised(names):
            print(f"{digit} ({probability:.0%})", flush=True)
            if digit and probability >= SURE:
                light.blink(SECONDS, SECONDS, n=digit, background=False)
    except SardonyxError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
