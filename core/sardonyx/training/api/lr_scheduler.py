"""Learning rates that change with the number of steps."""

from __future__ import annotations

from sardonyx.training.api.optimizer import Optimizer


class LinearLRScheduler:
    """A learning rate that rises from 0 to `initial_lr` in `warmup_step_count` steps, and falls to 0 at the last of
    `total_step_count` steps, each in a straight line. It counts the steps that the optimizer made.
    """

    def __init__(self, optimizer: Optimizer, warmup_step_count: int, total_step_count: int, initial_lr: float) -> None:
        self._optimizer = optimizer
        self._warmup, self._total = warmup_step_count, total_step_count
        optimizer.set_initial_learning_rate(initial_lr)
        self.step()

    def step(self) -> None:
        """Set the optimizer's learning rate; to be called after each of its steps."""
        count = self._optimizer.steps
        if count < self._warmup:
            factor = count / max(1, self._warmup)
        else:
            factor = max(0.0, (self._total - count) / max(1, self._total - self._warmup))
        self._optimizer.set_learning_rate(factor * self._optimizer.initial_learning_rate)
