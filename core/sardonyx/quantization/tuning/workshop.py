"""One model, one scheme: builds it quantized, with any set of nodes left in float; ranges are learnt once."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np

from sardonyx.model.ir import Model, Node
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.writer import save
from sardonyx.quantization.enums import CalibrationMethod, QuantFormat, QuantType
from sardonyx.quantization.float16 import DEFAULT_OP_BLOCK_LIST, halved
from sardonyx.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from sardonyx.quantization.quantize import quantize_dynamic, quantize_static
from sardonyx.quantization.registry import IntegerOpsRegistry, QDQRegistry, QLinearOpsRegistry
from sardonyx.quantization.tuning.bias_correction import corrected
from sardonyx.quantization.tuning.preparation import by_name
from sardonyx.quantization.tuning.samples import Reader, Samples
from sardonyx.quantization.tuning.scheme import Scheme

METHODS = {
    "minmax": CalibrationMethod.MinMax,
    "entropy": CalibrationMethod.Entropy,
    "percentile": CalibrationMethod.Percentile,
}
FORMATS = {"qdq": QuantFormat.QDQ, "qoperator": QuantFormat.QOperator}


class Workshop:
    """Builds variants of a `prepared` model in a folder.

    `left` are nodes that are never quantized; `shifts` are added to the biases of those that are, by name.
    """

    def __init__(self, model: Model, scheme: Scheme, samples: Samples, folder: Path) -> None:
        self.scheme = scheme
        self.samples = samples
        self._folder = folder
        self._base = folder / "prepared.onnx"
        self._ranges = folder / "ranges.json"
        self._number = 0
        self.left: frozenset[str] = frozenset()
        self.shifts: dict[str, np.ndarray] = {}
        self.set_model(model)

    def set_model(self, model: Model) -> None:
        """Quantize another model from now on; its ranges are learnt anew."""
        self.model = model
        self._ranges.unlink(missing_ok=True)

    def build(self, kept: Collection[str] = (), only: Collection[str] = (), *, simulated: bool = False) -> Path:
        """The file of the model with all that can be quantized, but the nodes `kept`, or with nothing but `only`.

        A simulated one has pairs of QuantizeLinear and DequantizeLinear, and keeps activations that ranges make
        needless.
        """
        self._number += 1
        path = self._folder / f"variant{self._number}.onnx"
        kept = self.left | set(kept)
        biased = {name: shift for name, shift in self.shifts.items() if name not in kept and (not only or name in only)}
        save(corrected(self.model, biased), self._base)
        with _quiet():
            if self.scheme.kind == "int8":
                self._static(path, kept, only, simulated)
            elif self.scheme.kind == "dynamic":
                self._dynamic(path, kept, only)
            elif self.scheme.kind == "int4":
                self._four_bits(path, kept, simulated)
            else:
                self._half(path, kept)
        return path

    def _static(self, path: Path, kept: Collection[str], only: Collection[str], simulated: bool) -> None:
        scheme = self.scheme
        quantize_static(
            str(self._base),
            str(path),
            Reader(self.samples),
            quant_format=QuantFormat.QDQ if simulated else FORMATS[scheme.form],
            op_types_to_quantize=list(scheme.operators),
            per_channel=scheme.per_channel,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            nodes_to_quantize=list(only),
            nodes_to_exclude=list(kept),
            calibrate_method=METHODS[scheme.method],
            extra_options={"QDQKeepRemovableActivations": True} if simulated else {},
            calibration_cache_path=str(self._ranges),
        )

    def _dynamic(self, path: Path, kept: Collection[str], only: Collection[str]) -> None:
        quantize_dynamic(
            str(self._base),
            str(path),
            op_types_to_quantize=list(self.scheme.operators),
            per_channel=self.scheme.per_channel,
            weight_type=QuantType.QInt8,
            nodes_to_quantize=list(only),
            nodes_to_exclude=list(kept),
        )

    def _four_bits(self, path: Path, kept: Collection[str], simulated: bool) -> None:
        quantizer = MatMulNBitsQuantizer(
            str(self._base),
            bits=4,
            block_size=self.scheme.block_size,
            is_symmetric=False,
            nodes_to_exclude=list(kept),
            quant_format=QuantFormat.QDQ if simulated else FORMATS[self.scheme.form],
            op_types_to_quantize=self.scheme.operators or ("MatMul",),
        )
        quantizer.process()
        quantizer.model.save_model_to_file(str(path))

    def _half(self, path: Path, kept: Collection[str]) -> None:
        save(halved(read(self._base), keep_io_types=True, node_block_list=list(kept)), path)

    def quantizable(self) -> list[Node]:
        """The nodes whose types the scheme can quantize."""
        types = set(self.scheme.operators)
        if not types:
            types = {
                "int8": {*QDQRegistry, *QLinearOpsRegistry},
                "dynamic": set(IntegerOpsRegistry),
                "int4": {"MatMul"},
                "fp16": {node.op_type for node in self.model.graph.nodes} - set(DEFAULT_OP_BLOCK_LIST),
            }[self.scheme.kind]
        return [node for node in self.model.graph.nodes if node.op_type in types and node.name not in self.left]

    def changed(self, path: Path) -> list[str]:
        """The nodes that can be quantized and were, in the graph's order: they read or are something else now."""
        built = by_name(read(path))
        return [
            node.name
            for node in self.quantizable()
            if self.scheme.kind == "fp16" or _differs(node, built.get(node.name))
        ]


def _differs(node: Node, built: Node | None) -> bool:
    if built is None or (built.op_type, built.domain) != (node.op_type, node.domain):
        return True
    pairs = zip([*node.inputs, *node.outputs], [*built.inputs, *built.outputs])
    return any(one is not None and other is not None and one.name != other.name for one, other in pairs)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Quantizers' advice to their callers is not for people at a prompt."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
