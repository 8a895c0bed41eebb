"""Models that learn, with onnxruntime.training's names: losses, optimizers, checkpoints; not how gradients are found.

    from sardonyx.training import artifacts
    from sardonyx.training.api import CheckpointState, Module, Optimizer

    artifacts.generate_artifacts("model.onnx", requires_grad=["fc.weight"], loss=artifacts.LossType.CrossEntropyLoss,
                                 optimizer=artifacts.OptimType.AdamW)
    state = CheckpointState.load_checkpoint("checkpoint")
    module = Module("training_model.onnx", state)
    optimizer = Optimizer("optimizer_model.onnx", module)
    for images, labels in batches:
        loss = module(images, labels)
        optimizer.step()
        module.lazy_reset_grad()

`gradient_model.py` makes the model that gives a loss and gradients, of one node `Gradient`; `onnxblock/` has losses and
optimizers; `api/` runs the files. NumPy alone is needed; `ORTModule`, which is imported when it is asked for, runs
modules of PyTorch, and needs that.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sardonyx.training import api, artifacts, onnxblock

_OF_PYTORCH = ("DebugOptions", "LogLevel", "ORTModule")

__all__ = ["api", "artifacts", "onnxblock"]


def __getattr__(name: str) -> Any:
    if name not in _OF_PYTORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.ortmodule"), name)
