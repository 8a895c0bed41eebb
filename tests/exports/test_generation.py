"""A language model that PyTorch exported writes what PyTorch writes, word by word from a cache that grows."""

from __future__ import annotations

import numpy as np
import pytest

import sardonyx
from tests.engine.providers import PROVIDERS, require_provider

pytestmark = pytest.mark.nightly


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("bound", [False, True], ids=["plain", "bound"])
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_gpt2_writes_eight_words(exporter: str, bound: bool, provider: str) -> None:
    import torch

    from tests.exports.export import case, exported
    from tests.exports.families.gpt2 import arguments

    require_provider(provider)
    torch.manual_seed(2)
    given = arguments(batch=2, length=6, before=0)
    words, past = given["input_ids"], given["past"]
    session = sardonyx.InferenceSession(exported("gpt2.gpt2", exporter), providers=[provider])
    inputs = [argument.name for argument in session.get_inputs()]
    outputs = [argument.name for argument in session.get_outputs()]
    feeds = dict(zip(inputs, [words.numpy(), *(value.numpy() for value in past)], strict=True))
    binding = session.io_binding()
    for _ in range(8):
        with torch.no_grad():
            wanted, past = case("gpt2.gpt2").module(words, past)
        if bound:
            for name, value in feeds.items():
                bind = binding.bind_cpu_input if isinstance(value, np.ndarray) else binding.bind_ortvalue_input
                bind(name, value)
            for name in outputs:
                binding.bind_output(name, "webgpu" if "WebGpu" in provider and name != outputs[0] else "cpu")
            session.run_with_iobinding(binding)
            scores, *presents = binding.get_outputs()
            scores = scores.numpy()
        else:
            scores, *presents = session.run(None, feeds)
        np.testing.assert_allclose(scores, wanted.numpy(), rtol=0, atol=1e-4 * wanted.abs().max().item())
        words = wanted[:, -1:].argmax(-1)
        assert (scores[:, -1:].argmax(-1) == words.numpy()).all()
        feeds = dict(zip(inputs, [words.numpy(), *presents], strict=True))
    assert session.compiled <= 3
