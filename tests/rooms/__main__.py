"""`python -m tests.rooms`: see the package."""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path

from tests import rooms
from tests.rooms.graph import House, circles, floors


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.rooms", description=rooms.__doc__)
    parser.add_argument("--tree", type=Path, default=Path(__file__).parents[2], help="a checkout; this one if left out")
    house = House(parser.parse_args().tree)
    height = floors(house.rooms)
    for floor in range(max(height.values()), -1, -1):
        names = ", ".join(room for room in height if height[room] == floor)
        print(textwrap.fill(names, 80, initial_indent=f"{floor:3}  ", subsequent_indent="     "))
    arrows = sum(map(len, house.rooms.values()))
    print(f"{len(height)} rooms on {len(set(height.values()))} floors, {arrows} arrows between them")
    print(f"{len(house.loose)} modules at the root of the engine")
    for what, found in (("rooms", circles(house.rooms)), ("modules", circles(house.modules))):
        print(f"{len(found)} circles of {what}")
        for circle in found:
            print(textwrap.fill(" <-> ".join(circle), 80, initial_indent="  ", subsequent_indent="    "))


if __name__ == "__main__":
    main()
