"""Sizes as people write them: numbers, names, and sums and products of them."""

from __future__ import annotations

import ast
import re

from sardonyx.sizes.polynomial import Poly, constant, symbol

_NAME = re.compile(r"[^\s+*()/-][^\s+*()/]*")


def parsed(text: str) -> Poly:
    """The polynomial of an expression; its symbols are names. Raises ValueError where it is none.

    >>> parsed("P + 2*S"), parsed("16"), parsed("past_length+sequence.1")
    (P + 2*S, 16, past_length + sequence.1)
    """
    names: dict[str, str] = {}

    def stand_in(match: re.Match[str]) -> str:
        word = match.group()
        return word if word.isdecimal() else names.setdefault(word, f"_{len(names)}")

    try:
        tree = ast.parse(_NAME.sub(stand_in, text.strip()), mode="eval").body
        return _of(tree, {stand: symbol(name) for name, stand in names.items()})
    except (SyntaxError, KeyError, RecursionError):
        raise ValueError(f"{text!r} is no size: write numbers and names with + and * between them") from None


def _of(node: ast.expr, symbols: dict[str, Poly]) -> Poly:
    match node:
        case ast.Constant(value=int() as number):
            return constant(number)
        case ast.Name(id=name):
            return symbols[name]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _of(left, symbols) + _of(right, symbols)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _of(left, symbols) - _of(right, symbols)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _of(left, symbols) * _of(right, symbols)
    raise KeyError(node)
