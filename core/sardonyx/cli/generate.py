"""continue a text by a language model

MODEL is a folder with genai_config.json or config.json, or the .onnx file of a decoder with tokenizer.json or a .gguf
file beside it. The prompt is a user's message where the model has a template of chats, and a text to be continued with
--raw. Without a prompt, or with "-", it is read from stdin. The text comes as it is written; what it took is told on
stderr at the end, if that is a terminal.

The likeliest token is taken, unless --temperature, --top-k or --top-p has tokens drawn, which --seed makes repeatable.
--schema FILE has the text follow a JSON schema, and --regex a regular expression.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from sardonyx.cli.devices import add_provider
    from sardonyx.cli.language import add_search

    parser.add_argument("model", metavar="MODEL", help="a folder, or the .onnx file of a decoder")
    parser.add_argument("prompt", metavar="PROMPT", nargs="?", default="-", help="what is asked, or - for stdin")
    parser.add_argument("--raw", action="store_true", help="continue the text as it stands, without a chat's template")
    parser.add_argument("--schema", type=Path, metavar="FILE", help="a JSON schema that the text must follow")
    parser.add_argument("--regex", metavar="PATTERN", help="a regular expression that the text must follow")
    add_search(parser)
    add_provider(parser)


def run(args: argparse.Namespace) -> None:
    import json

    from sardonyx.cli.language import Speaker, flow, summary
    from sardonyx.errors import InvalidArgument

    if args.schema and args.regex:
        raise InvalidArgument("--schema and --regex exclude each other")
    guide = ("json_schema", _schema(args.schema)) if args.schema else ("regex", args.regex)
    prompt = sys.stdin.read() if args.prompt == "-" else args.prompt
    if not prompt.strip():
        raise InvalidArgument("there is no prompt; give one in quotation marks, or on stdin")
    speaker = Speaker(args)
    text = prompt if args.raw or not speaker.has_template else speaker.chat([{"role": "user", "content": prompt}])
    speaker.begin(guide if guide[1] else None)
    parts, lines = [], flow()
    for part in speaker.answer(text):
        parts.append(part)
        if not args.json:
            print(lines.add(part), end="", flush=True)
    if args.json:
        print(json.dumps({"model": str(args.model), "text": "".join(parts), **speaker.facts()}, indent=2))
        return
    print(lines.end())
    summary(speaker)


def _schema(path: Path) -> str:
    """The text of a JSON file; NoSuchFile or InvalidArgument where it is none."""
    import json

    from sardonyx.cli.files import contents
    from sardonyx.errors import InvalidArgument

    text = contents(path)
    try:
        json.loads(text)
    except ValueError as error:
        raise InvalidArgument(f"--schema {path} is no JSON: {error}") from error
    return text.decode("utf-8")
