"""make a model smaller, measure what that costs, and keep within a budget

Weights and activations go into 8 bits (--int8, which needs samples of what the model will see, or --int8 --dynamic,
which does not), weights alone into 4 bits (--int4), or all floats into 16 (--fp16). A quarter of the samples is held
out: on those the result is compared with the model, output by output. Without --calibrate samples are made up, which
says little about real ones.

--budget "agreement>=0.99", "cosine>=0.995" or "snr>=25" keeps as few nodes in float as it takes: all are quantized
first; if that misses the budget, the noise of each node alone is measured, and the most sensitive stay as they are. The
best file so far is always on disk, so that Ctrl+C loses nothing. What misses the budget, or is slower here than the
model, is refused: the exit code is 1, and the file has another name.

Agreement is the share of equal decisions: the largest of the scores of classes, at each position. Cosine and
signal-to-noise (in dB) compare all values. Each is that of the worst output.

--qat trains: roundings pass gradients on, and weights and scales learn to give what the model gives for samples, which
need no labels. It is tried before nodes stay in float, and taken if it helps.

--report FILE.html writes all of it as a page, --report FILE.json as data; it may be given twice.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sardonyx.cli.screen import Screen, progress, show
from sardonyx.cli.text import count, elided
from sardonyx.cli.writing import refuse_unwritable
from sardonyx.common.units import duration, nbytes

if TYPE_CHECKING:
    from sardonyx.model.ir import Model
    from sardonyx.quantization.tuning import Outcome
    from sardonyx.quantization.tuning.samples import Samples
    from sardonyx.quantization.tuning.tuner import Refine

QAT_SAMPLES = 1 << 20
"""Samples of --qat are all taken."""
KEPT = 10
"""Nodes that stayed in float and are shown."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from sardonyx.cli.devices import add_provider

    parser.add_argument("model", metavar="MODEL", help="an .onnx file")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="where the result goes, MODEL.int8.onnx")
    kinds = parser.add_mutually_exclusive_group()
    for kind, text in (
        ("int8", "weights and activations in 8 bits; what is done if nothing else is said"),
        ("int4", "weights of products in 4 bits"),
        ("fp16", "all floats in 16 bits"),
    ):
        kinds.add_argument(f"--{kind}", dest="kind", action="store_const", const=kind, default="int8", help=text)
    parser.add_argument("--dynamic", action="store_true", help="with --int8: ranges of activations from each run")
    _add_calibration(parser)
    parser.add_argument(
        "--budget", action="append", metavar="METRIC>=X", help="agreement>=0.99, cosine>=0.995 or snr>=25"
    )
    parser.add_argument("--format", choices=["qdq", "qoperator"], default="", help="of int8 (qdq) and int4 (qoperator)")
    scales = parser.add_mutually_exclusive_group()
    scales.add_argument("--per-channel", action="store_true", default=True, help="a scale for each channel of weights")
    scales.add_argument("--per-tensor", dest="per_channel", action="store_false", help="one scale for all of them")
    parser.add_argument(
        "--method", choices=["minmax", "entropy", "percentile"], default="minmax", help="how ranges are found (minmax)"
    )
    parser.add_argument(
        "--block-size", type=int, choices=[16, 32, 64, 128, 256], default=32, help="weights to a scale of int4 (32)"
    )
    parser.add_argument("--operators", metavar="TYPE,...", help="quantize no others, as in Conv,MatMul,Gemm")
    parser.add_argument("--exclude", action="extend", nargs="+", metavar="NODE", help="nodes that stay in float")
    parser.add_argument("--bias-correction", action="store_true", help="take the mean error of products from biases")
    parser.add_argument(
        "--smooth", type=float, nargs="?", const=0.5, metavar="ALPHA", help="SmoothQuant, with alpha 0.5 if not given"
    )
    qat = "train weights and scales by these samples, or those of --calibrate, to give what the model gives"
    parser.add_argument("--qat", nargs="?", const="", metavar="DIR|FILE|MODULE:NAME", help=qat)
    parser.add_argument("--qat-steps", type=int, default=300, metavar="N", help="steps of --qat (300)")
    add_provider(parser, "where it is measured; without it on CPU, and on what else this machine has")
    parser.add_argument(
        "--report", type=Path, action="append", metavar="FILE", help="write a page, .html, or data, .json"
    )


def _add_calibration(parser: argparse.ArgumentParser) -> None:
    """The options that say where samples come from, and how pictures become inputs."""
    from sardonyx.cli.feeds import add_seed, add_shape
    from sardonyx.cli.normalization import add_normalization

    text = "a folder of pictures, .npz or .npy files, one such file, or a reader in Python; made up if not given"
    parser.add_argument("--calibrate", metavar="DIR|FILE|MODULE:NAME", help=text)
    parser.add_argument("--samples", type=int, default=128, metavar="N", help="samples at most, 128 if not given")
    image = "how pictures become an input: mean=, std= or normalize=, resize=, fit=, order=, as for sardonyx compile"
    parser.add_argument("--image", action="append", metavar="NAME:resize=224,...", help=image)
    add_normalization(parser)
    add_shape(parser)
    add_seed(parser)


def run(args: argparse.Namespace) -> int:
    outcome = collect(args)
    show(args, outcome.facts, render)
    if outcome.interrupted:
        best = f"{outcome.path} is the best so far" if outcome.path else "nothing is written"
        print(f"sardonyx: interrupted: {best}", file=sys.stderr)
        return 130
    if outcome.refused:
        from sardonyx.cli import fitted

        print(fitted(f"sardonyx: {outcome.refused}"), file=sys.stderr)
        return 1
    return 0


def collect(args: argparse.Namespace) -> Outcome:
    """Quantize and measure, and write result and reports."""
    from sardonyx.cli.calibration import samples_of
    from sardonyx.cli.devices import chosen, states
    from sardonyx.cli.normalization import asked
    from sardonyx.errors import InvalidArgument
    from sardonyx.model.serde.reader import read
    from sardonyx.providers.registry import CPU
    from sardonyx.quantization.tuning import Scheme, report, tune
    from sardonyx.quantization.tuning.budget import budget
    from sardonyx.quantization.tuning.page import SUFFIXES, templates

    kind = args.kind
    if args.dynamic and kind != "int8":
        raise InvalidArgument(f"--dynamic is for --int8, not for --{kind}")
    kind = "dynamic" if args.dynamic else kind
    output = args.output or Path(args.model).with_suffix(f".{kind}.onnx")
    budgets = [budget(text) for text in args.budget or ()]
    operators = tuple(filter(None, (args.operators or "").split(",")))
    scheme = Scheme(
        kind, args.format, args.per_channel, args.method, args.block_size, operators, args.bias_correction, args.smooth
    )
    model = read(args.model)
    if output.exists() and output.samefile(args.model):
        raise InvalidArgument(f"--output {output} is the model itself; give another file")
    refuse_unwritable("--output", output)
    for path in args.report or ():
        if path.suffix.lower() not in SUFFIXES:
            raise InvalidArgument(f"--report {path}: name a file that ends in {' or '.join(SUFFIXES)}")
        refuse_unwritable("--report", path)
        if path.suffix.lower() == ".html":
            templates()
    providers = chosen(args.provider)
    if providers is None:
        providers = [CPU, *(each.name for each in states() if not each.problem and not each.software)]
    sampling = {"shapes": args.shape, "images": args.image, "normalization": asked(args), "seed": args.seed}
    samples = samples_of(model, args.calibrate, most=args.samples, **sampling)
    refine = None
    if args.qat is not None:
        if kind != "int8" or scheme.form != "qdq":
            raise InvalidArgument("--qat trains what --int8 gives, in the format qdq")
        if args.qat_steps < 1:
            raise InvalidArgument(f"--qat-steps {args.qat_steps}: take at least 1")
        others = samples_of(model, args.qat, most=QAT_SAMPLES, **sampling) if args.qat else None
        refine = _refinement(others, args.qat_steps, args.seed)
    outcome = tune(
        args.model,
        output,
        samples,
        scheme,
        budgets=budgets,
        exclude=args.exclude or (),
        providers=list(dict.fromkeys(providers)),
        most_samples=args.samples,
        stages=_hidden if args.json else _shown,
        refine=refine,
        refine_steps=args.qat_steps,
    )
    for path in args.report or ():
        report(outcome.facts, path)
    outcome.facts["reports"] = [str(path) for path in args.report or ()]
    return outcome


def _refinement(samples: Samples | None, steps: int, seed: int) -> Refine:
    """Training of what is quantized, by these samples, or by those that it was calibrated with."""
    from sardonyx.training.aware import Plan, train_quantized

    def refine(quantized: Model, model: Model, calibration: Samples, step: Callable[[], None]) -> Model | None:
        return train_quantized(quantized, model, samples or calibration, Plan(steps=steps, seed=seed), step=step)

    return refine


@contextmanager
def _hidden(text: str, total: int) -> Iterator[Callable[[], None]]:
    yield lambda: None


@contextmanager
def _shown(text: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar, or a line where there is no terminal for one."""
    if not sys.stderr.isatty():
        print(f"{text} ...", file=sys.stderr, flush=True)
    with progress(text, total) as step:
        yield step


def render(screen: Screen, data: dict[str, Any]) -> None:
    from sardonyx.cli.devices import short_name
    from sardonyx.quantization.tuning.facts import CORRECTIONS, METRICS

    options, nodes, score = data["options"], data["nodes"], data["score"] or {}
    screen.heading(f"{Path(data['model']['path']).name}, quantized: {options['kind']}")
    for warning in data["warnings"]:
        screen.line(f"Warning: {warning}.")
    if data["warnings"]:
        screen.line("")
    screen.facts(
        {
            "Nodes": f"{nodes['quantized']} of {nodes['quantizable']} that can be, and {nodes['others']} others",
            "Samples": _samples(data["samples"]),
            **{METRICS[name].title: METRICS[name].text(value) for name, value in score.items() if value is not None},
        }
    )
    rows = []
    if data["result"]:
        before, after = data["model"]["bytes"], data["result"]["bytes"]
        rows.append(["Size", nbytes(before), nbytes(after), f"{after / before:.2f}"])
    for row in data["providers"]:
        name, sides = short_name(row["provider"]), (row["before"], row["after"])
        rows.append([f"A run on {name}", *(duration(side["seconds"]) for side in sides), f"{row['ratio']:.2f}"])
        peaks = [side["peak_memory"] for side in sides]
        if all(peaks):
            rows.append([f"Memory on {name}", *map(nbytes, peaks), f"{peaks[1] / peaks[0]:.2f}"])
    screen.line("")
    screen.table(["", ">Before", ">After", ">Ratio"], rows)
    for each in filter(lambda each: each["nodes"], data["corrections"]):
        title = f"SmoothQuant, alpha {each['alpha']:g}" if each["what"] == "smooth" else CORRECTIONS[each["what"]]
        before, after = each["before"]["snr"], each["after"]["snr"]
        screen.line("")
        screen.line(f"{title}, of {count(each['nodes'], 'node')}: {before:.1f} dB before, {after:.1f} dB after.")
    if data["kept"]:
        screen.heading(f"In float: {count(len(data['kept']), 'node')}")
        rows = [[elided(each["node"]), each["operator"], each["reason"]] for each in data["kept"][:KEPT]]
        screen.table(["Node", "Operator", "Because"], rows)
        if len(data["kept"]) > KEPT:
            screen.line(f"and {len(data['kept']) - KEPT} more, which --report tells", quiet=True)
    if len(data["variants"]) > 1:
        screen.line("")
        screen.line(f"{count(len(data['variants']), 'variant')} tried.", quiet=True)
    screen.heading("Written")
    for path in [*([data["result"]["path"]] if data["result"] else ["nothing"]), *data["reports"]]:
        screen.line(path)


def _samples(samples: dict[str, Any]) -> str:
    if samples["shared"]:
        return f"1, {samples['source']}"
    total = samples["calibration"] + samples["held_out"]
    return f"{total}, {samples['source']}; {samples['held_out']} held out"
