"""A case as an ONNX model, and what PyTorch computes for it."""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import warnings
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map

from tests.exports.case import Arguments, Case
from tests.support.cache import CACHE, cached

EXPORTERS: dict[str, dict[str, Any]] = {
    "torchscript": {"dynamo": False},
    "dynamo": {"dynamo": True},
    "dynamo-opset23": {"dynamo": True, "opset_version": 23},
}


@cache
def case(name: str) -> Case:
    """The case `family.function`, the same at every call, with weights that let its input through."""
    family, function = name.split(".")
    torch.manual_seed(0)
    with quiet():
        found: Case = getattr(import_module(f"tests.exports.families.{family}"), function)()
        for module in found.module.modules():
            if isinstance(module, (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)):
                nn.init.kaiming_normal_(module.weight)
            elif isinstance(module, nn.RNNBase):
                for parameter in module.parameters():
                    nn.init.normal_(parameter, std=0.5)
            elif isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.momentum = 1.0
        found.module.train()(**found.arguments(*found.sizes[0]))  # means and variances of what comes in
        found.module.eval()
    return found


def exported(name: str, exporter: str) -> bytes:
    """The model of a case, kept from run to run; its inputs are `in0`, `in1`, ..., its outputs as the exporter has it.

    `exporter` is a key of `EXPORTERS`.
    """
    target = CACHE / "exports" / f"{name}-{exporter}" / f"{recipes()[:12]}.onnx"
    return cached(target, lambda scratch: (scratch / target.name).write_bytes(export(name, exporter))).read_bytes()


@cache
def recipes() -> str:
    """The digest of all that makes models: a change of it gives them other names."""
    files = sorted(Path(__file__).parent.rglob("*.py"))
    return hashlib.sha256(torch.__version__.encode() + b"".join(file.read_bytes() for file in files)).hexdigest()


def export(name: str, exporter: str) -> bytes:
    """Have the module of a case exported, at the first of its sizes."""
    subject = case(name)
    arguments = at(name, subject.sizes[0])
    inputs = [f"in{number}" for number in range(len(tree_leaves(arguments)))]
    options = EXPORTERS[exporter] | {"input_names": inputs}
    values = tuple(arguments.values())
    if options["dynamo"]:
        shapes = {key: tree_map(lambda _, key=key: dict(subject.axes[key]), value) for key, value in arguments.items()}
        options |= {"dynamic_shapes": shapes, "custom_translation_table": subject.translations}
        with quiet():
            program = torch.onnx.export(subject.module, values, **options)
        return program.model_proto.SerializeToString()
    axes = [subject.axes[key] for key, value in arguments.items() for _ in tree_leaves(value)]
    for symbol, function in (subject.symbolics or {}).items():
        torch.onnx.register_custom_op_symbolic(symbol, function, 18)
    with io.BytesIO() as file, quiet():
        torch.onnx.export(subject.module, values, file, dynamic_axes=dict(zip(inputs, axes, strict=True)), **options)
        return file.getvalue()


@contextlib.contextmanager
def quiet() -> Any:
    """What exporters say on warnings, logs and standard output is theirs."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), torch.no_grad():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)


@cache
def at(name: str, size: tuple[int, int]) -> Arguments:
    """The arguments of a case at a size."""
    torch.manual_seed(1)
    return case(name).arguments(*size)


def feeds(arguments: Arguments) -> dict[str, np.ndarray]:
    """The arguments by the names that models have for them."""
    return {f"in{number}": value.numpy() for number, value in enumerate(tree_leaves(arguments))}


@cache
def expected(name: str, size: tuple[int, int]) -> list[np.ndarray]:
    """What PyTorch computes."""
    with torch.no_grad():
        return [value.numpy() for value in tree_leaves(case(name).module(**at(name, size)))]
