"""What `MatMulNBitsQuantizer` may be asked for: the method that finds the integers, and their form in the graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from sardonyx.errors import InvalidArgument
from sardonyx.errors import NotImplemented as NotHere
from sardonyx.quantization.enums import QuantFormat

Axes = tuple[tuple[str, int], ...]
"""Pairs of an operator and the axis along which its weight is quantized."""
WIDTHS = (2, 4, 8)
LARGEST = 1 << 16
"""Elements of a block: weights are padded to whole blocks."""


class WeightOnlyQuantConfig:
    """A method by its name, and what every method is told.

    `op_types_to_quantize` is MatMul where nothing is given, `quant_axes` is (MatMul, 0) and (Gather, 1).
    `customized_weight_config` has the fields bits, group_size and scheme of single nodes, by their names.
    """

    def __init__(
        self,
        algorithm: str,
        quant_format: QuantFormat,
        op_types_to_quantize: tuple[str, ...] | None = None,
        quant_axes: Axes | None = None,
        customized_weight_config: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.algorithm = algorithm
        self.quant_format = quant_format
        self.op_types_to_quantize = set(op_types_to_quantize or ("MatMul",))
        self.quant_axes = dict(quant_axes or (("MatMul", 0), ("Gather", 1)))
        self.customized_weight_config = customized_weight_config


class DefaultWeightOnlyQuantConfig(WeightOnlyQuantConfig):
    """Blocks along K, scaled by their extremes.

    `bits` are 2, 4 or 8, and 4 in the form QDQ. `channel_wised_quantize`, for QDQ alone, has one block for each column.
    """

    def __init__(
        self,
        block_size: int = 128,
        is_symmetric: bool = False,
        accuracy_level: int | None = None,
        quant_format: QuantFormat = QuantFormat.QOperator,
        op_types_to_quantize: tuple[str, ...] | None = None,
        quant_axes: Axes | None = None,
        bits: int = 4,
        channel_wised_quantize: bool = False,
    ) -> None:
        if channel_wised_quantize and quant_format == QuantFormat.QOperator:
            raise NotImplementedError("channel_wised_quantize: MatMulNBits has blocks alone; use QuantFormat.QDQ")
        if type(block_size) is not int or not 8 <= block_size <= LARGEST or block_size & (block_size - 1):
            raise InvalidArgument(f"block_size={block_size!r}: take a power of 2 from 8 to {LARGEST:,}")
        super().__init__("DEFAULT", quant_format, op_types_to_quantize, quant_axes)
        self.block_size = block_size
        self.is_symmetric = is_symmetric
        self.bits = bits
        self.accuracy_level = accuracy_level
        self.channel_wised_quantize = channel_wised_quantize


class _GroupwiseConfig(WeightOnlyQuantConfig):
    """A method of `groupwise`, in the form QOperator alone; `ratios` shrink the ranges of weights, by their names."""

    METHOD = ""

    def __init__(
        self,
        ratios: Mapping[str, float] | None = None,
        quant_format: QuantFormat = QuantFormat.QOperator,
        op_types_to_quantize: tuple[str, ...] | None = None,
        customized_weight_config: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        if quant_format != QuantFormat.QOperator:
            raise InvalidArgument(f"quant_format={quant_format}: {self.METHOD} has the form QOperator alone")
        super().__init__(
            self.METHOD, quant_format, op_types_to_quantize, customized_weight_config=customized_weight_config
        )
        self.ratios = dict(ratios or {})


class RTNWeightOnlyQuantConfig(_GroupwiseConfig):
    """Each weight to the nearest integer, in the range of its block (`groupwise.round_to_nearest`)."""

    METHOD = "RTN"


class KQuantWeightOnlyQuantConfig(_GroupwiseConfig):
    """The best of twenty ranges for each block (`groupwise.k_quant`)."""

    METHOD = "k_quant"


class _Absent:
    """A method that is not here; `WHY` says what it needs."""

    WHY = ""

    def __init__(self, *args: object, **kwargs: object) -> None:
        self.refuse()

    @classmethod
    def refuse(cls) -> NoReturn:
        raise NotHere(f"{cls.__name__}: {cls.WHY}; use KQuantWeightOnlyQuantConfig or DefaultWeightOnlyQuantConfig")


class GPTQWeightOnlyQuantConfig(_Absent):
    """Not here."""

    WHY = "GPTQ solves for each weight with the Hessian of what runs give, which is not written yet"


class HQQWeightOnlyQuantConfig(_Absent):
    """Not here."""

    WHY = "HQQ has zero points of floats, which few runtimes' MatMulNBits take"


class NVAWQWeightOnlyQuantConfig(_Absent):
    """Not here."""

    WHY = "AWQ is NVIDIA's Model Optimizer on CUDA, which is a package of its own"
