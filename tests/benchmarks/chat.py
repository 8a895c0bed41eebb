"""Chat in a page: Sardonyx in OpenAI's form, and wllama, llama.cpp in WebAssembly, with the same weights.

    python -m tests.benchmarks.chat [--threads 1,2] [--prompt 512] [--tokens 32] [--rounds 3] [--write]

SmolLM2-135M, for wllama from its GGUF file, for Sardonyx from the decoder that is made of it, answers a question that
follows a text, of about so many tokens in all. The file has blocks of Q4_1, for which llama.cpp has no code of
WebAssembly's own; another with Q4_0, for which it has, is made of it. Each round has pages of its own, the sides in
turns, and figures are medians: until the first text, and for each piece of text more.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sardonyx.genai import Config, page
from tests.benchmarks.report import processor, publish, table
from tests.benchmarks.turns import turns
from tests.genai import smollm2
from tests.support.browser import Chromium, open_chromium
from tests.support.npm import PACKAGES, package
from tests.web.pages import RUNTIME

OURS, THEIRS = "Sardonyx", "wllama"
FILES = {"Q4_1": smollm2.gguf_file, "Q4_0": smollm2.requantized}
"""What wllama loads, by the kind of most of its blocks."""
IMPORTS = {
    "@huggingface/tokenizers": "/tokenizers/dist/tokenizers.min.mjs",
    "@huggingface/jinja": "/jinja/dist/index.js",
}
PAGE = """<!doctype html><script type="importmap">{"imports": %s}</script>
<script type="module">globalThis.bench = await import("/benchmarks/chat.mjs");</script>"""
SENTENCE = "The river rises in the hills, passes the old mill and the market, and meets the sea behind the harbour. "
TOKENS = 23
"""Of the sentence."""
QUESTION = "Where does the river meet the sea? Answer at length."


@contextmanager
def opened() -> Iterator[Chromium]:
    """Give a browser, in which /data/chat/ has what both sides load."""
    with tempfile.TemporaryDirectory() as scratch:
        place = page.write(Config(smollm2.folder(Path(scratch))), Path(scratch, "page"))
        folders = {
            "sardonyx": RUNTIME,
            "benchmarks": Path(__file__).parent,
            "tokenizers": package("@huggingface/tokenizers"),
            "jinja": package("@huggingface/jinja"),
            "wllama": package("@wllama/wllama"),
        }
        with open_chromium(folders) as chromium:
            chromium.site.data |= {f"chat/{file.name}": file for file in place.iterdir()}
            chromium.site.data |= {f"chat/{kind}.gguf": made() for kind, made in FILES.items()}
            chromium.site.data["page.html"] = (PAGE % json.dumps(IMPORTS)).encode()
            yield chromium


def measure(chromium: Chromium, *given: Any) -> dict[str, Any]:
    opened = chromium.browser.new_page()
    opened.set_default_timeout(600_000)
    try:
        opened.goto(f"{chromium.site.address}/data/page.html")
        opened.wait_for_function("globalThis.bench")
        found: dict[str, Any] = opened.evaluate("(given) => bench.chat(...given)", list(given))
        return found
    finally:
        opened.close()


def rows(threads: list[int], prompt: int, tokens: int, rounds: int) -> Iterator[list[str]]:
    """Rows of the table."""
    text = SENTENCE * (prompt // TOKENS) + QUESTION
    messages = [{"role": "user", "content": text}]
    with opened() as chromium:
        for count in threads:
            found: dict[str, list[dict[str, Any]]] = {OURS: [], **{kind: [] for kind in FILES}}
            for k in range(rounds):
                for side in turns(found, k):
                    named = OURS if side == OURS else THEIRS
                    given = f"/data/chat/{side}.gguf" if named == THEIRS else "/data/chat"
                    found[side].append(measure(chromium, named, given, count, messages, tokens))
            for kind in FILES:
                cells = [str(count), kind]
                for figure in ("first", "next"):
                    ours, theirs = (statistics.median(each[figure] for each in found[side]) for side in (OURS, kind))
                    cells += [f"{theirs:.0f}", f"{ours:.1f}", f"{ours / theirs:.2f}"]
                print(" | ".join(cells), flush=True)
                yield cells
            for side, measured in found.items():
                print(f"  {side}: {measured[0]['count']} pieces, {measured[0]['text'][:60]!r}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", default="1,2", metavar="N,...")
    parser.add_argument("--prompt", type=int, default=512, help="tokens that are read (default %(default)s)")
    parser.add_argument("--tokens", type=int, default=32, help="how many are generated (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="pages of each side (default %(default)s)")
    parser.add_argument("--write", action="store_true", help="write the table into README.md")
    arguments = parser.parse_args()
    head = ["threads", f"{THEIRS}'s weights"]
    for figure in ("first text", "a piece more"):
        head += [f"{figure}: {THEIRS}, ms", f"{OURS}, ms", "ratio"]
    threads = [int(count) for count in arguments.threads.split(",")]
    found = [*rows(threads, arguments.prompt, arguments.tokens, arguments.rounds)]
    told = f"about {arguments.prompt} tokens are read; @wllama/wllama {PACKAGES['@wllama/wllama'][0]}"
    publish("chat", [*table(head, found), "", f"{processor()}; {told}."], arguments.write)


if __name__ == "__main__":
    main()
