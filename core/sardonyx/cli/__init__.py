"""The command line, `sardonyx COMMAND` or `python -m sardonyx COMMAND`: what people type; nothing that code would call.

A command is a module of this package, or an object that another package offers under its name as an entry point of the
group `sardonyx.commands`:

    [project.entry-points."sardonyx.commands"]
    serve = "sardonyx_edge.commands:serve"

Either has a docstring, whose first line is the help; `add_arguments(parser)`, which gets an `argparse.ArgumentParser`;
and `run(args)`, which gets the parsed arguments, prints to stdout, raises whatever goes wrong, and gives the exit code
where that is not 0. Every command has the options `--json` (print one JSON object instead of text; `args.json`) and
`--debug` (errors with their traceback). It imports within `run` what takes long to import, such as the engine, so that
`--help` does not wait for that.

Exit codes: 0, 1 after an error, which is one line on stderr, or for what `verify` found, 2 for arguments that make no
sense, 130 after Ctrl+C, which is how `watch` ends: 0 there.
"""

from __future__ import annotations

import argparse
import os
import sys

from sardonyx.version import __version__

TYPE_CHECKING = False  # that of `typing`, whose import is a third of what `sardonyx --help` takes
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager
    from typing import Any, NoReturn, Protocol

    class Command(Protocol):
        """What stands behind a name on the command line."""

        def add_arguments(self, parser: argparse.ArgumentParser, /) -> None: ...

        def run(self, args: argparse.Namespace, /) -> int | None: ...


GROUP = "sardonyx.commands"
BUILT_IN = {
    "demo": "recognise handwritten digits, on every device of this machine",
    "run": "run a model, and show or keep its outputs",
    "inspect": "show what a model holds, and what becomes of it on a provider",
    "detect": "find objects in pictures, and draw boxes around them",
    "read": "read the text in pictures",
    "watch": "show what a model sees, frame by frame: camera, video or folder",
    "generate": "continue a text by a language model",
    "chat": "talk with a language model",
    "bench": "time a model on several providers, and against onnxruntime",
    "verify": "compare each node of a model with float64",
    "optimize": "write the optimized model",
    "quantize": "make a model smaller, measure what that costs, and keep within a budget",
    "teach": "teach a model classes of your own, by examples in folders",
    "compile": "compile a model for pages: one file that runs without Python",
    "web": "put what web pages need into a folder: the page runtime, and Pyodide with this package",
    "info": "show versions, execution providers and devices of this machine",
}
"""The first lines of the modules' docstrings: help imports none of them."""
EXAMPLES = """
examples:
  sardonyx run resnet50.onnx --input cat.jpg
  sardonyx run whisper.onnx --input audio=speech.wav --output out.npz
  sardonyx detect yolo.onnx street.jpg --draw boxes.png
  sardonyx read det.onnx rec.onnx page.jpg
  sardonyx watch yolo.onnx camera
  sardonyx generate smollm2/ "What is the capital of France?"
  sardonyx inspect bert.onnx --provider webgpu --shape sequence=128
  sardonyx bench model.onnx --provider wasm --against onnxruntime
  sardonyx verify model.onnx --provider webgpu
  sardonyx optimize model.onnx --output smaller.onnx
  sardonyx quantize model.onnx --calibrate pictures/ --budget "agreement>=0.99"
  sardonyx teach encoder.onnx photos/ --output mine.onnx
  sardonyx compile model.onnx --output model.sdx --shape image=1x3x224x224
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that these arguments (by default the process's) name, and give the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    try:
        args = _parsed(arguments)
        with _warnings_in_a_line():
            code = args.run(args)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader, say `head`, has seen enough; Python flushes once more at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if "--debug" in arguments:
            import traceback

            traceback.print_exc()
        else:
            print(fitted(f"sardonyx: {_message(error)}"), file=sys.stderr)
        return 1
    return code or 0


def _parsed(arguments: list[str]) -> argparse.Namespace:
    """The arguments; an option that a command does not know is told with the command's own help."""
    parser = _parser(arguments)
    args, others = parser.parse_known_args(arguments)
    if others:
        first = arguments[0]
        parser.exit(2, f"sardonyx: {first} does not take {' '.join(others)}; see sardonyx {first} --help\n")
    return args


def _meant(word: str, known: Sequence[str]) -> str:
    """The known word that is most like another, as the end of an error; "" where none is."""
    from difflib import get_close_matches

    found = get_close_matches(word, known, 1)
    return f", but {found[0]!r}" if found else ""


def fitted(text: str) -> str:
    """A message with its paragraphs broken between words, if stderr is a terminal; code keeps its lines."""
    if not sys.stderr.isatty():
        return text
    import shutil
    import textwrap

    wrapper = textwrap.TextWrapper(shutil.get_terminal_size().columns, break_long_words=False, break_on_hyphens=False)
    return "\n\n".join(part if part.startswith("    ") else wrapper.fill(part) for part in text.split("\n\n"))


class _Formatter(argparse.HelpFormatter):
    """Wraps each paragraph by itself, and leaves indented ones alone."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        parts = text.strip("\n").split("\n\n")
        return "\n\n".join(part if "\n  " in part else fill(part, width, indent) for part in parts)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"sardonyx: {message}; see {self.prog} --help\n")


def _parser(arguments: list[str]) -> argparse.ArgumentParser:
    """The parser; commands that are only listed are not imported."""
    about = "Runs ONNX models in browsers, on boards and on desktops."
    parser = _Parser(prog="sardonyx", description=about, epilog=EXAMPLES, formatter_class=_Formatter)
    parser.add_argument("--version", action="version", version=f"sardonyx {__version__}")
    first = arguments[0]
    if first == "--version":
        return parser
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=_Parser)
    if first in BUILT_IN:
        _add(subparsers, first, _built_in(first))
        return parser
    for name, text in BUILT_IN.items():
        subparsers.add_parser(name, help=text)
    if not first.startswith("-") or _others_announced():
        for name, command in _others():
            _add(subparsers, name, command)
    if first.startswith("-") and first not in ("-h", "--help"):
        parser.error(f"{first} is no command; options come behind one, as in sardonyx info --json")
    if not first.startswith("-") and first not in subparsers.choices:
        parser.error(f"there is no command {first!r}{_meant(first, [*subparsers.choices])}")
    return parser


def _add(subparsers: Any, name: str, command: Command) -> None:
    text = (command.__doc__ or "").strip()
    sub = subparsers.add_parser(name, help=_help(text), description=text, formatter_class=_Formatter)
    command.add_arguments(sub)
    sub.add_argument("--json", action="store_true", help="print one JSON object")
    sub.add_argument("--debug", action="store_true", help="print the traceback of an error")
    sub.set_defaults(run=command.run)


def _built_in(name: str) -> Command:
    from importlib import import_module

    return import_module(f"sardonyx.cli.{name}")


def _others_announced() -> bool:
    """Whether a package in a folder of `sys.path` has commands: `importlib.metadata` would take longer than Python."""
    for folder in sys.path:
        try:
            names = [name for name in os.listdir(folder or ".") if name.endswith(".dist-info")]
        except OSError:
            continue
        for name in names:
            try:
                with open(os.path.join(folder, name, "entry_points.txt"), "rb", 0) as file:
                    if f"[{GROUP}]".encode() in file.read():
                        return True
            except OSError:
                continue
    return False


def _others() -> Iterator[tuple[str, Command]]:
    """The commands of other packages; nobody takes the name of a built-in one."""
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP):
        if point.name not in BUILT_IN:
            yield point.name, _other(point)


def _other(point: Any) -> Command:
    try:
        command: Command = point.load()
    except Exception as error:  # another package's trouble must not take the other commands away
        return _Broken(f"{point.name!r} of {point.value} cannot be loaded: {error}")
    return command


class _Broken:
    """A command that could not be imported; says so when it is run."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.__doc__ = f"not usable: {reason}"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("arguments", nargs="*")

    def run(self, args: argparse.Namespace) -> None:
        from sardonyx.errors import Fail

        raise Fail(self.reason)


def _warnings_in_a_line() -> AbstractContextManager[None]:
    """Within it, a warning is a line on stderr like an error."""
    import warnings
    from contextlib import contextmanager

    @contextmanager
    def lines() -> Iterator[None]:
        before = warnings.formatwarning
        warnings.formatwarning = lambda message, *_, **__: f"sardonyx: {' '.join(str(message).split())}\n"
        try:
            yield
        finally:
            warnings.formatwarning = before

    return lines()


def _help(text: str) -> str:
    """The first line of a docstring as argparse's help, which is a format."""
    return text.partition("\n")[0].rstrip(".").replace("%", "%%")


def _message(error: Exception) -> str:
    """One line for an error, and those that follow it as code; one that nobody raised on purpose says where to look."""
    from sardonyx.cli.text import paragraphs
    from sardonyx.errors import SardonyxError

    text = paragraphs(str(error))
    if isinstance(error, (SardonyxError, OSError, NotImplementedError)) and text:
        return text
    name = type(error).__name__
    return f"{name}: {text} (--debug shows where)" if text else f"{name} (--debug shows where)"
