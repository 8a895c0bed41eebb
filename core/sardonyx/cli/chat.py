"""talk with a language model

MODEL is a folder with genai_config.json or config.json, or the .onnx file of a decoder, and has a template of chats.
Answers come as they are written. /reset begins a new chat, /quit or Ctrl+D ends it, and Ctrl+C ends an answer. Where
stdin is no terminal, each of its lines is a question, and --json prints each answer as an object in a line.

--pack DIR makes a folder instead from which a page talks with the model, by web/sardonyx/genai/chat.js: the model
compiled, with its tokenizer, its template, and when to end.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import suppress

PROMPT = "> "


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from sardonyx.cli.devices import add_provider
    from sardonyx.cli.language import add_search

    parser.add_argument("model", metavar="MODEL", help="a folder, or the .onnx file of a decoder")
    parser.add_argument("--system", metavar="TEXT", help="what the model is told before the chat")
    parser.add_argument("--pack", metavar="DIR", help="make a folder for pages instead")
    parser.add_argument("--target", default="wasm", metavar="NAME,...", help="for --pack: wasm, webgpu or both (wasm)")
    parser.set_defaults(raw=False)
    add_search(parser)
    add_provider(parser)


def run(args: argparse.Namespace) -> None:
    import json

    from sardonyx.cli.language import Speaker, flow, summary
    from sardonyx.errors import InvalidArgument

    if args.pack:
        pack(args.model, args.pack, args.target)
        return
    speaker = Speaker(args)
    if not speaker.has_template:
        raise InvalidArgument(f"{args.model} has no template of chats; sardonyx generate --raw continues a text")
    beginning = [{"role": "system", "content": args.system}] if args.system else []
    messages = list(beginning)
    speaker.begin()
    watched = sys.stdin.isatty()
    if watched:
        print("/reset begins anew, /quit ends, Ctrl+C ends an answer.")
    for question in _questions(watched):
        if question == "/reset":
            messages = list(beginning)
            speaker.begin()
            continue
        messages.append({"role": "user", "content": question})
        parts, lines = list[str](), flow()
        try:
            for part in speaker.answer(speaker.chat(messages)):
                parts.append(part)
                if not args.json:
                    print(lines.add(part), end="", flush=True)
        except KeyboardInterrupt:
            if not watched:
                raise
        except InvalidArgument as error:
            if not watched:
                raise
            print(f"{error}; /reset begins anew")
            messages.pop()
            continue
        messages.append({"role": "assistant", "content": "".join(parts)})
        if args.json:
            print(json.dumps({"question": question, "answer": "".join(parts), **speaker.facts()}), flush=True)
            continue
        print(lines.end())
        summary(speaker)


def pack(model: str, folder: str, targets: str) -> None:
    """Make the folder for pages, and tell what is in it."""
    from sardonyx.cli.compile import targets_of
    from sardonyx.common.units import nbytes
    from sardonyx.genai import Config, page

    place = page.write(Config(model), folder, targets_of(targets))
    for file in sorted(place.iterdir()):
        print(f"{file}  {nbytes(file.stat().st_size)}")


def _questions(watched: bool) -> Iterator[str]:
    """What is asked, line by line, until the end."""
    if watched:
        with suppress(ImportError):  # Windows has none
            import readline  # noqa: F401  which gives `input` its keys
    while True:
        try:
            line = input(PROMPT if watched else "").strip()
        except EOFError:
            if watched:
                print()
            return
        except KeyboardInterrupt:
            if not watched:
                raise
            print("\n/quit ends the chat.")
            continue
        if line in ("/quit", "/exit"):
            return
        if line:
            yield line
