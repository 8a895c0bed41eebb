"""What a text is generated with: the options of the search, and a grammar that it must keep to."""

from __future__ import annotations

from typing import Any

from sardonyx.errors import InvalidValue, NotImplemented
from sardonyx.genai.model import Model

GUIDES = ("json_schema", "regex", "lark_grammar")


class GeneratorParams:
    """The options of a generator. They begin as the model's configuration has them."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.search = model.config.search_options()
        self.guidance: tuple[str, str] | None = None
        self.forced = False
        """Whether tokens that a grammar leaves no choice of are appended without being run for."""

    def set_search_options(self, **options: Any) -> None:
        """Set options by their names (`sardonyx.genai.search_options`)."""
        self.search.set(**options)

    def get_search_options(self) -> dict[str, float | bool]:
        return self.search.as_dict()

    def set_guidance(self, type: str, data: str, enable_ff_tokens: bool = False) -> None:
        """Have the text follow a JSON schema (`json_schema`), a regular expression (`regex`) or a `lark_grammar`.

        Both texts empty mean none of them. With `enable_ff_tokens`, tokens that are the only ones possible are appended
        at once.
        """
        if type not in GUIDES and (type or data):
            raise InvalidValue(f"there is no guidance {type!r}, but {', '.join(GUIDES)}")
        if type and not data:
            raise InvalidValue(f"guidance {type!r} has no data, which is the text of the {type}")
        self.guidance = (type, data) if type else None
        self.forced = enable_ff_tokens

    def set_speculative_options(self, **options: Any) -> None:
        """Raises NotImplementedError."""
        raise NotImplemented("tokens are not guessed ahead here, and the text would be the same")

    def get_speculative_options(self) -> dict[str, float | bool]:
        """Nothing: there are none here."""
        return {}

    def try_graph_capture_with_max_batch_size(self, max_batch_size: int) -> None:
        """Accepted: plans are kept anyway."""
