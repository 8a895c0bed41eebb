"""PyTorch's modules run forward and backward here, on any provider; parameters, losses and optimizers stay PyTorch's.

    from sardonyx.training.ortmodule import ORTModule

    model = ORTModule(model, providers=["webgpu"])

`exported.py` makes an ONNX model of a module, `passage.py` the two models of a step, `step.py` the one function that
autograd sees, and `module.py` the module that stands in for the other. PyTorch is needed, and onnxscript, with which it
exports.
"""

from __future__ import annotations

from sardonyx.common.extras import missing

try:
    from sardonyx.training.ortmodule.debug_options import DebugOptions, LogLevel
    from sardonyx.training.ortmodule.module import ORTModule
except ModuleNotFoundError as error:
    if error.name not in ("torch", "onnxscript"):
        raise
    raise ImportError(f"ORTModule: {missing('torch')}") from None

__all__ = ["DebugOptions", "LogLevel", "ORTModule"]
