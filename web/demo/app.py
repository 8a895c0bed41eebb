"""Serves the demonstration: its pages, the page runtime, Pyodide, and small models as bundles.

`make web` starts it; by hand, with the extra `serve` installed:

    python web/demo/app.py [--port 8000] [--folder build/demo] [--pyodide DIR]

What the pages need is made at the start and kept in the folder. A page of any other server does with the same files
and the same headers. A page here is a template of Flask's: frame.html has what all have in common, and a new one is its
own .html file and a line in `PAGES`. At `documents/` the repository's documents and sources are pages, too, since they
have no other address: the links to them stand at the foot of each page.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import warnings
from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import cast

from sardonyx.api.bundling import bundle_of
from sardonyx.common import extras
from sardonyx.common.atomic import replacing
from sardonyx.demo import MODEL, assets
from sardonyx.errors import SardonyxError
from sardonyx.model.serde.writer import write
from sardonyx.passes.vision.detection import Detection, with_detection
from sardonyx.plans.plan_cache import Source
from sardonyx.training.bundling import training_bundle
from sardonyx.web import folder as web_folder
from sardonyx.web.distribution import LOCK, VERSION

try:
    from flask import Flask, Response, abort, redirect, render_template, request, send_from_directory
    from jinja2 import StrictUndefined
except ModuleNotFoundError:
    sys.exit(extras.missing("flask"))

HERE = Path(__file__).resolve().parent
if not __package__:  # started as a script
    sys.path.insert(0, str(HERE.parents[1]))

from web.demo import documents  # noqa: E402
from web.demo.demos import DEMOS  # noqa: E402
from web.demo.pictures import CLASSES, network  # noqa: E402

FOLDER = HERE.parents[1] / "build" / "demo"
SHAPES = HERE.parents[1] / "examples" / "detector" / "shapes.onnx"
SURE = 0.45
"""What the page with the camera shows, 0..1."""
TARGETS = ("wasm", "webgpu")
PAGES = {
    "index": "Digits and models",
    "objects": "What the camera sees",
    "teach": "Teach it",
    "reading": "Read a picture",
    "meaning": "Find by meaning",
    "chat": "Chat",
    "voice": "Voice or not",
}
"""By the names of their files, the titles of the pages, in the order of their links."""
PLACES = ("sardonyx", "pyodide", "models", DEMOS)
"""The parts of the folder that are served, each at its name."""
TYPES = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".txt": "text/plain",
    ".wasm": "application/wasm",
}
"""Of the files; all others are bytes. The system's own table may be wrong, and browsers refuse modules of that type."""
OWN = (".css", ".js", ".svg", ".txt")
"""Of what lies beside the pages and is served."""
POLICY = {
    "default-src": "'none'",
    "script-src": "'self' 'wasm-unsafe-eval'",
    "worker-src": "'self'",
    "connect-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' blob:",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}
IMPORTS = re.compile(r'<script type="importmap">(.*?)</script>', re.DOTALL)
HEADERS = {
    # these three let the page have shared memory, and so threads
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # kept by the browser, and asked for again by its ETag
}


def prepare(folder: Path, pyodide: Path | None = None) -> None:
    """Put into `folder` what the page loads: `sardonyx/`, `pyodide/` and `models/`.

    `pyodide` is a distribution to take; else the one that is there from the last time, else one is downloaded.
    Raises SardonyxError or ValueError where there is none: then the page runs bundles, and cannot compile models.
    """
    write_models(folder / "models")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one that has no micropip is good enough for this page
            web_folder.write(folder, pyodide or _earlier(folder))
    except (SardonyxError, ValueError):
        web_folder.write(folder, compiler=False)
        raise


def write_models(models: Path) -> None:
    """Put the digits model, and the bundles of the pages of digits, of shapes and of teaching, into a folder."""
    model = (assets() / MODEL).read_bytes()
    models.mkdir(parents=True, exist_ok=True)
    _write(models / MODEL, [model])
    shapes = write(with_detection(Source(SHAPES).read(), Detection(threshold=SURE, across=True)))
    for target in TARGETS:
        parts = bundle_of(Source(model), [target], [{"image": [1, 1, 28, 28]}], compress=True)
        _write(models / f"digits.{target}.sdx", parts)
        _write(models / f"shapes.{target}.sdx", bundle_of(Source(shapes), [target], compress=True))
    for name, source, classes in (("drawings", model, CLASSES), ("pictures", network(), None)):
        parts = training_bundle(Source(source), ["wasm"], "head", classes=classes, compress=True)
        _write(models / f"{name}.sdx", parts)


def _write(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    with replacing(path) as file:  # a page may be reading the old one
        file.writelines(parts)


def _earlier(folder: Path) -> Path | None:
    """The Pyodide that an earlier start left whole, if it is the one that would be downloaded."""
    if not (folder / "sardonyx" / "engine.json").is_file():  # which is written last
        return None
    lock = json.loads((folder / "pyodide" / LOCK).read_bytes())
    return folder / "pyodide" if lock["info"]["version"] == VERSION else None


def create_app(folder: Path) -> Flask:
    """The site whose parts `prepare` put into `folder`."""
    app = Flask(__name__, static_folder=None, template_folder=str(HERE))
    app.jinja_options = {
        "trim_blocks": True,
        "lstrip_blocks": True,
        "keep_trailing_newline": True,
        "undefined": StrictUndefined,
    }

    @app.get("/", defaults={"name": "index"})
    @app.get("/<any(" + ", ".join(PAGES) + "):name>.html")
    def page(name: str) -> Response:
        return rendered(name)

    @app.get("/<name>")
    def beside(name: str) -> Response:
        return answer(HERE, name if Path(name).suffix in OWN else "")

    @app.get("/<any(" + ", ".join(PLACES) + "):place>/<path:name>")
    def part(place: str, name: str) -> Response:
        return answer(folder / place, name)

    @app.get("/documents/", defaults={"path": ""})
    @app.get("/documents/<path:path>")
    def document(path: str) -> Response:
        if documents.is_folder(path) and path and not path.endswith("/"):
            return cast(Response, redirect(f"/documents/{path}/", 308))
        text = documents.page(path)
        return Response(text, mimetype="text/html") if text is not None else abort(404)

    @app.after_request
    def complete(response: Response) -> Response:
        response.headers.update(HEADERS)
        response.headers.setdefault("Content-Security-Policy", policy())
        return response

    return app


def rendered(name: str) -> Response:
    """One of the `PAGES`, with its ETag and its policy."""
    text = render_template(f"{name}.html", page=name, pages=PAGES)
    response = Response(text, mimetype="text/html")
    response.headers["Content-Security-Policy"] = policy(text)
    response.add_etag()
    return cast(Response, response.make_conditional(request))


def policy(page: str = "") -> str:
    """The policy of a page, by which the only script inside of it is its import map, if it has one.

    >>> policy('<script type="importmap">{}</script>').split("; ")[1]
    "script-src 'self' 'wasm-unsafe-eval' 'sha256-RBNvo1WzZ4oRRq0W9+hknpT7T8If536DEMBg9hyq/4o='"
    """
    digests = [b64encode(sha256(script.encode()).digest()).decode() for script in IMPORTS.findall(page)]
    scripts = " ".join([POLICY["script-src"], *(f"'sha256-{digest}'" for digest in digests)])
    return "; ".join(f"{name} {value}" for name, value in {**POLICY, "script-src": scripts}.items())


def answer(folder: Path, name: str) -> Response:
    """A file with its type and its ETag; 404 where there is none."""
    kind = TYPES.get(Path(name).suffix, "application/octet-stream")
    return send_from_directory(folder.resolve(), name, mimetype=kind, etag=True, conditional=True)


def serve(app: Flask, port: int) -> None:
    """Answer requests of this machine until the process is ended; by waitress where it is installed."""
    try:
        from waitress import serve as run
    except ImportError:
        app.run("127.0.0.1", port, threaded=True)
    else:
        run(app, host="127.0.0.1", port=port, threads=8, _quiet=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve Sardonyx's demonstration to the browsers of this machine.")
    parser.add_argument("--port", type=int, default=8000, help="of 127.0.0.1 (8000)")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where what the page needs is kept (build/demo)")
    parser.add_argument("--pyodide", type=Path, metavar="DIR", help="take this Pyodide instead of downloading one")
    args = parser.parse_args()
    try:
        prepare(args.folder, args.pyodide)
    except (SardonyxError, ValueError) as error:
        print(f"Dropped models cannot be compiled: {error}", file=sys.stderr)
    print(f"Sardonyx {version('sardonyx')} at http://127.0.0.1:{args.port} (Ctrl-C ends it)", flush=True)
    try:
        serve(create_app(args.folder), args.port)
    except OSError as error:
        sys.exit(f"Port {args.port} cannot be had ({error}); give another one: --port 8001")


if __name__ == "__main__":
    main()
