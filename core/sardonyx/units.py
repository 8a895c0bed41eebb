"""Numbers for people to read."""

from __future__ import annotations


def nbytes(number: int) -> str:
    """A number of bytes in binary units.

    >>> nbytes(999), nbytes(175984), nbytes(3 << 30)
    ('999 B', '171.9 KiB', '3.0 GiB')
    """
    for power, unit in enumerate(("B", "KiB", "MiB", "GiB")):
        if number < 1024 ** (power + 1):
            return f"{number / 1024**power:.{min(power, 1)}f} {unit}"
    return f"{number / 1024**4:.1f} TiB"
