"""How a model is quantized: which numbers, in which form, with ranges learnt how."""

from __future__ import annotations

from sardonyx.common.record import record
from sardonyx.errors import InvalidArgument

KINDS = {
    "int8": "weights and activations in 8 bits, ranges from samples",
    "dynamic": "weights in 8 bits, activations in 8 bits by the ranges of each run",
    "int4": "weights of products in 4 bits, in blocks; activations stay as they are",
    "fp16": "floats in 16 bits",
}
FORMATS = ("qdq", "qoperator")
METHODS = ("minmax", "entropy", "percentile")
BLOCKS = (16, 32, 64, 128, 256)


@record(frozen=True)
class Scheme:
    """What a quantizer is asked for.

    `kind` is one of `KINDS`. `format` is for int8 and int4: pairs of QuantizeLinear and DequantizeLinear, or operators
    on integers; left empty it is what runs best, `form`. `per_channel` gives each channel of weights a scale. `method`
    finds ranges. `block_size` is that of int4. `operators` are the types to quantize, all that can be where it is
    empty. `bias_correction` and `smooth`, the alpha of SmoothQuant (None for none), are for int8.
    """

    kind: str = "int8"
    format: str = ""
    per_channel: bool = True
    method: str = "minmax"
    block_size: int = 32
    operators: tuple[str, ...] = ()
    bias_correction: bool = False
    smooth: float | None = None

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("kind", self.kind, tuple(KINDS)),
            ("format", self.format, ("", *FORMATS)),
            ("method", self.method, METHODS),
            ("block_size", self.block_size, BLOCKS),
        ):
            if value not in choices:
                raise InvalidArgument(
                    f"{name} {value!r}: take one of {', '.join(str(each) for each in choices if each)}"
                )
        if self.smooth is not None and not 0 <= self.smooth <= 1:
            raise InvalidArgument(f"smooth {self.smooth:g}: alpha is 0 to 1")
        if self.kind != "int8" and (self.bias_correction or self.smooth is not None):
            option = "bias_correction" if self.bias_correction else "smooth"
            raise InvalidArgument(f"{option} is for int8 with ranges from samples, not for {self.kind}")

    @property
    def form(self) -> str:
        """The format, "" for kinds that have but one."""
        return self.format or {"int8": "qdq", "int4": "qoperator"}.get(self.kind, "")

    @property
    def calibrates(self) -> bool:
        """Whether ranges are learnt from samples."""
        return self.kind == "int8"
