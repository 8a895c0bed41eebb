"""Adapters from arrays in an .npz file: `python -m sardonyx.api.capi.convert_npz_to_onnx_adapter`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

import numpy as np

from sardonyx.api.adapters import AdapterFormat
from sardonyx.api.ort_value import OrtValue


def get_args(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """What was asked for at the prompt."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("npz_file_path", "output_file_path"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("adapter_version", "model_version"):
        parser.add_argument(f"--{name}", type=int, required=True)
    return parser.parse_args(arguments)


def export_lora_parameters(
    npz_file_path: str | os.PathLike[str],
    adapter_version: int,
    model_version: int,
    output_file_path: str | os.PathLike[str],
) -> None:
    """Write the arrays of an .npz file as an adapter."""
    adapter = AdapterFormat()
    adapter.set_adapter_version(adapter_version)
    adapter.set_model_version(model_version)
    with np.load(npz_file_path) as arrays:
        adapter.set_parameters({name: OrtValue.ortvalue_from_numpy(array) for name, array in arrays.items()})
    adapter.export_adapter(output_file_path)


def main(arguments: Sequence[str] | None = None) -> int:
    args = get_args(arguments)
    export_lora_parameters(args.npz_file_path, args.adapter_version, args.model_version, args.output_file_path)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
