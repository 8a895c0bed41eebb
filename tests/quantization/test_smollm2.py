"""A real decoder in 4 bits: both tools write the same file, and both libraries the same text with it."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from gguf import GGUFReader
from gguf.quants import dequantize
from onnxruntime.quantization import matmul_nbits_quantizer as theirs

from sardonyx.genai import gguf_folder
from sardonyx.quantization.matmul_nbits_quantizer import KQuantWeightOnlyQuantConfig, MatMulNBitsQuantizer
from tests.genai import smollm2
from tests.genai.sides import finish, generator, ours
from tests.genai.sides import theirs as their_model
from tests.models.chat import ANSWER, PROMPT
from tests.models.derived.smollm2 import Contributed
from tests.models.derived.weights import halved
from tests.quantization.weights import told

pytestmark = pytest.mark.nightly
WASM = "WasmExecutionProvider"
OPTIONS: dict[str, Any] = {"bits": 4, "block_size": 32, "is_symmetric": False}


class Plain(Contributed):
    """The decoder with products of float32."""

    def linear(self, x: str, weight: str, **keywords: Any) -> str:
        return self.graph.MatMul(x, self.graph.tensor(f"{weight}.T", self.weights[weight].T), **keywords)


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The decoder in float32, 600 MB."""
    tensors = GGUFReader(smollm2.gguf_file()).tensors
    weights = {tensor.name: dequantize(tensor.data, tensor.tensor_type).astype(np.float32) for tensor in tensors}
    for name, matrix in weights.items():
        if name.endswith(("attn_q.weight", "attn_k.weight")):
            weights[name] = halved(matrix)
    made = Plain({name.removesuffix(".weight"): matrix for name, matrix in weights.items()}).model()
    path = tmp_path_factory.mktemp("decoder") / "decoder.onnx"
    onnx.save(made, path)
    return path


def saved(quantizer: Any, folder: Path) -> Path:
    """A folder with what a quantizer of either tool made, and the files of its tokenizer."""
    folder.mkdir()
    quantizer.process()
    quantizer.model.save_model_to_file(str(folder / "model.onnx"))
    gguf_folder.write(smollm2.gguf_file(), folder, "model.onnx")
    return folder


def test_the_same_file_and_the_same_tokens(decoder: Path, tmp_path: Path) -> None:
    found = saved(MatMulNBitsQuantizer(decoder, **OPTIONS), tmp_path / "ours")
    expected = saved(theirs.MatMulNBitsQuantizer(str(decoder), **OPTIONS), tmp_path / "theirs")
    one, other = (told(onnx.load(folder / "model.onnx")) for folder in (found, expected))
    assert one == other
    sizes = [folder.stat().st_size for folder in (found / "model.onnx", expected / "model.onnx")]
    assert abs(sizes[0] - sizes[1]) < 10_000
    tokens = [
        finish(generator(model, PROMPT, max_length=80)).get_sequence(0).tolist()
        for model in (ours(found, WASM), ours(expected, WASM), their_model(found))
    ]
    assert tokens[0] == tokens[1] == tokens[2]
    assert tokens[0][len(PROMPT) :][: len(ANSWER)] == ANSWER


def test_k_quant_writes_text(decoder: Path, tmp_path: Path) -> None:
    config = KQuantWeightOnlyQuantConfig(op_types_to_quantize=("MatMul",))
    found = saved(MatMulNBitsQuantizer(decoder, block_size=32, algo_config=config), tmp_path / "k-quant")
    model = ours(found, WASM)
    text = finish(generator(model, PROMPT, max_length=80)).get_sequence(0).tolist()
    assert text == finish(generator(their_model(found), PROMPT, max_length=80)).get_sequence(0).tolist()
    assert text[len(PROMPT) :][: len(ANSWER)] == ANSWER
