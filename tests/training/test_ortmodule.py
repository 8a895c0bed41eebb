"""Modules of PyTorch that run here learn what they learn in PyTorch."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from sardonyx.errors import Fail, InvalidArgument, NotImplemented
from tests.engine.providers import NUMPY, PROVIDERS, require_provider
from tests.support import require

pytestmark = pytest.mark.nightly


@pytest.fixture(autouse=True)
def _torch_is_there() -> None:
    require("torch")


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("name", ["cnn", "lstm", "bert"])
def test_fifty_steps(name: str, provider: str) -> None:
    import torch
    from torch.nn.functional import cross_entropy

    from sardonyx.training.ortmodule import ORTModule
    from tests.training.ortmodule_programs import PROGRAMS, batches, logits

    require_provider(provider)
    torch.manual_seed(0)
    theirs = PROGRAMS[name]()
    ours = ORTModule(copy.deepcopy(theirs), providers=[provider])
    assert list(ours.state_dict()) == list(theirs.state_dict())
    sides = [(module, torch.optim.AdamW(module.parameters(), lr=3e-3)) for module in (theirs, ours)]
    losses = []
    for arguments, keywords, labels in batches(name):
        both = []
        for module, optimizer in sides:
            optimizer.zero_grad()
            loss = cross_entropy(logits(module(*arguments, **keywords)), labels)
            loss.backward()
            optimizer.step()
            both.append(loss.item())
        losses.append(both)
    np.testing.assert_allclose(*np.transpose(losses), rtol=0, atol=1e-4)
    assert losses[-1][0] < 0.8 * losses[0][0]
    for (key, one), other in zip(ours.named_buffers(), theirs.buffers(), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-3, atol=1e-4, err_msg=key)
    ours.eval()
    theirs.eval()
    with torch.no_grad():
        found, wanted = (logits(module(*arguments, **keywords)) for module in (ours, theirs))
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-3, atol=1e-3)


def test_gradients_reach_inputs_through_what_dropout_kept() -> None:
    import torch
    from torch import nn

    from sardonyx.training.ortmodule import ORTModule

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f, self.drop = nn.Linear(8, 8), nn.Dropout(0.25)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            kept: torch.Tensor = self.drop(self.f(x))
            return kept

    module = ORTModule(Layer(), providers=[NUMPY])
    x = torch.randn(50, 8, requires_grad=True)
    y, z = module(x), module(x)
    assert 0.1 < (y == 0).float().mean() < 0.4
    assert ((y == 0) != (z == 0)).any()
    y.sum().backward()
    assert x.grad is not None
    (wanted,) = torch.autograd.grad((module.f(x) * (y != 0) / 0.75).sum(), x)
    torch.testing.assert_close(x.grad, wanted)
    module.eval()
    torch.testing.assert_close(module(x), module.f(x))


def test_a_part_of_a_module(tmp_path: Path) -> None:
    """Structure, frozen and shared parameters, integers, copies, pickles, precision, files."""
    import torch
    from torch import nn

    from sardonyx.training.ortmodule import DebugOptions, ORTModule
    from tests.training.ortmodule_parts import Shared

    whole = nn.Sequential(ORTModule(nn.Linear(3, 3)), nn.ReLU(), nn.Linear(3, 1))
    assert [name for name, _ in whole.named_parameters()] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    for module in (whole, copy.deepcopy(whole), pickle.loads(pickle.dumps(whole))):
        module(torch.randn(2, 3)).sum().backward()
        assert module[0].weight.grad.shape == (3, 3)
    shared = ORTModule(Shared())
    first, place, three = shared(torch.randn(2, 3))
    first.sum().backward()
    assert (place.dtype, three) == (torch.int64, 3)
    assert {name: each.grad is not None for name, each in shared.named_parameters()} == {
        "f.weight": True,
        "f.bias": False,
        "g.bias": True,
    }
    for kind in (torch.float16, torch.float64):
        layer = nn.Linear(3, 3).to(kind)
        found = ORTModule(layer)(torch.ones(1, 3, dtype=kind))  # a batch of one is a form of its own
        assert found.dtype == kind
        exact = copy.deepcopy(layer).double()(torch.ones(1, 3, dtype=torch.float64))
        assert (found - exact).abs().max() < 2 * torch.finfo(kind).eps
    prefix = tmp_path / "net"
    ORTModule(nn.Linear(3, 3), DebugOptions(save_onnx=True, onnx_prefix=prefix))(torch.ones(2, 3)).sum().backward()
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == [
        f"net_{kind}_training.onnx" for kind in ("backward", "execution_model", "torch_exported")
    ]
    assert onnx.load(files[0]).graph.node[-1].op_type == "Gradient"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_padding_does_not_learn(provider: str) -> None:
    """The rows that `padding_idx` names get no gradient by their embedding, of either type of integers."""
    import torch

    from sardonyx.training.ortmodule import ORTModule
    from tests.training.ortmodule_parts import Padded

    require_provider(provider)
    theirs = Padded()
    ours = ORTModule(copy.deepcopy(theirs), providers=[provider])
    for words in (torch.arange(9).reshape(3, 3), torch.tensor([[0, 0, 3], [8, 8, 1]], dtype=torch.int32)):
        for module in (theirs, ours):
            module.zero_grad()
            (module(words) ** 3).mean().backward()
        for (name, one), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
            assert one.grad is not None
            assert other.grad is not None
            np.testing.assert_allclose(one.grad, other.grad, rtol=1e-4, atol=1e-3, err_msg=name)


def test_what_is_refused() -> None:
    import torch
    from torch import nn

    from sardonyx.training.ortmodule import DebugOptions, ORTModule
    from tests.training.ortmodule_parts import Choosing, Counting

    with pytest.raises(NotImplemented, match="changes the buffer 'seen'"):
        ORTModule(Counting())(torch.ones(2, 3))
    with pytest.raises(NotImplemented, match="decomposes GRU wrongly"):
        ORTModule(nn.GRU(3, 3))(torch.ones(2, 4, 3))
    with pytest.raises(NotImplemented, match="the gradient of embedding: leave out scale_grad_by_freq"):
        ORTModule(nn.Embedding(3, 3, scale_grad_by_freq=True))(torch.ones(2, dtype=torch.int64))
    with pytest.raises(Fail, match="cannot export Choosing"):
        ORTModule(Choosing())(torch.ones(2, 3))
    with pytest.raises(InvalidArgument, match=r"no tensors of torch[.]bfloat16; use [.]float\(\)"):
        ORTModule(nn.Linear(3, 3).bfloat16())(torch.ones(2, 3).bfloat16())
    with pytest.raises(InvalidArgument, match=r"wraps a torch[.]nn[.]Module, not int"):
        ORTModule(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="is an ORTModule already"):
        ORTModule(ORTModule(nn.Linear(3, 3)))
    with pytest.raises(InvalidArgument, match="save_onnx wants onnx_prefix"):
        DebugOptions(save_onnx=True)


def test_without_torch() -> None:
    script = "import sys; sys.modules['torch'] = None\nimport sardonyx.training\nsardonyx.training.ORTModule"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=500)
    assert (
        done.stderr.splitlines()[-1] == "ImportError: ORTModule: torch is not installed; pip install torch onnxscript"
    )
