"""`python -m tests.mutations`: make small changes in a copy of the tree, and say which of them no test notices."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections import Counter
from collections.abc import Sequence

from tests.mutations.changes import MUTATIONS
from tests.mutations.runner import Mutation, Outcome, run_all

WIDTH = 80
_COLOURS = {"killed": "32", "lives": "31", "does not apply": "33", "fails anyway": "33"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="only mutations whose file or text has one of these")
    parser.add_argument("--shard", default="1/1", metavar="K/N", help="the K-th of N parts")
    parser.add_argument("--list", action="store_true", help="say what they are, and run nothing")
    arguments = parser.parse_args()
    number, parts = map(int, arguments.shard.split("/"))
    words = arguments.words
    chosen = [m for m in MUTATIONS if not words or any(word in f"{m.file} {m.what}" for word in words)]
    chosen = chosen[number - 1 :: parts]
    if arguments.list:
        print_list(chosen)
        return 0
    outcomes = []
    for place, outcome in enumerate(run_all(chosen), 1):
        outcomes.append(outcome)
        print_line(outcome, place, len(chosen))
    print_summary(outcomes)
    return 0 if outcomes and all(outcome.is_killed for outcome in outcomes) else 1


def print_list(mutations: Sequence[Mutation]) -> None:
    """A line for each mutation under its file."""
    file = ""
    for mutation in mutations:
        if mutation.file != file:
            file = mutation.file
            print(file)
        print(textwrap.fill(mutation.what, WIDTH, initial_indent="  ", subsequent_indent="    "))
    print(f"\n{len(mutations)} mutations of {len({mutation.file for mutation in mutations})} files")


def print_line(outcome: Outcome, place: int, count: int) -> None:
    """One line of 80 columns: which it is, what became of it, and what was changed."""
    head = f"{place:{len(str(count))}}/{count}  {outcome.status:14}  {outcome.seconds:5.1f} s  "
    file = outcome.mutation.file.rpartition("/")[2]
    text = textwrap.shorten(f"{file}: {outcome.mutation.what}", WIDTH - len(head), placeholder="...")
    print(head.replace(outcome.status, coloured(outcome.status)) + text, flush=True)


def print_summary(outcomes: Sequence[Outcome]) -> None:
    """What is to be done about each that was not killed, and the counts."""
    for outcome in outcomes:
        if outcome.is_killed:
            continue
        mutation = outcome.mutation
        print(f"\n{coloured(outcome.status)}: {mutation.what}")
        print_block("  ", mutation.file)
        print_block("  - ", mutation.old)
        print_block("  + ", mutation.new)
        print_block("  ", "\n".join(mutation.tests))
        print_block("  | ", "\n".join(outcome.detail.splitlines()[-12:]))
    counts = Counter(outcome.status for outcome in outcomes)
    seconds = sum(outcome.seconds for outcome in outcomes)
    words = ", ".join(f"{count} {coloured(status)}" for status, count in counts.items()) or "none chosen"
    print(f"\n{len(outcomes)} mutations in {seconds:.0f} s: {words}")


def print_block(prefix: str, text: str) -> None:
    """Lines as they are, behind a prefix; what is too long goes on below."""
    for line in text.splitlines():
        for start in range(0, max(1, len(line)), WIDTH - len(prefix)):
            print(f"{prefix}{line[start : start + WIDTH - len(prefix)]}".rstrip())


def coloured(status: str) -> str:
    """The word, in colour on a terminal."""
    return f"\033[{_COLOURS[status]}m{status}\033[0m" if sys.stdout.isatty() else status


if __name__ == "__main__":
    sys.exit(main())
