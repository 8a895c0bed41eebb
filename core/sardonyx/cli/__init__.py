"""The command line: `sardonyx COMMAND`, or `python -m sardonyx COMMAND`.

A command is a module of this package, or an object that another package offers under its name as an entry point of the
group `sardonyx.commands`:

    [project.entry-points."sardonyx.commands"]
    serve = "sardonyx_edge.commands:serve"

Either has a docstring, whose first line is the help; `add_arguments(parser)`, which gets an `argparse.ArgumentParser`;
and `run(args)`, which gets the parsed arguments, prints to stdout and raises whatever goes wrong. Every command has the
options `--json` (print one JSON object instead of text; `args.json`) and `--debug` (errors with their traceback).

Exit codes: 0, 1 after an error, which is one line on stderr, 2 for arguments that make no sense, 130 after Ctrl+C.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, NoReturn, Protocol

from sardonyx.version import __version__

GROUP = "sardonyx.commands"
BUILT_IN = ("demo", "run", "inspect", "info")


class Command(Protocol):
    """What stands behind a name on the command line."""

    def add_arguments(self, parser: argparse.ArgumentParser, /) -> None: ...

    def run(self, args: argparse.Namespace, /) -> None: ...


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that these arguments (by default the process's) name, and give the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    args = _parser(arguments).parse_args(arguments)
    try:
        args.run(args)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader, say `head`, has seen enough; Python flushes once more at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if args.debug:
            traceback.print_exc()
        else:
            print(f"sardonyx: {_message(error)}", file=sys.stderr)
        return 1
    return 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def _parser(arguments: list[str]) -> argparse.ArgumentParser:
    """The parser; where the first argument names a built-in command, nothing else is looked up or imported."""
    about = "Runs ONNX models in browsers, on boards and on desktops."
    parser = _Parser(prog="sardonyx", description=about)
    parser.add_argument("--version", action="version", version=f"sardonyx {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, load in _commands(arguments[0]).items():
        command = load()
        text = (command.__doc__ or "").strip()
        layout = argparse.RawDescriptionHelpFormatter
        sub = subparsers.add_parser(name, help=_help(text), description=text, formatter_class=layout)
        command.add_arguments(sub)
        sub.add_argument("--json", action="store_true", help="print one JSON object")
        sub.add_argument("--debug", action="store_true", help="print the traceback of an error")
        sub.set_defaults(run=command.run)
    return parser


def _commands(first: str) -> dict[str, Callable[[], Command]]:
    """What loads each command that may be meant."""
    if first in BUILT_IN:
        return {first: partial(_built_in, first)}
    from importlib.metadata import entry_points

    others = {point.name: partial(_other, point) for point in entry_points(group=GROUP)}
    return {**others, **{name: partial(_built_in, name) for name in BUILT_IN}}


def _built_in(name: str) -> Command:
    return import_module(f"sardonyx.cli.{name}")


def _other(point: Any) -> Command:
    try:
        command: Command = point.load()
    except Exception as error:  # another package's trouble must not take the other commands away
        return _Broken(f"{point.name!r} of {point.value} cannot be loaded: {error}")
    return command


@dataclass
class _Broken:
    """A command that could not be imported; says so when it is run."""

    reason: str

    def __post_init__(self) -> None:
        self.__doc__ = f"not usable: {self.reason}"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("arguments", nargs="*")

    def run(self, args: argparse.Namespace) -> None:
        from sardonyx.errors import Fail

        raise Fail(self.reason)


def _help(text: str) -> str:
    """The first line of a docstring as argparse's help, which is a format."""
    return text.partition("\n")[0].rstrip(".").replace("%", "%%")


def _message(error: Exception) -> str:
    """One line for an error; one that nobody raised on purpose says where to look."""
    from sardonyx.errors import SardonyxError

    text = " ".join(str(error).split())
    if isinstance(error, (SardonyxError, OSError, NotImplementedError)) and text:
        return text
    name = type(error).__name__
    return f"{name}: {text} (--debug shows where)" if text else f"{name} (--debug shows where)"
