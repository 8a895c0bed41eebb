"""Models that PyTorch exports agree with PyTorch, at the size that was exported and at another."""

from __future__ import annotations

import numpy as np
import pytest

import sardonyx
from tests.engine.providers import PROVIDERS, require_provider

NAMES = [
    "residual.resnet18",
    "residual.resnet50",
    "mobile.mobilenet_v3",
    "mobile.efficientnet",
    "convnext.convnext",
    "unet.unet",
    "unet.unet_bilinear",
    "unet.denoiser",
    "vision.vit",
    "vision.swin",
    "bert.bert",
    "gpt2.gpt2",
    "t5.t5",
    "whisper.encoder",
    "whisper.decoder",
    "recurrent.tagger",
    "recurrent.recogniser",
    "audio.wavenet",
    "audio.spectrum",
    "detector.detector",
    "mamba.mamba",
    "llama.llama",
    "llama.mixture",
    "generative.vqvae",
    "generative.super_resolution",
    "spatial.spatial_transformer",
    "spatial.volumes",
    "spatial.message_passing",
    "mixing.fnet",
    "mixing.clip",
]

ONLY = {"mixing.fnet": "dynamo", "recurrent.recogniser": "torchscript"}
"""What one exporter cannot export: TorchScript's knows no Fourier transform, dynamo's decomposes GRU wrongly."""

WITH_ATTENTION = ["unet.denoiser", "vision.vit", "bert.bert", "whisper.encoder", "whisper.decoder", "llama.llama"]
"""What has fewer and larger nodes from operator set 23 on."""

pytestmark = pytest.mark.nightly


@pytest.mark.parametrize("name", NAMES)
def test_what_comes_out_depends_on_what_goes_in(name: str) -> None:
    import torch

    from tests.exports.export import case, expected

    subject = case(name)
    torch.manual_seed(3)
    with torch.no_grad():
        result = subject.module(**subject.arguments(*subject.sizes[0]))
    first, other = expected(name, subject.sizes[0])[0], (result if isinstance(result, torch.Tensor) else result[0])
    if first.shape == other.shape:
        assert np.abs(first - other.numpy()).max() > 0.1 * np.abs(first).max()


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("name", "exporter"),
    [
        (name, exporter)
        for name in NAMES
        for exporter in ("torchscript", "dynamo")
        if exporter == ONLY.get(name, exporter)
    ]
    + [(name, "dynamo-opset23") for name in WITH_ATTENTION],
)
def test_agrees_with_pytorch(name: str, exporter: str, provider: str) -> None:
    from tests.exports.export import at, case, expected, exported, feeds

    require_provider(provider)
    session = sardonyx.InferenceSession(exported(name, exporter), providers=[provider])
    for size in case(name).sizes:
        found, wanted = session.run(None, feeds(at(name, size))), expected(name, size)
        for ours, theirs in zip(found, wanted, strict=True):
            assert ours.dtype == theirs.dtype
            assert ours.shape == theirs.shape
            if ours.dtype.kind == "f":
                np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-4 * np.abs(theirs).max(initial=1e-30))
            else:
                np.testing.assert_array_equal(ours, theirs)
