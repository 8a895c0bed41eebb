"""`python -m sardonyx.quantization.preprocess`: what `quant_pre_process` does, from a terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from sardonyx.quantization.shape_inference import quant_pre_process

TRUTHS = {"true": True, "1": True, "false": False, "0": False}


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """What onnxruntime's tool takes."""
    parser = argparse.ArgumentParser(
        prog="python -m sardonyx.quantization.preprocess",
        description="prepare a model for quantizing: shapes, constants folded, normalizations in weights",
    )
    parser.add_argument("--input", required=True, metavar="FILE", help="an .onnx file")
    parser.add_argument("--output", required=True, metavar="FILE", help="where the result goes")
    for name, text in {
        "skip_optimization": "leave the nodes as they are",
        "skip_onnx_shape": "with the next one: infer no shapes",
        "skip_symbolic_shape": "with the one before: infer no shapes",
    }.items():
        parser.add_argument(f"--{name}", type=_truth, nargs="?", const=True, default=False, metavar="BOOL", help=text)
    parser.add_argument("--auto_merge", action="store_true", help="no effect: equal sizes are found")
    parser.add_argument("--int_max", type=int, default=2**31 - 1, help="no effect: sizes are exact")
    parser.add_argument("--guess_output_rank", action="store_true", help="no effect: nothing is guessed")
    parser.add_argument("--verbose", type=int, default=0, metavar="N", help="tell what was done")
    parser.add_argument("--save_as_external_data", action="store_true", help="put tensors into a file beside")
    parser.add_argument("--all_tensors_to_one_file", action="store_true", help="no effect: it is one file")
    parser.add_argument("--external_data_location", metavar="NAME", help="the name of that file")
    parser.add_argument("--external_data_size_threshold", type=int, default=1024, metavar="BYTES", help="(1024)")
    return parser.parse_args(arguments)


def _truth(text: str) -> bool:
    if text.lower() not in TRUTHS:
        raise argparse.ArgumentTypeError(f"Expected true, false, 1, or 0, not {text!r}")
    return TRUTHS[text.lower()]


def main(arguments: Sequence[str] | None = None) -> None:
    """What `python -m` does."""
    args = parse_arguments(arguments)
    if args.skip_optimization and args.skip_onnx_shape and args.skip_symbolic_shape:
        sys.exit("all steps are skipped: there is nothing to do")
    options = {name: value for name, value in vars(args).items() if name not in ("input", "output")}
    quant_pre_process(args.input, args.output, **options)


if __name__ == "__main__":
    main()
