"""put what web pages need into a folder: the page runtime, and Pyodide with this package

Any web server can serve the folder. `sardonyx/runtime.js` runs bundles, which `sardonyx compile` makes;
`sardonyx/compile.js` compiles models in the page, in a Pyodide that is loaded once:

  import { load } from "./sardonyx/runtime.js";
  import { compile } from "./sardonyx/compile.js";
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from sardonyx.cli.screen import Screen, show
from sardonyx.cli.writing import refuse_unwritable
from sardonyx.common.units import nbytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", type=Path, help="the folder, which is made if need be")
    parser.add_argument("--pyodide", metavar="DIR", type=Path, help="take this Pyodide instead of downloading one")
    parser.add_argument("--sources", action="store_true", help="Python without bytecode, which starts slower")
    parser.add_argument("--bundles-only", action="store_true", help="the page runtime alone, without Pyodide")


def run(args: argparse.Namespace) -> None:
    from sardonyx.web.folder import write

    refuse_unwritable("the folder", args.folder, folder=True)
    sizes = write(args.folder, args.pyodide, compiler=not args.bundles_only, bytecode=not args.sources)
    show(args, {"folder": str(args.folder), "files": sizes}, render)


def render(screen: Screen, data: dict[str, Any]) -> None:
    screen.heading(f"For pages, in {data['folder']}")
    screen.table(["File", ">Size"], [[path, nbytes(size)] for path, size in data["files"].items()])
