"""The module that stands in for another one."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import torch

from sardonyx.errors import InvalidArgument
from sardonyx.training.ortmodule.debug_options import DebugOptions
from sardonyx.training.ortmodule.exported import export, leaves
from sardonyx.training.ortmodule.step import Plans, Step

_log = logging.getLogger("sardonyx")


class ORTModule(torch.nn.Module):
    """A module whose forward and backward passes run in Sardonyx; all else of it is as before.

    Parameters, buffers and submodules are the module's own, under the same names, so that optimizers, `state_dict()`,
    hooks of autograd and `train()`/`eval()` go on as they did. `providers` are those of an InferenceSession. The first
    call exports the module for the arguments' form; others of the same form, of sizes that stay open, use it again.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        debug_options: DebugOptions | None = None,
        *,
        providers: Sequence[Any] | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(module, torch.nn.Module):
            raise InvalidArgument(f"ORTModule wraps a torch.nn.Module, not {type(module).__name__}")
        if isinstance(module, ORTModule):
            raise InvalidArgument("this module is an ORTModule already; wrap the one that it was made of")
        for name in ("_parameters", "_buffers", "_modules"):
            self.__dict__[name] = module.__dict__[name]
        self.__dict__["_original"] = module
        self.__dict__["_plans"] = {}
        self.__dict__["_settings"] = (providers, debug_options or DebugOptions())
        self.training = module.training

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        """What the module gives; its first run with a form of arguments takes seconds."""
        flat, structure = leaves(arguments, keywords)
        tensors = [each for each in flat if isinstance(each, torch.Tensor)]
        plans = self._plans_for(arguments, keywords, flat, structure, tensors)
        owned = dict(self.named_parameters(remove_duplicate=False)) | dict(self.named_buffers(remove_duplicate=False))
        held = [owned[name] for name in plans.exported.held]
        results = Step.apply(  # type: ignore[no-untyped-call]
            plans, owned, *tensors, *held
        )
        with torch.no_grad():
            for name in plans.exported.counted:
                owned[name] += 1
        return plans.exported.rebuilt(dict(zip(plans.results, results, strict=True)))

    def _plans_for(
        self, arguments: tuple[Any, ...], keywords: dict[str, Any], flat: list[Any], structure: Any, tensors: list[Any]
    ) -> Plans:
        forms = [(each.dtype, each.dim()) if isinstance(each, torch.Tensor) else each for each in flat]
        key = self._modes(), repr(structure), repr(forms)
        known: list[Plans] = self._plans.setdefault(key, [])
        for plans in known:
            if plans.exported.fits(tensors):
                return plans
        providers, debug = self._settings
        if debug.speaks:
            shapes = ", ".join(str(list(each.shape)) for each in tensors)
            _log.info("ORTModule exports %s for %s", type(self._original).__name__, shapes)
        known.append(Plans(export(self._original, arguments, keywords), self.training, providers, debug))
        return known[-1]

    def _modes(self) -> tuple[bool, ...]:
        return tuple(each.training for each in self._original.modules())

    def train(self, mode: bool = True) -> ORTModule:
        """Put the module, and what is in it, into training mode or out of it."""
        self._original.train(mode)
        self.training = mode
        return self

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.__dict__["_original"], name)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_plans": {}}
