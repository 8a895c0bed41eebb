"""Templates of chats: a list of messages becomes the text that a model was trained on, by jinja2 in a sandbox."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any, NoReturn

from sardonyx.errors import InvalidValue, NotImplemented
from sardonyx.genai import javascript


def render(template: str, values: Mapping[str, Any]) -> str:
    """The text that a template makes of these values; InvalidValue with what it says against them.

    >>> render("{% for m in messages %}[{{ m.role }}] {{ m.content }}\\n{% endfor %}",
    ...        {"messages": [{"role": "user", "content": "Hello"}]})
    '[user] Hello\\n'
    """
    try:
        import jinja2
    except ImportError:
        if javascript.has_templates():
            return javascript.render(template, values)
        raise NotImplemented(javascript.missing("jinja2")) from None
    environment = _environment()
    try:
        return str(environment.from_string(template).render(**values))
    except jinja2.TemplateError as error:
        raise InvalidValue(f"the chat template: {error}") from error
    except (TypeError, KeyError) as error:
        raise InvalidValue(f"the chat template cannot use these messages: {error}") from error


@cache
def _environment() -> Any:
    """What templates find, as transformers has it."""
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    found = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    found.filters["tojson"] = _tojson
    found.globals["raise_exception"] = _raise
    found.globals["strftime_now"] = lambda format: datetime.now().strftime(format)
    return found


def _raise(message: str) -> NoReturn:
    import jinja2

    raise jinja2.TemplateError(message)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as it is, where jinja2's own escapes what HTML would mind."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
