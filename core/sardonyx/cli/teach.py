"""teach a model classes of your own, by examples in folders

The folder has a folder for each class, whose name is the label: photos/cat/1.jpg, photos/dog/2.jpg. An encoder in ONNX
makes an embedding of each example, and stays as it is; a linear head learns to tell them apart, in seconds. A quarter
of each class is held out: it says when to stop, and how often the result is right.

Pictures become the encoder's input as its metadata says, or --image: --image x:normalize=imagenet,resize=224,fit=cover,
x being the input's name. Sound (.wav) and arrays (.npy, .npz, .json) become the input as for `sardonyx run`, and texts
(.txt) by --tokenizer tokenizer.json. --features names the tensor that is the embedding, where the model has no output
that is one; of a classifier what goes into its last layer is taken.

The result is one plain ONNX file: encoder, head and softmax, with labels in its metadata and, for pictures, how they
become the input, so that sardonyx.vision.Classifier knows all of it. --bundle writes the same for pages and boards.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sardonyx.cli.screen import Screen, progress, show
from sardonyx.cli.text import count, elided
from sardonyx.cli.writing import refuse_unwritable, writing
from sardonyx.common.units import duration

if TYPE_CHECKING:
    from sardonyx.model.ir import Model

TEXT = ".txt"
ARRAYS = (".npy", ".npz", ".json", ".wav")
WIDEST = 8
"""Classes of a confusion matrix that is drawn; of more the pairs that are mistaken are listed."""
LISTED = 10
LABEL = 16
"""Characters of a label in a row."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from sardonyx.cli.devices import add_provider
    from sardonyx.cli.feeds import add_seed

    parser.add_argument("model", metavar="ENCODER", help="an .onnx file")
    parser.add_argument("examples", type=Path, metavar="DIR", help="a folder with a folder for each class")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="where the result goes, ENCODER.taught.onnx")
    parser.add_argument("--bundle", type=Path, metavar="FILE", help="the same for pages and boards, a .sdx file")
    parser.add_argument("--image", metavar="NAME:normalize=imagenet,...", help="how pictures become the input")
    parser.add_argument("--tokenizer", type=Path, metavar="FILE", help="a tokenizer.json, for texts")
    parser.add_argument("--features", default="", metavar="NAME", help="the tensor that is the embedding")
    parser.add_argument("--held-out", type=float, default=0.25, metavar="PART", help="of each class, 0.25 if not given")
    parser.add_argument("--steps", type=int, default=1000, metavar="N", help="steps at most, 1000 if not given")
    add_seed(parser)
    add_provider(parser)


def run(args: argparse.Namespace) -> int:
    show(args, collect(args), render)
    return 0


def collect(args: argparse.Namespace) -> dict[str, Any]:
    """Teach and write; the facts, as `--json` prints them."""
    from sardonyx.cli.calibration import PICTURES
    from sardonyx.cli.devices import chosen
    from sardonyx.cli.feeds import inputs_of
    from sardonyx.cli.images import picture
    from sardonyx.errors import InvalidArgument
    from sardonyx.model.serde.reader import read
    from sardonyx.passes.vision.classification import picture_of
    from sardonyx.training.teach import teach

    output = args.output or Path(args.model).with_suffix(".taught.onnx")
    model = read(args.model)
    if output.exists() and output.samefile(args.model):
        raise InvalidArgument(f"--output {output} is the model itself; give another file")
    refuse_unwritable("--output", output)
    if args.bundle:
        refuse_unwritable("--bundle", args.bundle)
    files = examples_of(args.examples)
    image = picture(args.image) if args.image else picture_of(model.metadata)
    if image is None and (seen := [path for path, _ in files if path.suffix.lower() in PICTURES]):
        (first, *_) = inputs_of(model)
        raise InvalidArgument(
            f"nothing says how {seen[0]} becomes the input: give --image {first.name}:normalize=imagenet, or what else "
            "the encoder was trained with"
        )
    given = [_read(model, path) for path, _ in files]
    with progress("Looking at examples", len(files), hidden=args.json) as step:
        taught = teach(
            model,
            given,
            [label for _, label in files],
            output=args.features,
            image=image,
            tokenizer=args.tokenizer,
            held_out=args.held_out,
            steps=args.steps,
            seed=args.seed,
            providers=chosen(args.provider),
            progress=step,
        )
    with writing("--output", output):
        taught.save(output)
    if args.bundle:
        with writing("--bundle", args.bundle):
            args.bundle.write_bytes(taught.bundle())
    return {
        "model": args.model,
        "labels": taught.labels,
        "learnt": taught.learnt,
        "held_out": taught.held_out,
        "steps": taught.steps,
        "seconds": taught.seconds,
        "accuracy": taught.accuracy,
        "confusion": taught.confusion.tolist(),
        "written": [str(path) for path in (output, args.bundle) if path],
    }


def examples_of(folder: Path) -> list[tuple[Path, str]]:
    """The files of the folders in a folder, with the names of these; hidden ones do not count."""
    from sardonyx.cli.calibration import PICTURES
    from sardonyx.errors import InvalidArgument, NoSuchFile

    if not folder.is_dir():
        raise NoSuchFile(f"{folder} is no folder; give one that has a folder for each class")
    kinds = (*PICTURES, *ARRAYS, TEXT)
    found = []
    for inner in sorted(folder.iterdir()):
        if inner.is_dir() and not inner.name.startswith("."):
            paths = sorted(path for path in inner.rglob("*") if path.suffix.lower() in kinds and path.is_file())
            found += [(path, inner.name) for path in paths if not path.name.startswith(".")]
    if len({label for _, label in found}) < 2:
        raise InvalidArgument(
            f"{folder} has {'no' if not found else 'one'} folder with examples; give two at least, as in "
            f"{folder / 'cat' / '1.jpg'} and {folder / 'dog' / '2.jpg'}"
        )
    return found


def _read(model: Model, path: Path) -> Any:
    """An example as `teach` takes it: the path of a picture, a text, or arrays by input name."""
    from sardonyx.cli.feeds import inputs_of
    from sardonyx.cli.files import Reader, archive, fit
    from sardonyx.errors import InvalidArgument

    suffix = path.suffix.lower()
    if suffix == TEXT:
        return path.read_text("utf-8")
    if suffix not in ARRAYS:
        return path
    inputs = inputs_of(model)
    if suffix in (".npz", ".json") and isinstance(found := archive(path), dict):
        types = {value.name: value.type for value in inputs}
        return {name: fit(name, types.get(name), array, str(path)) for name, array in found.items()}
    if len(inputs) != 1:
        names = ", ".join(value.name for value in inputs)
        raise InvalidArgument(f"{path}: the model has the inputs {names}; give .npz files with an array for each")
    return {inputs[0].name: Reader().read(inputs[0], path)}


def render(screen: Screen, data: dict[str, Any]) -> None:
    screen.heading(f"{Path(data['model']).name}, taught {count(len(data['labels']), 'class')}")
    right = sum(row[number] for number, row in enumerate(data["confusion"]))
    judged = data["held_out"] or data["learnt"]
    screen.facts(
        {
            "Examples": f"{data['learnt']} to learn from, {data['held_out']} held out",
            "Right": f"{right} of {judged}, {data['accuracy']:.1%}"
            + ("" if data["held_out"] else ", which it has seen"),
            "Learnt in": f"{count(data['steps'], 'step')}, {duration(data['seconds'])} with the encoder",
        }
    )
    labels = [elided(label, LABEL) for label in data["labels"]]
    if len(labels) <= WIDEST:
        screen.heading("What it took each class for")
        rows = [[label, *map(str, row)] for label, row in zip(labels, data["confusion"], strict=True)]
        screen.table(["", *(f">{label}" for label in labels)], rows)
    else:
        _list_mistakes(screen, labels, data["confusion"])
    screen.heading("Written")
    for path in data["written"]:
        screen.line(path)


def _list_mistakes(screen: Screen, labels: Sequence[str], confusion: Sequence[Sequence[int]]) -> None:
    pairs = [
        (number, labels[true], labels[predicted])
        for true, row in enumerate(confusion)
        for predicted, number in enumerate(row)
        if number and true != predicted
    ]
    if not pairs:
        return
    pairs.sort(reverse=True)
    screen.heading("What it mistook")
    screen.table(["Class", "Taken for", ">Times"], [[true, taken, str(n)] for n, true, taken in pairs[:LISTED]])
    if len(pairs) > LISTED:
        screen.line(f"and {count(len(pairs) - LISTED, 'pair')} more, which --json lists", quiet=True)
