"""One way through a module for autograd: a function whose forward and backward passes are runs of two sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from sardonyx.api.session import InferenceSession
from sardonyx.errors import InvalidArgument
from sardonyx.model.serde.writer import write
from sardonyx.training.gradient_model import GRADIENT
from sardonyx.training.ortmodule.debug_options import DebugOptions
from sardonyx.training.ortmodule.exported import Exported
from sardonyx.training.ortmodule.passage import GIVEN, backward_model, forward_model

Tensors = Sequence[torch.Tensor]


class Plans:
    """The sessions of a module in one mode, for one form of arguments; backward ones by what wants gradients."""

    def __init__(
        self, exported: Exported, training: bool, providers: Sequence[Any] | None, debug: DebugOptions
    ) -> None:
        self.exported, self.training, self.providers, self.debug = exported, training, providers, debug
        debug.keep(exported.model, "torch_exported", training)
        model, self.masks, self.nexts = forward_model(exported.model)
        debug.keep(model, "execution_model", training)
        self.forward = InferenceSession(write(model), providers=providers)
        self.inputs = [*exported.data, *exported.held]
        self.results = [name for name in exported.results if isinstance(name, str)]
        self._backward: dict[tuple[str, ...], InferenceSession] = {}

    def run(self, tensors: Tensors) -> dict[str, np.ndarray]:
        """All outputs by name."""
        names = [each.name for each in self.forward.get_outputs()]
        feeds = {name: array(tensor) for name, tensor in zip(self.inputs, tensors, strict=True)}
        return dict(zip(names, self.forward.run(names, feeds), strict=True))

    def backward(self, floats: Sequence[str], wanted: Sequence[str]) -> InferenceSession:
        """The session for the gradients of these inputs by those of these outputs."""
        key = (*floats, "", *wanted)
        if key not in self._backward:
            model = backward_model(self.exported.model, floats, wanted, self.exported.padding)
            self.debug.keep(model, "backward", self.training)
            self._backward[key] = InferenceSession(write(model), providers=self.providers)
        return self._backward[key]


class Step(torch.autograd.Function):
    """Tensors through plans: the inputs' in order; results are the outputs that are not fixed."""

    @staticmethod
    def forward(ctx: Any, plans: Plans, updates: dict[str, torch.Tensor], *tensors: torch.Tensor) -> Any:
        """Updates are the buffers that running statistics go to."""
        outputs = plans.run(tensors)
        device = tensors[-1].device if tensors else torch.device("cpu")
        for name, output in plans.nexts.items():
            updates[name].copy_(tensor(outputs[output], device))
        results = tuple(tensor(outputs[name], device) for name in plans.results)
        ctx.plans, ctx.masks = plans, {name: outputs[name] for name in plans.masks}
        ctx.floats = [name for name, each in zip(plans.results, results, strict=True) if each.is_floating_point()]
        ctx.mark_non_differentiable(*(each for each in results if not each.is_floating_point()))
        ctx.save_for_backward(*tensors)
        ctx.device = device
        return results

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        plans: Plans = ctx.plans
        wanted = [name for name, needs in zip(plans.inputs, ctx.needs_input_grad[2:], strict=True) if needs]
        session = plans.backward(ctx.floats, wanted)
        given = dict(zip(plans.results, gradients, strict=True))
        feeds = {name: array(each) for name, each in zip(plans.inputs, ctx.saved_tensors, strict=True)} | ctx.masks
        feeds |= {f"{name}{GIVEN}": array(given[name]) for name in ctx.floats}
        used = {each.name for each in session.get_inputs()}
        names = [f"{name}{GRADIENT}" for name in wanted]
        made = session.run(names, {name: feed for name, feed in feeds.items() if name in used})
        found = {name: tensor(each, ctx.device) for name, each in zip(wanted, made, strict=True)}
        return None, None, *(found.get(name) for name in plans.inputs)


def array(values: torch.Tensor) -> np.ndarray:
    """A tensor's elements, shared where they are on the host; InvalidArgument for types that NumPy lacks."""
    try:
        made: np.ndarray = values.detach().cpu().numpy()
    except TypeError:
        raise InvalidArgument(f"ORTModule takes no tensors of {values.dtype}; use .float() or .half()") from None
    return made


def tensor(values: np.ndarray, device: torch.device) -> torch.Tensor:
    """An array as a tensor that may be written to."""
    writable = values if values.flags.writeable else values.copy()
    return torch.from_numpy(np.ascontiguousarray(writable)).to(device)
