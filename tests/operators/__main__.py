"""`python -m tests.operators` says where operators run; `--write` keeps it for `sardonyx inspect --operators`."""

from __future__ import annotations

import argparse

from sardonyx.cli.operators import DATA, MARKDOWN, markdown, text

from .placement import table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {DATA.name}, and {MARKDOWN} from it")
    arguments = parser.parse_args()
    rows = table()
    if arguments.write:
        DATA.write_text(text(rows), encoding="utf-8")
        MARKDOWN.write_text(markdown(rows), encoding="utf-8")
    else:
        print(markdown(rows))


if __name__ == "__main__":
    main()
