"""compile a model for pages: one file that runs without Python

The bundle holds plans, WebGPU shaders or WebAssembly, and weights; web/sardonyx/runtime.js runs it in a browser, and
InferenceSession does so here. Sizes that the model leaves open stay open, with plans for 0, 1 and more. --size fixes
them, batch=1, says what they typically are, sequence=?16, or how they go together, T=P+S; --shape does so for an input,
image=1x3x224x224 or tokens=1x?16, which may be given several shapes: the bundle takes them all. Where the elements of
an input decide on shapes or branches, --value gives typical ones, --value rate=16000.

--image NAME:mean=..,std=..,resize=224,fit=cover has an input be a picture as it comes, bytes of any size, as canvases
and Pillow give them; it is cut, resized (bilinear, with antialiasing, as Pillow does, or with antialias=no without, as
OpenCV does) and normalized in the bundle, so that page, Python and board compute the same. fit is stretch, cover (the
middle fills all), contain (with bars, of level pad) or corner (with bars to the right and below); without resize the
model's own size counts. mean and std are as for `sardonyx run`, or normalize=imagenet. Pixels are RGBA, the last being
ignored, or RGB with pixels=rgb; order=bgr is for models that want blue first.

--detect has a detector give boxes in pixels of that picture, with scores and labels; decoding, the choice of the best
and the way back through the letterbox are in the bundle. YOLO, NanoDet, SSD, DETR and RT-DETR are known by what they
give, or told, --detect head=yolox; --detect threshold=0.4,overlap=0.5,classes=person,dog,labels=coco.txt,most=50 says
what is kept. Without --image the picture is what such models are trained with, a letterbox for YOLO.

--classify has a classifier give scores and labels of the surest classes, --classify most=3,labels=names.txt;
--segment has a network that makes maps of classes give mask, the class of each of the picture's pixels, --segment
threshold=0.5 where there is one map. How their pictures are normalized is said by --image, but for ultralytics'
classifiers, which tell it. Labels go with the bundle; a page gets them from labelsOf in vision.js.

Weights are most of what a page loads. --weights float16 rounds them to half the bytes, and results to about a
thousandth; int8, with a scale for each channel, to a quarter and a hundredth, which not every model bears; int4, with a
scale for 32 elements, to a seventh and a tenth: products by matrices and tables of rows alone, others being int8, for
language models of hundreds of millions of weights. How far the outputs are from the model's is told, for random inputs.

--caches has keys and values of a decoder, inputs such as past_key_values.0.key with outputs such as present.0.key, stay
on the device from token to token: InferenceSession.caches, and session.caches in a page, run the bundle then.

--train has a page train the model, web/sardonyx/training.js: all layers, the head (the last layer with weights), or
parameters by name. The bundle has loss, gradients and an optimizer, and each parameter once; load and InferenceSession
run it as any other. --classes gives the model a new last layer for so many classes.

--site DIR compiles all models in a folder of a web page, each to a bundle beside it, model.onnx.sdx, and writes the
index by which pages written for onnxruntime-web find them, sardonyx.json. The exit code is 1 where a model cannot be.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from sardonyx.cli.screen import Screen, show
from sardonyx.cli.writing import refuse_unwritable, writing
from sardonyx.common.units import nbytes

if TYPE_CHECKING:
    from sardonyx.api.open_inputs import Typical
    from sardonyx.model.ir import Model, Value
    from sardonyx.model.ir.types import DimLike
    from sardonyx.plans.bundle import Bundle
    from sardonyx.plans.plan_cache import Source

TARGETS = ("wasm", "webgpu")
TRAINING = ("loss", "optimizer", "classes")
"""The options of `--train`."""
SHOWN = 2
"""Parameters that are shown."""
REFUSALS = 3
"""Sizes that the bundle does not take and that are shown."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shape = "sizes of an input, ? before those that stay open; once more for another set of shapes"
    image = "have an input be a picture: mean=, std= or normalize=, resize=, fit=, pad=, antialias=, order=, pixels="
    detect = "give boxes in the picture: head=, threshold=, overlap=, most=, across=, labels=, classes=, priors="
    size = "sizes of named dimensions: a number, ?16 for an open one that is typically 16, or P+S"
    parser.add_argument("model", metavar="MODEL", nargs="?", help="an .onnx file")
    # argparse takes `--out`, too, the beginning of no other option
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="where the bundle goes, MODEL.sdx beside the model if not given"
    )
    parser.add_argument("--site", type=Path, metavar="DIR", help="compile all models in a folder instead")
    parser.add_argument(
        "--target", default="wasm", metavar="NAME,...", help="wasm, webgpu or both, the preferred one first (wasm)"
    )
    parser.add_argument("--shape", action="append", metavar="NAME=1x3x224x224", help=shape)
    parser.add_argument("--size", action="append", metavar="NAME=?16,...", help=size)
    parser.add_argument("--value", action="append", metavar="NAME=1", help="typical elements of an input, a list in []")
    parser.add_argument("--image", action="append", metavar="NAME:resize=224,...", help=image)
    parser.add_argument("--detect", nargs="?", const="", metavar="head=yolov8,...", help=detect)
    classify = "give the surest classes of the picture: most=, softmax=, labels="
    parser.add_argument("--classify", nargs="?", const="", metavar="most=5,...", help=classify)
    segment = "give the class of each pixel of the picture: threshold=, sigmoid=, output=, labels="
    parser.add_argument("--segment", nargs="?", const="", metavar="threshold=0.5,...", help=segment)
    parser.add_argument(
        "--weights",
        default="float32",
        choices=["float32", "float16", "int8", "int4"],
        help="store large weights in half, a quarter or a seventh of the bytes, which changes results (float32)",
    )
    parser.add_argument("--train", metavar="all|head|NAME,...", help="have a page train these layers or parameters")
    parser.add_argument(
        "--loss", choices=["cross-entropy", "mse", "bce", "l1"], help="what --train makes small (cross-entropy)"
    )
    parser.add_argument("--optimizer", choices=["adamw", "sgd"], help="how --train makes steps (adamw)")
    parser.add_argument("--classes", type=int, metavar="N", help="for --train, a new last layer for so many classes")
    parser.add_argument("--caches", action="store_true", help="keep keys and values of a decoder on the device")
    parser.add_argument(
        "--no-compress",
        dest="compress",
        action="store_false",
        help="leave code and weights as they are: a larger file, which Python maps instead of inflating it",
    )


def run(args: argparse.Namespace) -> int:
    from sardonyx.errors import InvalidArgument

    if args.site is None:
        if args.model is None:
            raise InvalidArgument("name a model, or a folder of models, --site DIR")
        args.output = args.output or Path(args.model).with_suffix(".sdx")
        show(args, collect(args), render)
        return 0
    from sardonyx.cli.sights import asked

    if args.model or args.output or args.shape or args.value or args.image or args.train or asked(args):
        alone = "MODEL, --output, --shape, --value, --image, --train, --detect, --classify and --segment"
        raise InvalidArgument(f"--site compiles all models in a folder: leave out {alone}")
    from sardonyx.cli import site

    found = site.collect(args.site, targets_of(args.target), sizes_of(args.size or ()), args)
    show(args, found, site.render)
    return 1 if found["failed"] else 0


def targets_of(text: str) -> list[str]:
    """The targets that `--target` names, each once; InvalidArgument where there is no such.

    >>> targets_of("webgpu,wasm")
    ['webgpu', 'wasm']
    """
    from sardonyx.errors import InvalidArgument

    targets = list(dict.fromkeys(text.split(",")))
    if unknown := set(targets) - {*TARGETS}:
        raise InvalidArgument(f"--target {text}: there is no {min(unknown)!r}, only {' and '.join(TARGETS)}")
    return targets


def collect(args: argparse.Namespace) -> dict[str, Any]:
    """Compile and write the bundle; the facts, as `--json` prints them."""
    from sardonyx.api.bundling import bundle_of
    from sardonyx.cli.feeds import inputs_of
    from sardonyx.cli.sights import asked, rewritten
    from sardonyx.common.atomic import replacing
    from sardonyx.errors import InvalidArgument
    from sardonyx.model.serde.writer import write
    from sardonyx.passes.vision.labels import labels_of
    from sardonyx.plans.bundle import Bundle
    from sardonyx.plans.plan_cache import Source

    targets = targets_of(args.target)
    if args.train is None and (option := next((each for each in TRAINING if getattr(args, each) is not None), None)):
        raise InvalidArgument(f"--{option} is for --train all, --train head or --train NAME: say which")
    if args.output.exists() and os.path.samefile(args.model, args.output):
        raise InvalidArgument(f"--output {args.output} is the model itself; give another file")
    refuse_unwritable("--output", args.output)
    model: str | bytes = args.model
    source = Source(model)
    labels: list[str] = []
    if asked(args) or args.image:
        seeing = rewritten(args, source.read())
        labels = labels_of(seeing.metadata) if asked(args) else []
        model = write(seeing)
        source = Source(model)
    buckets = buckets_of(inputs_of(source.read()), args.shape or (), args.value or ())
    sizes = sizes_of(args.size or ())
    if args.train is None:
        caches = caches_of(source.read()) if args.caches else {}
        parts = bundle_of(
            source, targets, buckets, sizes=sizes, compress=args.compress, weights=args.weights, caches=caches
        )
    else:
        parts = trained(args, source, targets, sizes)
    with writing("--output", args.output), replacing(args.output) as file:
        file.writelines(parts)
    told = facts(Bundle(args.output.read_bytes()))
    if args.weights != "float32":
        from sardonyx.cli.rounding import difference

        told["rounded"] = difference(source.read(), model, args.output, buckets[0])
    if labels:
        told["labels"] = labels
    return {"model": args.model, "output": str(args.output), "stored": args.weights, **told}


def trained(
    args: argparse.Namespace, source: Source, targets: Sequence[str], sizes: Mapping[str, str]
) -> Iterator[bytes | memoryview]:
    """The parts of a bundle that a page trains."""
    from sardonyx.errors import InvalidArgument
    from sardonyx.training.bundling import training_bundle

    others = {
        "--shape": args.shape,
        "--value": args.value,
        "--weights": args.weights != "float32",
        "--caches": args.caches,
    }
    if given := [name for name, value in others.items() if value]:
        raise InvalidArgument(f"--train keeps parameters as they are, for open sizes: leave out {given[0]}")
    return training_bundle(
        source,
        targets,
        args.train,
        args.loss or "cross-entropy",
        args.optimizer or "adamw",
        classes=args.classes,
        sizes=sizes,
        compress=args.compress,
    )


def caches_of(model: Model) -> dict[str, str]:
    """The inputs of a decoder that outputs add to; InvalidArgument where there are none."""
    from sardonyx.api.caches import pairs
    from sardonyx.api.feeds import node_arg
    from sardonyx.errors import InvalidArgument

    graph = model.graph
    found = pairs([node_arg(value) for value in graph.inputs], [node_arg(value) for value in graph.outputs])
    if not found:
        names = ", ".join(value.name for value in graph.inputs[:REFUSALS])
        raise InvalidArgument(f"--caches: no input is a cache, as past_key_values.0.key is of present.0.key: {names}")
    return found


def buckets_of(inputs: Sequence[Value], shapes: Sequence[str], values: Sequence[str]) -> list[dict[str, Typical]]:
    """The sets of shapes: the nth of an input is in the nth set, and in those after it if it is the last."""
    from sardonyx.cli.feeds import named
    from sardonyx.errors import InvalidArgument

    names = [value.name for value in inputs]
    dims: dict[str, list[int | str]] = {size: [] for value in inputs for size in value.shape or () if _is_name(size)}
    sets_by_name: dict[str, list[Typical]] = {}
    for text in shapes:
        dim, _, size = text.partition("=")
        if dim in dims and dim not in names:
            dims[dim].append(_size(size, text))
            continue
        if size and dims and dim not in names:
            inputs_and_sizes = f"inputs {', '.join(names)}, and sizes {', '.join(dims)}"
            raise InvalidArgument(f"--shape {text}: there is no {dim!r}; there are {inputs_and_sizes}")
        for name, sizes in named("--shape", [text], names).items():
            sets_by_name.setdefault(name, []).append(
                [_size(size, text) for size in sizes.replace(",", "x").split("x") if size]
            )
    for value in inputs:
        sets = max((len(dims.get(size, ())) for size in value.shape or () if _is_name(size)), default=0)
        if sets and value.name not in sets_by_name:
            sets_by_name[value.name] = [[_of_dim(size, dims, k) for size in value.shape or ()] for k in range(sets)]
    for text in values:
        for name, elements in named("--value", [text], names).items():
            try:
                sets_by_name.setdefault(name, []).append(_array(json.loads(elements)))
            except (ValueError, RecursionError):
                raise InvalidArgument(f"--value {text}: write a number, or a list of numbers in []") from None
    count = max(map(len, sets_by_name.values()), default=1)
    return [{name: sets[min(k, len(sets) - 1)] for name, sets in sets_by_name.items()} for k in range(count)]


def sizes_of(texts: Sequence[str]) -> dict[str, str]:
    """Sizes by name, as they are written.

    >>> sizes_of(["P=?64, S=1", "T=P+S"])
    {'P': '?64', 'S': '1', 'T': 'P+S'}
    """
    from sardonyx.errors import InvalidArgument

    sizes = {}
    for text in texts:
        for part in text.split(","):
            name, equals, size = (each.strip() for each in part.partition("="))
            if not (name and equals and size):
                raise InvalidArgument(f"--size {text}: write names and sizes, as in --size batch=1,sequence=?16")
            sizes[name] = size
    return sizes


def _is_name(size: DimLike) -> TypeGuard[str]:
    return isinstance(size, str)


def _of_dim(size: DimLike, dims: Mapping[str, Sequence[int | str]], number: int) -> int | str:
    """A size in the set of this number: as the model declares it, or `--shape` its name, else open."""
    if isinstance(size, int):
        return size
    sizes = dims.get(size, ()) if size else ()
    return sizes[min(number, len(sizes) - 1)] if sizes else "?"


def _array(elements: Any) -> Any:
    import numpy as np

    return np.asarray(elements)


def _size(text: str, where: str) -> int | str:
    from sardonyx.errors import InvalidArgument

    if not (text.removeprefix("?") or "1").isdecimal():
        raise InvalidArgument(f"--shape {where}: write sizes with x between them, as in 1x3x224x224 or 1x?16")
    return text if text.startswith("?") else int(text)


def facts(bundle: Bundle) -> dict[str, Any]:
    """What is in a bundle, in bytes, and what it takes; `plan` is what one more plan adds to the download."""
    from sardonyx.plans.bundle.deflated import deflate

    manifest = bundle.manifest
    sizes = {title: section.nbytes for title, section in bundle.sections.items()}
    weights = sum(sizes[title] for title in manifest["weights"])
    training = manifest.get("training")
    file = training["file"]["sections"] if training else []
    plans = [plan for told in manifest["targets"].values() for plan in told["plans"]]
    return {
        "bytes": {
            "plans": bundle.head,
            "plan": sum(len(deflate(json.dumps(plan).encode(), 1)) for plan in plans) // len(plans),
            "code": {title: size for title, size in sizes.items() if title not in {*manifest["weights"], *file}},
            "weights": weights,
            **({"file": sum(sizes[title] for title in file)} if training else {}),
        },
        **({} if training is None else {"training": _trained(manifest, training)}),
        "targets": {
            target: {
                "codes": len(told["codes"]),
                "plans": len(told["plans"]),
                "accepts": list(dict.fromkeys(plan["accepts"] for plan in told["plans"])),
                "refuses": told["refuses"],
            }
            for target, told in manifest["targets"].items()
        },
    }


def _trained(manifest: Mapping[str, Any], training: Mapping[str, Any]) -> dict[str, Any]:
    """What is trained: names, elements, loss, optimizer, and what a step is fed."""
    shapes = [manifest["weights"][training["parameters"][name]][1] for name in training["trainable"]]
    inputs = [name for name, _ in manifest["model"][0]]
    labels = [name for name, _ in training["parts"]["evaluation"]["model"][0] if name not in training["features"]]
    return {
        "parameters": training["trainable"],
        "elements": sum(prod(shape) for shape in shapes),
        "loss": training["loss"],
        "optimizer": training["optimizer"],
        "feeds": list(dict.fromkeys([*inputs, *labels])),
    }


def render(screen: Screen, data: dict[str, Any]) -> None:
    sizes = data["bytes"]
    screen.heading(f"{Path(data['model']).name}, compiled")
    counts = ", ".join(f"{told['plans']} for {target}" for target, told in data["targets"].items())
    rows = [[f"Plans, {counts}", nbytes(sizes["plans"])]]
    rows += [[f"Code, {title}", nbytes(size)] for title, size in sizes["code"].items()]
    weights = "Weights" if data["stored"] == "float32" else f"Weights, {data['stored']}"
    rows += [[weights, nbytes(sizes["weights"])]]
    if "file" in sizes:
        rows += [["Rest of the ONNX file", nbytes(sizes["file"])]]
    screen.table(["", ">Size"], rows)
    if "rounded" in data:
        from sardonyx.cli import rounding

        screen.line("")
        screen.line(rounding.told(data["rounded"]))
    screen.heading("Takes")
    for line in dict.fromkeys(line for told in data["targets"].values() for line in told["accepts"]):
        screen.line(line)
    if training := data.get("training"):
        screen.heading("Trains")
        names, count = training["parameters"], training["elements"]
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        screen.line(
            f"{', '.join(names[:SHOWN])}{more}: {count:,} numbers, by {training['loss']} and {training['optimizer']}"
        )
        screen.line(f"trainStep({{ {', '.join(training['feeds'])} }})", quiet=True)
    if refused := list(dict.fromkeys(line for told in data["targets"].values() for line in told["refuses"])):
        screen.heading("Does not take")
        for line in refused[:REFUSALS]:
            screen.line(line)
        if len(refused) > REFUSALS:
            screen.line(f"and {len(refused) - REFUSALS} more, which --json lists", quiet=True)
    screen.heading("Written")
    screen.line(data["output"])
