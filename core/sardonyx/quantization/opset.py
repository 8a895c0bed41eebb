"""Operator sets that can say what a quantized model says: older models are lifted."""

from __future__ import annotations

from typing import Any

from sardonyx.common import dtypes
from sardonyx.model.ir import Model
from sardonyx.model.ir.names import new_names
from sardonyx.model.serde.inline import inline_functions
from sardonyx.passes.copy import copy_model
from sardonyx.passes.downgrade import lower
from sardonyx.passes.upgrade import NEWEST, lift, upgrade
from sardonyx.quantization.base_quantizer import LOG, dtype_of
from sardonyx.quantization.element_types import infer_element_types
from sardonyx.quantization.enums import QuantType
from sardonyx.quantization.network import opset_of

SIXTEEN = (dtypes.uint16, dtypes.int16)


def for_types(
    model: Model,
    weight_type: Any,
    activation_type: Any = None,
    overrides: Any = None,
    block_size: int = 0,
    pairs: bool = False,
    channels: bool = False,
) -> Model:
    """The model itself where its operator set can say these types, else a copy in the first one that can.

    Operator set 11 is the first one that is quantized, 21 the first with types of 16 bits and with blocks. Of `pairs`
    of ONNX, those of `channels` need operator set 13, and those of float16 need 19.
    """
    opset = opset_of(model)
    wide = {dtype_of(each) for each in (weight_type, activation_type) if each is not None} & {*SIXTEEN}
    wide = wide or _wide_overrides(overrides)
    needed, why = 0, ""
    if block_size > 0 and opset < 21:
        needed, why = 21, "does not support block-wise quantization natively"
    elif wide and opset < 21:
        needed, why = 21, "does not support 16-bit integer quantization natively"
    elif pairs and opset < 19 and dtypes.float16 in infer_element_types(model, model.graph).values():
        needed, why = 19, "does not support quantization of float16 natively"
    elif pairs and opset < 13 and (channels or _asked_by_channel(overrides)):
        needed, why = 13, "does not support quantization by channels natively"
    elif opset < 10:
        needed, why = 11, "does not support quantization"
    elif opset == 10:
        LOG.warning(
            f"The original model opset version is {opset}, which does not support node fusions. "
            "Please update the model to opset >= 11 for better performance."
        )
    if not needed:
        return model
    LOG.warning(
        f"The original model opset version is {opset}, which {why}. Please update the model to opset >= {needed}. "
        f"Automatically update the model to opset {needed}. Please verify the quantized model."
    )
    return converted(model, needed)


def newest(model: Model) -> Model:
    """A copy of a model in the newest operator set, with its functions inline."""
    return upgrade(copy_model(inline_functions(model, lift=lift, newest=NEWEST)))


def converted(model: Model, opset: int) -> Model:
    """A copy of a model in this operator set, or in the first later one that can say all of its nodes."""
    result = lower(newest(model), {**model.opset_imports, "": opset})
    for value, name in new_names(result.graph).items():
        value.name = name
    return result


def _asked_by_channel(overrides: Any) -> bool:
    """Whether channels are asked for single tensors; what is malformed is refused later."""
    asked = [each for several in (overrides or {}).values() if isinstance(several, list) for each in several]
    return any(isinstance(each, dict) and "axis" in each for each in asked)


def _wide_overrides(overrides: Any) -> set[Any]:
    """The types of 16 bits that are asked for single tensors; what is malformed is refused later."""
    try:
        asked = [each for several in (overrides or {}).values() for each in several]
        asked += [each["convert"] for each in asked if each.get("convert")]
        return {each.get("quant_type") for each in asked} & {QuantType.QInt16, QuantType.QUInt16}
    except (AttributeError, TypeError, KeyError):
        return set()
