"""MatMul and Gather with weights of 2, 4 or 8 bits in blocks.

    quantizer = MatMulNBitsQuantizer("model.onnx", bits=4, block_size=32, is_symmetric=True)
    quantizer.process()
    quantizer.model.save_model_to_file("smaller.onnx")

`python -m sardonyx.quantization.matmul_nbits_quantizer --help` is the same from a terminal.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Model, Node
from sardonyx.quantization.enums import QuantFormat
from sardonyx.quantization.newer import raise_operator_set
from sardonyx.quantization.quantized_model import QuantizedModel
from sardonyx.quantization.weight_only import MICROSOFT, Scope, WeightRewriter
from sardonyx.quantization.weight_only_config import (
    WIDTHS,
    Axes,
    DefaultWeightOnlyQuantConfig,
    GPTQWeightOnlyQuantConfig,
    HQQWeightOnlyQuantConfig,
    KQuantWeightOnlyQuantConfig,
    NVAWQWeightOnlyQuantConfig,
    RTNWeightOnlyQuantConfig,
    WeightOnlyQuantConfig,
)

__all__ = [
    "DefaultWeightOnlyQuantConfig",
    "GPTQWeightOnlyQuantConfig",
    "HQQWeightOnlyQuantConfig",
    "KQuantWeightOnlyQuantConfig",
    "MatMulNBitsQuantizer",
    "NVAWQWeightOnlyQuantConfig",
    "QuantFormat",
    "RTNWeightOnlyQuantConfig",
    "WeightOnlyQuantConfig",
]

INTEGERS_OF_4_BITS = 21
"""The first operator set of ai.onnx that has them."""


class MatMulNBitsQuantizer:
    """Quantizes the constant weights of MatMul, and of Gather where `op_types_to_quantize` names it.

    `model` is a path, bytes or a ModelProto. `bits` are 2, 4 or 8, Gather has 4 alone; `block_size` elements along K
    share a scale and, unless `is_symmetric`, a zero point. `accuracy_level` is MatMulNBits' attribute.
    `nodes_to_exclude` stay, `nodes_to_include` are quantized whatever their operator. `quant_format` QDQ has
    DequantizeLinear with 4 bits before the MatMul, QOperator has MatMulNBits and GatherBlockQuantized. `algo_config`
    says all of this in their place, and may name another method.

    `process` does it; then `model` is an ONNXModel, whose `model` is a ModelProto, and whose `save_model_to_file` does
    without one. InvalidArgument where an option fits no node.
    """

    def __init__(
        self,
        model: Any,
        bits: int = 4,
        block_size: int = 128,
        is_symmetric: bool = False,
        accuracy_level: int | None = None,
        nodes_to_exclude: Iterable[str] | None = None,
        nodes_to_include: Iterable[str] | None = None,
        quant_format: QuantFormat = QuantFormat.QOperator,
        op_types_to_quantize: tuple[str, ...] | None = None,
        quant_axes: Axes | None = None,
        channel_wised_quantize: bool = False,
        algo_config: WeightOnlyQuantConfig | None = None,
    ) -> None:
        self.model_path = os.fspath(model) if isinstance(model, (str, os.PathLike)) else None
        self.bits = bits
        self.block_size = block_size
        self.is_symmetric = is_symmetric
        self.accuracy_level = accuracy_level
        self.nodes_to_exclude = set(nodes_to_exclude or ())
        self.nodes_to_include = set(nodes_to_include or ())
        self.algo_config = algo_config or DefaultWeightOnlyQuantConfig(
            block_size=block_size,
            is_symmetric=is_symmetric,
            accuracy_level=accuracy_level,
            quant_format=quant_format,
            op_types_to_quantize=op_types_to_quantize,
            quant_axes=quant_axes,
            bits=bits,
            channel_wised_quantize=channel_wised_quantize,
        )
        config = self.algo_config
        chosen = config.bits if isinstance(config, DefaultWeightOnlyQuantConfig) else bits
        if chosen not in WIDTHS:
            raise InvalidArgument(f"bits={chosen}: weights may have 2, 4 or 8")
        self.model = QuantizedModel(model)

    def process(self) -> None:
        """Replace the nodes, in subgraphs too, and drop the initializers that nothing uses any more."""
        model, config = self.model.ir, self.algo_config
        quantize = self._default(config) if isinstance(config, DefaultWeightOnlyQuantConfig) else self._grouped(config)
        if config.quant_format == QuantFormat.QDQ or "Gather" in config.op_types_to_quantize:
            raise_operator_set(model, INTEGERS_OF_4_BITS)
        if config.quant_format == QuantFormat.QOperator:
            model.opset_imports[MICROSOFT] = 1
        self._graph([model.graph], quantize)
        drop_unused(model)

    def _graph(self, scope: Scope, quantize: Callable[[Node, Scope], list[Node]]) -> None:
        chosen = self.algo_config.op_types_to_quantize
        nodes: list[Node] = []
        for node in scope[-1].nodes:
            for inner in node.subgraphs():
                self._graph([*scope, inner], quantize)
            wanted = node.op_type in chosen or (bool(node.name) and node.name in self.nodes_to_include)
            wanted = wanted and node.name not in self.nodes_to_exclude and node.domain in ("", "ai.onnx")
            nodes += quantize(node, scope) if wanted else [node]
        scope[-1].nodes = nodes

    def _default(self, config: DefaultWeightOnlyQuantConfig) -> Callable[[Node, Scope], list[Node]]:
        rewriter, dequantized = WeightRewriter(), config.quant_format == QuantFormat.QDQ

        def quantize(node: Node, scope: Scope) -> list[Node]:
            if node.op_type == "Gather" and config.bits == 4:
                return rewriter.gather_blocks(node, scope, config)
            if node.op_type != "MatMul" or (dequantized and config.bits != 4):
                return [node]
            form = rewriter.dequantized_matmul if dequantized else rewriter.matmul_nbits
            return form(node, scope, config)

        return quantize

    def _grouped(self, config: WeightOnlyQuantConfig) -> Callable[[Node, Scope], list[Node]]:
        if not isinstance(config, (RTNWeightOnlyQuantConfig, KQuantWeightOnlyQuantConfig)):
            raise InvalidArgument(f"algo_config: {type(config).__name__} names no method; there are RTN and k-quant")
        rewriter, custom = WeightRewriter(), config.customized_weight_config or {}
        scheme = "sym" if self.is_symmetric else "asym"

        def quantize(node: Node, scope: Scope) -> list[Node]:
            if node.op_type != "MatMul":
                return [node]
            fields = {"bits": self.bits, "group_size": self.block_size, "scheme": scheme}
            fields |= {key: value for key, value in custom.get(node.name, {}).items() if key in fields}
            return rewriter.grouped_matmul(
                node, scope, config.algorithm, fields, config.ratios, self.accuracy_level or 0
            )

        return quantize


def drop_unused(model: Model) -> None:
    """Remove initializers that nothing uses, of the graph and of those inside it, and the inputs that they are."""
    graphs = [model.graph, *(inner for node in model.graph.all_nodes() for inner in node.subgraphs())]
    used = {value for graph in graphs for value in graph.outputs}
    used |= {value for graph in graphs for node in graph.nodes for value in node.inputs if value is not None}
    for graph in graphs:
        unused = {value for value in graph.initializers if value not in used}
        graph.initializers = [value for value in graph.initializers if value not in unused]
        graph.inputs = [value for value in graph.inputs if value not in unused]


def _truth(text: str) -> bool:
    return text.lower() in ("true", "1")


def _axis(text: str) -> tuple[str, int]:
    operator, _, axis = text.partition(":")
    return operator, int(axis)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sardonyx.quantization.matmul_nbits_quantizer", description="quantize weights in blocks along K"
    )
    parser.add_argument("--input_model", required=True, metavar="FILE", help="an .onnx file")
    parser.add_argument("--output_model", required=True, metavar="FILE", help="where the smaller model goes")
    parser.add_argument("--block_size", default=32, type=int, help="elements that share a scale (32)")
    methods = ["default", "rtn", "k_quant", "hqq", "gptq", "nvidia_awq"]
    parser.add_argument("--quant_method", default="default", choices=methods, help="how integers are found (default)")
    parser.add_argument("--bits", default=4, type=int, help="2, 4 or 8 (4)")
    parser.add_argument(
        "--symmetric", default=True, const=True, nargs="?", type=_truth, help="no zero points (true), or false"
    )
    parser.add_argument("--accuracy_level", type=int, help="the attribute of MatMulNBits; 4 has integers multiplied")
    parser.add_argument("-v", "--verbose", action="store_true", help="tell how many nodes were quantized")
    parser.add_argument("--nodes_to_exclude", nargs="+", default=[], metavar="NAME", help="nodes that stay")
    parser.add_argument("--nodes_to_include", nargs="+", metavar="NAME", help="nodes to quantize besides")
    parser.add_argument("--quant_format", default="QOperator", choices=["QOperator", "QDQ"], help="(QOperator)")
    parser.add_argument("--op_types_to_quantize", nargs="+", choices=["MatMul", "Gather"], help="(MatMul)")
    parser.add_argument("--quant_axes", type=_axis, nargs="+", metavar="OP:AXIS", help="(MatMul:0 Gather:1)")
    return parser


def config_of(args: argparse.Namespace) -> WeightOnlyQuantConfig:
    """The method that arguments name."""
    operators = tuple(args.op_types_to_quantize or ("MatMul",))
    if args.quant_method == "rtn":
        return RTNWeightOnlyQuantConfig(op_types_to_quantize=operators)
    if args.quant_method == "k_quant":
        return KQuantWeightOnlyQuantConfig(op_types_to_quantize=operators)
    for name, absent in {
        "hqq": HQQWeightOnlyQuantConfig,
        "gptq": GPTQWeightOnlyQuantConfig,
        "nvidia_awq": NVAWQWeightOnlyQuantConfig,
    }.items():
        if args.quant_method == name:
            absent.refuse()
    return DefaultWeightOnlyQuantConfig(
        block_size=args.block_size,
        is_symmetric=args.symmetric,
        accuracy_level=args.accuracy_level,
        quant_format=QuantFormat[args.quant_format],
        op_types_to_quantize=operators,
        quant_axes=tuple(args.quant_axes) if args.quant_axes else None,
        bits=args.bits,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """What `python -m` does; a file that is there already is not replaced."""
    args = _parser().parse_args(arguments)
    if os.path.exists(args.output_model):
        sys.exit(f"--output_model {args.output_model} exists already; give another file")
    quantizer = MatMulNBitsQuantizer(
        args.input_model,
        bits=args.bits,
        block_size=args.block_size,
        is_symmetric=args.symmetric,
        accuracy_level=args.accuracy_level,
        nodes_to_exclude=args.nodes_to_exclude,
        nodes_to_include=args.nodes_to_include,
        algo_config=config_of(args),
    )
    quantizer.process()
    quantizer.model.save_model_to_file(args.output_model, True)
    if args.verbose:
        made = ("MatMulNBits", "GatherBlockQuantized", "DequantizeLinear")
        count = sum(node.op_type in made for node in quantizer.model.ir.graph.all_nodes())
        print(f"{count} weights quantized; {args.output_model} written")


if __name__ == "__main__":
    main()
