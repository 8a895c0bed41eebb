"""A language model at the prompt: what `generate` and `chat` have in common."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sardonyx.cli.text import count

LENGTH = 512
"""Tokens of an answer, if nothing else is said."""
UNKNOWN = 4096
"""Tokens of a chat, where the model does not say how many it knows."""


def add_search(parser: argparse.ArgumentParser) -> None:
    """The options of how tokens are chosen, and how many."""
    parser.add_argument(
        "--length", type=int, default=LENGTH, metavar="N", help=f"tokens of an answer at most ({LENGTH})"
    )
    parser.add_argument("--temperature", type=float, metavar="T", help="draw tokens, above 1 more unlikely ones")
    parser.add_argument("--top-k", type=int, metavar="K", help="draw among the K likeliest tokens")
    parser.add_argument(
        "--top-p", type=float, metavar="P", help="draw among the likeliest tokens of this likelihood in all"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="what makes draws repeatable")
    parser.add_argument("--penalty", type=float, metavar="P", help="above 1, have tokens occur again less often")
    parser.add_argument("--memory", metavar="SIZE", help="what the model may hold, as 300MB; it takes longer then")


class Speaker:
    """A model with its tokenizer, and the text that it writes at."""

    def __init__(self, args: argparse.Namespace) -> None:
        import json

        from sardonyx import genai
        from sardonyx.api.options import MEMORY_LIMIT
        from sardonyx.cli.devices import chosen
        from sardonyx.errors import InvalidArgument, InvalidValue

        if args.length < 1:
            raise InvalidArgument(f"--length {args.length}: write at least 1 token")
        self._args = args
        self._genai = genai
        config = genai.Config(args.model)
        if args.memory:
            options = {MEMORY_LIMIT: args.memory}
            config.overlay(json.dumps({"model": {"decoder": {"session_options": options}}}))
        for name in chosen(args.provider) or ():
            config.append_provider(name)
        self.tokenizer = genai.Tokenizer(config)
        with _note(f"Loading {config.folder.name or args.model} ..."):
            self.model = genai.Model(config)
        try:
            self.has_template = bool(self.tokenizer.chat_template)
        except InvalidValue:
            self.has_template = False
        self.tokenizer.update_options(add_special_tokens=args.raw or not self.has_template)
        self._generator: Any = None
        self.prompted = self.written = 0
        self.first = self.seconds = 0.0

    def chat(self, messages: Sequence[dict[str, str]]) -> str:
        """The text of a chat up to where the model answers."""
        return self.tokenizer.apply_chat_template(messages)

    def begin(self, guide: tuple[str, str] | None = None) -> None:
        """Forget what was said."""
        args = self._args
        params = self._genai.GeneratorParams(self.model)
        drawn = {"temperature": args.temperature, "top_k": args.top_k, "top_p": args.top_p}
        given = {name: value for name, value in drawn.items() if value is not None}
        if given:
            params.set_search_options(do_sample=True, **given)
        if args.seed is not None:
            params.set_search_options(random_seed=args.seed)
        if args.penalty is not None:
            params.set_search_options(repetition_penalty=args.penalty)
        params.set_search_options(max_length=self.model.config.context or UNKNOWN)
        if guide:
            params.set_guidance(*guide)
        self._generator = self._genai.Generator(self.model, params)

    def answer(self, text: str) -> Iterator[str]:
        """What the model writes after a text, part by part.

        Only what is new of the text is run: it goes on from the last answer where it begins with what was said.
        """
        from sardonyx.errors import InvalidArgument

        tokens = self.tokenizer.encode(text).tolist()
        begun = self._generator.token_count() and not self.model.encoder
        before = self._generator.get_sequence(0).tolist() if begun else []
        same = next((k for k, (a, b) in enumerate(zip(before, tokens)) if a != b), min(len(before), len(tokens)))
        same = min(same, len(tokens) - 1)
        most = self.model.config.context or UNKNOWN
        if len(tokens) >= most:
            raise InvalidArgument(f"there are {count(len(tokens), 'token')}, and the model knows no more than {most:,}")
        self.prompted, self.written, start = len(tokens) - same, 0, time.perf_counter()
        self._generator.rewind_to(same)
        with _note("Reading ..."):
            self._generator.append_tokens(tokens[same:])
        stream = self.tokenizer.create_stream()
        self.first = time.perf_counter() - start
        try:
            while self.written < self._args.length and not self._generator.is_done():
                self._generator.generate_next_token()
                self.written += 1
                (token,) = self._generator.get_next_tokens()
                if part := stream.decode(int(token)):
                    yield part
        finally:
            self.seconds = time.perf_counter() - start - self.first

    def facts(self) -> dict[str, Any]:
        """How many tokens there were, and the seconds that they took."""
        return {
            "prompt_tokens": self.prompted,
            "tokens": self.written,
            "seconds_to_first": self.first,
            "seconds": self.seconds,
        }


def summary(speaker: Speaker) -> None:
    """Tell what an answer took, where somebody watches."""
    if sys.stderr.isatty():
        rate = speaker.written / speaker.seconds if speaker.seconds else 0
        print(
            f"{count(speaker.prompted, 'token')} read in {speaker.first:.2f} s, "
            f"{count(speaker.written, 'token')} written, {rate:.1f} a second",
            file=sys.stderr,
        )


class Flow:
    """Text that comes in parts, broken between words where somebody watches.

    >>> flow = Flow(12)
    >>> parts = [flow.add(part) for part in ("The cap", "ital of", " France\\nis", " Paris")]
    >>> "".join([*parts, flow.end()])
    'The capital\\nof France\\nis Paris'
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._column = 0
        self._word = ""

    def add(self, part: str) -> str:
        """What can be shown: words that ended."""
        shown = []
        for piece in re.split(r"(\s)", part):
            if piece.isspace():
                shown.append(self._placed())
            self._word += piece
        return "".join(shown)

    def end(self) -> str:
        """What is left."""
        return self._placed()

    def _placed(self) -> str:
        """The word with the space before it, in the next line where it does not fit."""
        word, self._word = self._word, ""
        if word.startswith("\n"):
            self._column = len(word) - 1
        elif self._column + len(word.rstrip()) > self._width and word[:1].isspace() and word.strip():
            word = "\n" + word[1:]
            self._column = len(word) - 1
        else:
            self._column += len(word)
        return word


def flow() -> Flow:
    """What breaks lines for stdout: at its width, or nowhere if it is no terminal."""
    return Flow(shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize)


@contextmanager
def _note(text: str) -> Iterator[None]:
    """A line on stderr while the block runs, where somebody watches."""
    watched = sys.stderr.isatty()
    if watched:
        print(text, end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if watched:
            print(f"\r{' ' * len(text)}\r", end="", file=sys.stderr, flush=True)
