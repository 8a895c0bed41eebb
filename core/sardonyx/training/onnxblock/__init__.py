"""onnxruntime.training.onnxblock: losses, optimizers and networks, composed of blocks.

    class Weighted(onnxblock.Block):
        def build(self, scores):
            return onnxblock.blocks.Mul()(onnxblock.loss.CrossEntropyLoss()(scores), onnxblock.blocks.Constant(2.0)())

A block builds upon the model that `base` holds, which goes by names of tensors and needs no package `onnx`.
"""

from __future__ import annotations

from sardonyx.training.onnxblock import blocks, loss, optim
from sardonyx.training.onnxblock.blocks import Block
from sardonyx.training.onnxblock.checkpoint_utils import load_checkpoint_to_model, save_checkpoint
from sardonyx.training.onnxblock.model_accessor import base, empty_base
from sardonyx.training.onnxblock.onnxblock import ForwardBlock, TrainingBlock

__all__ = [
    "Block",
    "ForwardBlock",
    "TrainingBlock",
    "base",
    "blocks",
    "empty_base",
    "load_checkpoint_to_model",
    "loss",
    "optim",
    "save_checkpoint",
]
