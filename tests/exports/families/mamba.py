"""Mamba (Gu and Dao, 2023): a selective scan, step by step."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.exports.case import Arguments, Case

WIDTH, INNER, STATES = 16, 32, 4


@torch.jit.script
def looped(state: Tensor, decay: Tensor, added: Tensor, read: Tensor) -> Tensor:
    """Return, for each step of the first axis, `read` of the state that decays and is added to."""
    outputs = torch.jit.annotate(list[Tensor], [])
    for step in range(decay.size(0)):
        state = decay[step] * state + added[step]
        outputs.append((state * read[step].unsqueeze(1)).sum(-1))
    return torch.stack(outputs)


def scanned(state: Tensor, decay: Tensor, added: Tensor, read: Tensor) -> Tensor:
    """Return what `looped` does."""

    def step(state: Tensor, now: list[Tensor]) -> tuple[Tensor, Tensor]:
        state = now[0] * state + now[1]
        return state, (state * now[2].unsqueeze(1)).sum(-1)

    _, outputs = torch._higher_order_ops.scan(step, state, [decay, added, read], dim=0)
    return outputs


class Mamba(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(WIDTH) + 0.5)
        self.inputs = nn.Linear(WIDTH, 2 * INNER, bias=False)
        self.convolution = nn.Conv1d(INNER, INNER, 4, groups=INNER, padding=3)
        self.parameters_of_step = nn.Linear(INNER, 2 + 2 * STATES, bias=False)
        self.pace = nn.Linear(2, INNER)
        self.logarithms = nn.Parameter(torch.log(torch.arange(1.0, STATES + 1)).repeat(INNER, 1))
        self.direct = nn.Parameter(torch.randn(INNER))
        self.outputs = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, sequence: Tensor) -> Tensor:
        x = self.scale * sequence * torch.rsqrt(sequence.pow(2).mean(-1, keepdim=True) + 1e-5)
        x, gate = self.inputs(x).chunk(2, dim=-1)
        x = self.convolution(x.transpose(1, 2))[:, :, : sequence.shape[1]].transpose(1, 2)
        x = functional.silu(x)
        pace, write, read = self.parameters_of_step(x).split([2, STATES, STATES], dim=-1)
        pace = functional.softplus(self.pace(pace))
        decay = torch.exp(pace[..., None] * -torch.exp(self.logarithms))
        added = (pace * x)[..., None] * write[:, :, None]
        state = torch.zeros_like(decay[:, 0])
        steps = [part.transpose(0, 1) for part in (decay, added, read)]
        scan = scanned if torch.compiler.is_exporting() else looped
        y = scan(state, *steps).transpose(0, 1) + x * self.direct
        return sequence + self.outputs(y * functional.silu(gate))


def mamba() -> Case:
    def arguments(batch: int, length: int) -> Arguments:
        return {"sequence": torch.randn(batch, length, WIDTH)}

    return Case(Mamba(), arguments, {"sequence": {0: "batch", 1: "length"}}, ((2, 7), (3, 19)))
