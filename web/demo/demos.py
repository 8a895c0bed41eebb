"""Fetches and compiles what the demonstrations besides the digits load: 240 MB of packages, once.

`make demos` runs it, and `make web` serves what it leaves. By hand, words choose among them:

    python web/demo/demos.py [reading] [meaning] [chat] [voice] [--folder build/demo]
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import subprocess
import sys
import tempfile
import wave
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sardonyx import InferenceSession
from sardonyx.api.bundling import bundle_of
from sardonyx.common.atomic import replacing
from sardonyx.common.units import nbytes
from sardonyx.genai import Config, gguf_folder, page
from sardonyx.plans.plan_cache import Source
from sardonyx.version import __version__

HERE = Path(__file__).resolve().parent
if not __package__:  # started as a script
    sys.path.insert(0, str(HERE.parents[1]))

from web.demo.archives import (  # noqa: E402
    JINJA,
    MINILM,
    OCR,
    ONNXRUNTIME,
    SMOLLM,
    TOKENIZERS,
    TRANSFORMERS,
    VAD,
    VOICE,
    WORDS,
    Archive,
)

FOLDER = HERE.parents[1] / "build" / "demo"
SOURCES, DEMOS = "sources", "demos"
"""The parts of the folder: what was fetched, and what pages load."""
ABOUT = "about.json"
SPEECH = 12
"""Seconds of the sample."""


def reading(sources: Path, target: Path) -> None:
    """The models that find lines and read them, and the letters by number; the first stands for none (CTC)."""
    for name in ("det", "rec"):
        _compile(sources / f"{name}.onnx", target / f"{name}.sdx", ["wasm", "webgpu"])
    told = InferenceSession(sources / "rec.onnx").get_modelmeta().custom_metadata_map["character"]
    (target / "letters.json").write_text(json.dumps(["", *told.splitlines(), " "], ensure_ascii=False), "utf-8")


def meaning(sources: Path, target: Path) -> None:
    """transformers.js, a model of sentences under the name by which that asks for it, and its words."""
    _compile(sources / "minilm.onnx", target / "minilm" / "onnx" / "model_quantized.onnx", ["wasm"])
    with zipfile.ZipFile(sources / "minilm.zip") as words:
        for name in ("config.json", "tokenizer_config.json"):
            (target / "minilm" / name).write_bytes(words.read(name))
        tokenizer = json.loads(words.read("tokenizer.json")) | {"truncation": None, "padding": None}
    (target / "minilm" / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False), "utf-8")
    _onnxruntime(sources, target)
    shutil.copy(sources / "transformers.js", target)


def chat(sources: Path, target: Path) -> None:
    """A decoder of SmolLM2 with weights of 4 bits, as tests make it, and what reads and writes its words."""
    import onnx

    from tests.models.derived import smollm2, weights

    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        onnx.save(smollm2.Contributed(weights.weights()).model(), folder / "model.onnx")
        gguf_folder.write(sources / "smollm2.gguf", folder, "model.onnx")
        config = Config(folder)
        config.model["context_length"] = weights.POSITIONS
        page.write(config, target, ["wasm", "webgpu"])
    for name in ("tokenizers.js", "jinja.js"):
        shutil.copy(sources / name, target)


def voice(sources: Path, target: Path) -> None:
    """vad-web in one module, its model under the model's own name, and some seconds of speech."""
    sizes = {"sequence": "1536"}
    _compile(sources / "silero.onnx", target / "silero_vad_legacy.onnx", ["wasm"], sizes)
    _onnxruntime(sources, target)
    (target / "vad.js").write_text(_module(sources / "vad", "index", "onnxruntime-web", ["MicVAD"]), "utf-8")
    shutil.copy(sources / "vad.worklet.bundle.min.js", target)
    (target / "speech.wav").write_bytes(_start(sources / "speech.wav", SPEECH))


@dataclass(frozen=True)
class Demo:
    """`make` puts into a folder what the page loads, out of the files of `archives`."""

    archives: Sequence[Archive]
    make: Callable[[Path, Path], None]


ALL: Mapping[str, Demo] = {
    "reading": Demo([OCR], reading),
    "meaning": Demo([MINILM, WORDS, TRANSFORMERS, ONNXRUNTIME], meaning),
    "chat": Demo([SMOLLM, TOKENIZERS, JINJA], chat),
    "voice": Demo([VAD, ONNXRUNTIME, VOICE], voice),
}
"""By the names of their pages."""


def prepare(name: str, folder: Path, sources: Path | None = None) -> int:
    """Put what a page loads into `folder`/demos/`name`, unless it is there; its bytes.

    `about.json` is written last: `{"release", "bytes"}`, by which the page sees that all is there.

    Raises:
        subprocess.CalledProcessError: a registry's client failed.
        ValueError: an archive is not the one that it should be.
    """
    demo = ALL[name]
    target = folder / DEMOS / name
    about = target / ABOUT
    if about.is_file() and (told := json.loads(about.read_text()))["release"] == __version__:
        return int(told["bytes"])
    sources = sources or folder / SOURCES
    for archive in demo.archives:
        archive.fetch(sources)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    demo.make(sources, target)
    size = sum(file.stat().st_size for file in target.rglob("*") if file.is_file())
    about.write_text(json.dumps({"release": __version__, "bytes": size}))
    return size


def _compile(model: Path, target: Path, targets: Sequence[str], sizes: Mapping[str, str] | None = None) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as file:
        file.writelines(bundle_of(Source(model), targets, sizes=sizes, compress=True))


def _onnxruntime(sources: Path, target: Path) -> None:
    """What the interface of onnxruntime-web is made of: sessions behind it are Sardonyx's."""
    shutil.copytree(sources / "common", target / "common")


MODULE = """import * as outer from "{outer}";
const texts = {{
{texts}
}};
const done = {{}};
function taken(place) {{
  const name = place in texts ? place : `${{place}}/index`;
  if (name in done) return done[name].exports;
  const module = (done[name] = {{ exports: {{}} }});
  const require = (path) => (path.startsWith(".") ? taken(new URL(path, `file://${{name}}`).pathname) : outer);
  texts[name](module, module.exports, require);
  return module.exports;
}}
export const {{ {names} }} = taken("/{entry}");
"""


def _module(folder: Path, entry: str, outer: str, names: Sequence[str]) -> str:
    """A package's CommonJS files, as they are, in one module for browsers: what it requires besides is `outer`."""
    texts = [
        f"{json.dumps('/' + file.relative_to(folder).with_suffix('').as_posix())}: (module, exports, require) => {{\n"
        f"{file.read_text('utf-8')}\n}},"
        for file in sorted(folder.rglob("*.js"))
    ]
    return MODULE.format(outer=outer, texts="\n".join(texts), names=", ".join(names), entry=entry)


def _start(sound: Path, seconds: int) -> bytes:
    """The first seconds of a WAV file, as one."""
    found = io.BytesIO()
    with wave.open(str(sound)) as whole, wave.open(found, "wb") as part:
        part.setparams(whole.getparams())
        part.writeframes(whole.readframes(seconds * whole.getframerate()))
    return found.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description="Fetch and compile what the demonstrations load.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(ALL)}; all, if none is given")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where it is kept (build/demo)")
    args = parser.parse_args()
    if unknown := set(args.names) - set(ALL):
        parser.error(f"there is no {min(unknown)!r}; there are {', '.join(ALL)}")
    for name in args.names or ALL:
        print(f"{name}: ", end="", flush=True)
        try:
            print(nbytes(prepare(name, args.folder)))
        except (subprocess.CalledProcessError, OSError, ValueError) as error:
            sys.exit(f"not fetched: {error}")


if __name__ == "__main__":
    main()
