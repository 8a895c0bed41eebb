"""onnxruntime.training.api: training from files, with state that stays on its device."""

from __future__ import annotations

from sardonyx.training.api.checkpoint_state import CheckpointState
from sardonyx.training.api.lr_scheduler import LinearLRScheduler
from sardonyx.training.api.module import Module
from sardonyx.training.api.optimizer import Optimizer

__all__ = ["CheckpointState", "LinearLRScheduler", "Module", "Optimizer"]
