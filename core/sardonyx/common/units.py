"""Numbers for people to read."""

from __future__ import annotations

_UNITS = {
    f"{prefix}{end}": base**power
    for power, prefix in enumerate("kmgt", 1)
    for end, base in (("", 1000), ("b", 1000), ("ib", 1024))
} | {"": 1, "b": 1}


def parse(text: str) -> int:
    """The bytes that a text tells: a number, with a unit of powers of 1000 (`64MB`) or of 1024 (`64MiB`).

    >>> parse("65536"), parse("64MB"), parse("0.5 GiB")
    (65536, 64000000, 536870912)
    """
    number = text.strip()
    while number[-1:].isalpha():
        number = number[:-1]
    unit = text.strip()[len(number) :]
    try:
        return int(float(number) * _UNITS[unit.lower()])
    except (ValueError, KeyError, OverflowError):
        raise ValueError(f"{text!r} is no number of bytes; write 65536, '64MB' or '64MiB'") from None


def nbytes(number: int) -> str:
    """A number of bytes in binary units.

    >>> nbytes(999), nbytes(175984), nbytes(3 << 30)
    ('999 B', '171.9 KiB', '3.0 GiB')
    """
    for power, unit in enumerate(("B", "KiB", "MiB", "GiB")):
        if number < 1024 ** (power + 1):
            return f"{number / 1024**power:.{min(power, 1)}f} {unit}"
    return f"{number / 1024**4:.1f} TiB"


def duration(seconds: float) -> str:
    """A time with three figures.

    >>> duration(0.0000123), duration(0.015), duration(0.2), duration(1.234)
    ('12.3 us', '15.0 ms', '200 ms', '1.23 s')
    """
    for unit, factor in (("us", 1e6), ("ms", 1e3)):
        if seconds * factor < 999.5:
            return f"{seconds * factor:#.3g}".rstrip(".") + f" {unit}"
    return f"{seconds:#.3g}".rstrip(".") + " s"
