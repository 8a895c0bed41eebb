"""How pixels become what a model was trained with: minus a mean, over a standard deviation."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from sardonyx.common.record import record
from sardonyx.errors import InvalidArgument

KNOWN = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "clip": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
}
"""Means and standard deviations of red, green and blue that many models share."""


@record(frozen=True)
class Normalization:
    """Values for each channel, or one for all; `option` is the one that asked for them."""

    mean: Sequence[float]
    std: Sequence[float]
    option: str

    def __call__(self, pixels: np.ndarray, name: str) -> np.ndarray:
        """Pixels [H, W, C] in 0..255 as input `name` wants them.

        Values above 1 are of pixels in 0..255, others of those in 0..1.

        >>> Normalization((0.5,), (0.25,), "--mean")(np.full((1, 1, 3), 255.0), "x").tolist()
        [[[2.0, 2.0, 2.0]]]
        """
        channels = pixels.shape[2]
        for what, values in (("mean", self.mean), ("std", self.std)):
            if len(values) not in (1, channels):
                raise InvalidArgument(
                    f"{self.option}: the {what} has {len(values)} values, and input {name!r} "
                    f"{'3 channels' if channels > 1 else '1 channel'}"
                )
        scale = 1 if max(*self.mean, *self.std) > 1 else 255
        normalized: np.ndarray = (pixels / scale - np.asarray(self.mean)) / np.asarray(self.std)
        return normalized


def add_normalization(parser: argparse.ArgumentParser) -> None:
    """The options `--normalize`, `--mean` and `--std`."""
    of = "of pixels in 0..1 (or 0..255, if above 1), one number or one for each channel"
    parser.add_argument("--mean", metavar="R,G,B", help=f"what is subtracted from pictures: {of}")
    parser.add_argument("--std", metavar="R,G,B", help="what pictures are divided by afterwards")
    parser.add_argument(
        "--normalize", choices=list(KNOWN), help="these two as models trained on ImageNet, or CLIP's, want them"
    )


def asked(args: argparse.Namespace) -> Normalization | None:
    """What the options ask for, None for pixels in 0..1; InvalidArgument where they make no sense."""
    if args.normalize:
        if args.mean or args.std:
            raise InvalidArgument(
                f"--normalize {args.normalize} has a mean and a standard deviation; leave out --mean and --std"
            )
        return Normalization(*KNOWN[args.normalize], f"--normalize {args.normalize}")
    if args.mean is None and args.std is None:
        return None
    mean, std = _numbers("--mean", args.mean or "0"), _numbers("--std", args.std or "1")
    if min(std) <= 0:
        raise InvalidArgument(f"--std {args.std}: standard deviations are above 0")
    return Normalization(mean, std, "--std" if args.mean is None else "--mean")


def _numbers(option: str, text: str) -> list[float]:
    if text.lower() in KNOWN:
        raise InvalidArgument(f"{option} {text}: write numbers, or --normalize {text.lower()} for both")
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidArgument(
            f"{option} {text}: write numbers with commas between them, as in 0.485,0.456,0.406"
        ) from None
    if not np.isfinite(values).all():
        raise InvalidArgument(f"{option} {text}: write finite numbers")
    return values
