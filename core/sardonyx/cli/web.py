"""put what web pages need into a folder: the page runtime, and Pyodide with this package

Any web server can serve the folder. `sardonyx/runtime.js` runs bundles, which `sardonyx compile` makes;
`sardonyx/compile.js` compiles models in the page, in a Pyodide that is loaded once:

  import { load } from "./sardonyx/runtime.js";
  import { compile } from "./sardonyx/compile.js";

--serve serves a folder while pages are developed: with the headers that threads want, with the page runtime, and with a
bundle of every model, net.onnx.sdx, compiled when a page asks for it the first time.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from sardonyx.cli.screen import Screen, show
from sardonyx.cli.writing import refuse_unwritable
from sardonyx.common.units import nbytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", type=Path, nargs="?", help="the folder, which is made if need be")
    parser.add_argument("--pyodide", metavar="DIR", type=Path, help="take this Pyodide instead of downloading one")
    parser.add_argument("--sources", action="store_true", help="Python without bytecode, which starts slower")
    parser.add_argument("--bundles-only", action="store_true", help="the page runtime alone, without Pyodide")
    parser.add_argument("--serve", action="store_true", help="serve the folder, by default this one, to pages")
    parser.add_argument("--port", type=int, default=8000, metavar="N", help="where --serve listens (%(default)s)")
    parser.add_argument("--target", default="wasm", metavar="NAME,...", help="what --serve compiles for (wasm)")
    parser.add_argument("--size", action="append", metavar="NAME=?16,...", help="sizes for --serve, as for compile")
    parser.set_defaults(compress=False, weights="float32")


def run(args: argparse.Namespace) -> None:
    if args.serve:
        serve(args)
        return
    from sardonyx.errors import InvalidArgument
    from sardonyx.web.folder import write

    if args.folder is None:
        raise InvalidArgument("name the folder, DIR, or serve this one, --serve")
    refuse_unwritable("the folder", args.folder, folder=True)
    sizes = write(args.folder, args.pyodide, compiler=not args.bundles_only, bytecode=not args.sources)
    show(args, {"folder": str(args.folder), "files": sizes}, render)


def serve(args: argparse.Namespace) -> None:
    from sardonyx.cli.compile import sizes_of, targets_of
    from sardonyx.cli.serving import Server
    from sardonyx.errors import InvalidArgument

    folder = args.folder or Path()
    if not folder.is_dir():
        raise InvalidArgument(f"--serve {folder}: there is no such folder")
    with Server(folder, args, targets_of(args.target), sizes_of(args.size or ())) as server:
        print(f"{folder} is at {server.address}; Ctrl+C ends this", flush=True)
        server.serve_forever()


def render(screen: Screen, data: dict[str, Any]) -> None:
    screen.heading(f"For pages, in {data['folder']}")
    screen.table(["File", ">Size"], [[path, nbytes(size)] for path, size in data["files"].items()])
