"""All models of a page's folder, compiled beside themselves, and the index by which pages find them.

`models/net.onnx` becomes `models/net.onnx.sdx`, and `sardonyx.json` in the folder names it by the digest of the model:

    {"made": "...", "bundles": {"<SHA-256 of net.onnx>": "models/net.onnx.sdx"}}

What the same release made of the same model with the same options is left as it is.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

from sardonyx.cli.screen import Screen
from sardonyx.cli.text import count
from sardonyx.common.units import nbytes

INDEX = "sardonyx.json"
ENDING = ".sdx"


def collect(folder: Path, targets: list[str], sizes: dict[str, str], args: argparse.Namespace) -> dict[str, Any]:
    """Compile the models of a folder; the facts, as `--json` prints them: `failed` has those that cannot be.

    `sizes` are those of named dimensions, where models have them.
    """
    from sardonyx.cli.writing import writing
    from sardonyx.common.atomic import replacing
    from sardonyx.errors import InvalidArgument, SardonyxError
    from sardonyx.version import __version__

    models = sorted(folder.rglob("*.onnx"))
    if not models:
        raise InvalidArgument(f"--site {folder}: there is no .onnx file in it")
    made = repr((__version__, targets, sizes, args.weights, args.compress))
    known = _known(folder / INDEX, made)
    bundles: dict[str, str] = {}
    told: dict[str, Any] = {"site": str(folder), "made": [], "kept": [], "failed": []}
    for model in models:
        name = model.relative_to(folder).as_posix()
        target = model.with_name(model.name + ENDING)
        with model.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if known.get(digest) == name + ENDING and target.is_file():
            told["kept"].append(name)
        else:
            try:
                parts = bundle_parts(model, targets, sizes, args)
            except SardonyxError as error:
                told["failed"].append({"model": name, "reason": str(error)})
                continue
            with writing("--site", target), replacing(target) as bundle:
                bundle.writelines(parts)
            told["made"].append({"model": name, "bytes": target.stat().st_size, "of": model.stat().st_size})
        bundles[digest] = name + ENDING
    index = folder / INDEX
    with writing("--site", index), replacing(index) as file:
        file.write(json.dumps({"made": made, "bundles": bundles}, indent=1).encode())
    return {**told, "index": str(index)}


def _known(index: Path, made: str) -> dict[str, str]:
    """What an earlier run with the same options has listed."""
    try:
        told = json.loads(index.read_text())
        bundles: dict[str, str] = told["bundles"] if told["made"] == made else {}
        return bundles
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def bundle_parts(
    model: Path, targets: list[str], sizes: dict[str, str], args: argparse.Namespace
) -> list[bytes | memoryview]:
    """The bundle of a model, for those of the sizes that it has."""
    from sardonyx.api.bundling import bundle_of
    from sardonyx.cli.feeds import inputs_of
    from sardonyx.plans.plan_cache import Source

    source = Source(model)
    own = {size for value in inputs_of(source.read()) for size in value.shape or ()}
    wanted = {name: size for name, size in sizes.items() if name in own}
    return [*bundle_of(source, targets, sizes=wanted, compress=args.compress, weights=args.weights)]


def render(screen: Screen, data: dict[str, Any]) -> None:
    if data["made"]:
        screen.heading(f"{count(len(data['made']), 'model')} compiled")
        rows = [[each["model"], nbytes(each["of"]), nbytes(each["bytes"])] for each in data["made"]]
        screen.table(["Model", ">Size", ">Compiled"], rows)
    if data["failed"]:
        screen.heading(f"{count(len(data['failed']), 'model')} not compiled")
        for each in data["failed"]:
            screen.line(f"{each['model']}: {each['reason']}")
    if data["kept"]:
        screen.heading(f"{count(len(data['kept']), 'model')} as before")
        screen.line(", ".join(data["kept"]), quiet=True)
    screen.heading("Index")
    screen.line(data["index"])
    screen.line(f'In pages: env.sardonyx.bundles = "{INDEX}"', quiet=True)
