"""A language model in Python: sardonyx.genai and onnxruntime-genai with the same folder.

    python -m tests.benchmarks.language [--kind int4-contrib,...] [--threads 1,2] [--prompt 512] [--tokens 48]
        [--rounds 3] [--provider webgpu] [--write]

SmolLM2-135M reads a prompt and goes on with the likeliest tokens, each time in a process of its own, the sides in
turns. Figures are medians: until the first token, for one token more, and the most memory that a process had. Both
sides must choose the same tokens. `--provider` is where Sardonyx runs; onnxruntime-genai always runs on the CPU.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from sardonyx.common import memory
from tests.benchmarks.report import processor, publish, table
from tests.benchmarks.turns import turns
from tests.genai.smollm2 import folder

OURS, THEIRS = "sardonyx.genai", "onnxruntime_genai"
FIRST = 100
"""The first of the tokens that prompts consist of; others before it are special ones."""


def generate(side: str, place: str, prompt: int, tokens: int) -> dict[str, Any]:
    """Generate twice, of which the second time counts: seconds and bytes, and what was chosen."""
    module = import_module(side)
    model = module.Model(place)
    found: dict[str, Any] = {}
    for _ in range(2):
        params = module.GeneratorParams(model)
        params.set_search_options(max_length=prompt + tokens, do_sample=False)
        generator = module.Generator(model, params)
        given = np.random.default_rng(0).integers(FIRST, 40_000, prompt).astype(np.int32)
        moments = [perf_counter()]
        generator.append_tokens(given)
        while not generator.is_done():
            generator.generate_next_token()
            moments.append(perf_counter())
        steps = [later - before for before, later in pairwise(moments[1:])]
        found = {"first": moments[1] - moments[0], "next": statistics.median(steps)}
        found["tokens"] = np.asarray(generator.get_sequence(0))[prompt:].tolist()
    return {**found, "peak": memory.peak()}


def measure(side: str, place: Path, prompt: int, tokens: int) -> dict[str, Any]:
    """Do so in a process of its own."""
    command = [sys.executable, "-m", "tests.benchmarks.language", "--side", side, str(place), str(prompt), str(tokens)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def prepared(place: Path, threads: int, provider: str) -> Path:
    """A folder of SmolLM2 whose decoder is to have so many threads, and a provider by onnxruntime-genai's names."""
    file = place / "genai_config.json"
    config = json.loads(file.read_text())
    options = config["model"]["decoder"]["session_options"]
    options["intra_op_num_threads"] = threads
    options["provider_options"] = [{provider: {}}] if provider else []
    file.write_text(json.dumps(config))
    return place


def rows(
    kinds: list[str], threads: list[int], prompt: int, tokens: int, rounds: int, provider: str
) -> Iterator[list[str]]:
    """Rows of the table."""
    for kind in kinds:
        for count in threads:
            with tempfile.TemporaryDirectory() as scratch:
                asked = {OURS: provider, THEIRS: ""}
                places = {
                    side: prepared(folder(Path(scratch) / side, kind), count, name) for side, name in asked.items()
                }
                found: dict[str, list[dict[str, Any]]] = {OURS: [], THEIRS: []}
                for k in range(rounds):
                    for side in turns(found, k):
                        found[side].append(measure(side, places[side], prompt, tokens))
            chosen = {str(each["tokens"]) for known in found.values() for each in known}
            cells = [kind if len(chosen) == 1 else f"{kind}: the tokens differ", str(count)]
            for figure, unit in (("first", 1e3), ("next", 1e3), ("peak", 1 / 2**20)):
                ours, theirs = (statistics.median(each[figure] for each in found[side]) for side in (OURS, THEIRS))
                cells += [f"{theirs * unit:.1f}", f"{ours * unit:.1f}", f"{ours / theirs:.2f}"]
            print(" | ".join(cells), flush=True)
            yield cells


def main() -> None:
    if sys.argv[1:2] == ["--side"]:
        side, place, prompt, tokens = sys.argv[2:]
        print(json.dumps(generate(side, place, int(prompt), int(tokens))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", default="int4-contrib", metavar="NAME,...", help="decoders (default %(default)s)")
    parser.add_argument("--threads", default="1,2", metavar="N,...")
    parser.add_argument("--prompt", type=int, default=512, help="tokens that are read (default %(default)s)")
    parser.add_argument("--tokens", type=int, default=48, help="how many are generated (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each side (default %(default)s)")
    parser.add_argument("--provider", default="", metavar="NAME", help="where Sardonyx runs (the CPU unless said)")
    parser.add_argument("--write", action="store_true", help="write the table into README.md")
    arguments = parser.parse_args()
    head = ["decoder", "threads"]
    for figure in ("first token: genai, ms", "a token more: genai, ms", "peak: genai, MiB"):
        head += [figure, f"Sardonyx, {figure.split()[-1]}", "ratio"]
    threads = [int(count) for count in arguments.threads.split(",")]
    given = arguments.prompt, arguments.tokens, arguments.rounds, arguments.provider
    found = [*rows(arguments.kind.split(","), threads, *given)]
    told = f"a prompt of {arguments.prompt} tokens; onnxruntime-genai {version('onnxruntime-genai')}"
    section = f"language-{arguments.provider}" if arguments.provider else "language"
    publish(section, [*table(head, found), "", f"{processor()}; {told}."], arguments.write)


if __name__ == "__main__":
    main()
