"""Packages of JavaScript in the place of `tokenizers` and jinja2, for Python in a page, where these may have no wheel.

    from sardonyx.genai import javascript

    await javascript.load()  # from here on Tokenizer finds them

`@huggingface/tokenizers` encodes and decodes, `@huggingface/jinja` runs templates; both are what `genai/chat.js` uses.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from sardonyx.common import extras
from sardonyx.errors import Fail, InvalidValue

TOKENIZERS, JINJA = "@huggingface/tokenizers", "@huggingface/jinja"
_modules: dict[str, Any] = {}


async def load(tokenizers: Any = TOKENIZERS, jinja: Any = JINJA) -> None:
    """Import both packages, by a name of the page's import map, by address, or as modules that are there already.

    Workers have no import maps, and need addresses. Raises Fail where one cannot be imported.
    """
    for name, given in ((TOKENIZERS, tokenizers), (JINJA, jinja)):
        _modules[name] = await _imported(given) if isinstance(given, str) else given


def missing(package: str) -> str:
    """What is said where a package is needed and not there; in a page, how to have one of JavaScript in its place.

    >>> missing("jinja2")
    'jinja2 is not installed; pip install jinja2 llguidance'
    """
    if sys.platform != "emscripten":
        is_narrow = sys.maxsize < 1 << 32  # where pip would build llguidance
        return f"{package} is not installed; pip install tokenizers jinja2" if is_narrow else extras.missing(package)
    return f"{package} is not installed; await sardonyx.genai.javascript.load() has JavaScript's in its place"


class Encoding:
    """The tokens of a text, as numbers."""

    def __init__(self, ids: list[int]) -> None:
        self.ids = ids


class Tokenizer:
    """What `tokenizers.Tokenizer` does for a model, from the texts of `tokenizer.json` and `tokenizer_config.json`."""

    def __init__(self, text: str, settings: Mapping[str, Any]) -> None:
        self._text = text
        self._made = _modules[TOKENIZERS].Tokenizer.new(_value(portable(text)), _value(json.dumps(settings)))

    def encode(self, text: str, *, add_special_tokens: bool) -> Encoding:
        found = self._made.encode(text, _value(json.dumps({"add_special_tokens": add_special_tokens})))
        return Encoding([int(token) for token in found.ids])

    def decode(self, tokens: Sequence[int], *, skip_special_tokens: bool) -> str:
        """The text of tokens, with all the spaces that they stand for."""
        if not tokens:
            return ""
        options = {"skip_special_tokens": skip_special_tokens, "clean_up_tokenization_spaces": False}
        return str(self._made.decode(_value(json.dumps(list(tokens))), _value(json.dumps(options))))

    def token_to_id(self, token: str) -> int | None:
        found = self._made.token_to_id(token)
        return None if found is None else int(found)

    def to_str(self) -> str:
        return self._text


def portable(text: str) -> str:
    r"""What `tokenizer.json` holds, so that JavaScript's package reads it as `tokenizers` does.

    To its `Digits` only 0 to 9 are digits, of all numbers that Unicode has.

    >>> print(portable('{"pre_tokenizer": {"type": "Digits", "individual_digits": true}}'))
    {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "\\p{N}"}, "behavior": "Isolated", "invert": false}}
    """
    told = json.loads(text)
    first = told.get("pre_tokenizer") or {}
    steps = first.get("pretokenizers", [first])
    for step in steps:
        if step.get("type") == "Digits":
            pattern = {"Regex": r"\p{N}" if step.get("individual_digits") else r"\p{N}+"}
            step.clear()
            step.update(type="Split", pattern=pattern, behavior="Isolated", invert=False)
    return json.dumps(told, ensure_ascii=False)


def has_tokenizers() -> bool:
    """Whether there is a package that encodes and decodes."""
    return TOKENIZERS in _modules


def has_templates() -> bool:
    """Whether there is a package that runs templates."""
    return JINJA in _modules


def render(template: str, values: Mapping[str, Any]) -> str:
    """The text that a template makes of these values; InvalidValue with what it says against them."""
    from pyodide.ffi import JsException

    try:
        return str(_modules[JINJA].Template.new(template).render(_value(json.dumps(values))))
    except JsException as error:
        raise InvalidValue(f"the chat template: {error.message}") from error


def _value(text: str) -> Any:
    """What JSON says, as JavaScript has it."""
    import js

    return js.JSON.parse(text)


async def _imported(name: str) -> Any:
    """A module by its name or address, which may be relative to the page."""
    import js
    from pyodide.code import run_js
    from pyodide.ffi import JsException

    base = getattr(js, "document", None) or getattr(js, "location", None)
    if name.startswith((".", "/")) and base is not None:
        name = js.URL.new(name, getattr(base, "baseURI", None) or base.href).href
    try:
        return await run_js("(name) => import(name)")(name)
    except JsException as error:
        raise Fail(
            f"{name} cannot be imported ({error.message}); name it in the page's import map, or give its address: "
            "sardonyx.genai.javascript.load(tokenizers=URL, jinja=URL)"
        ) from None
