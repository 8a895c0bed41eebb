"""The session behind a model that takes pictures, and what is known of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from numpy.typing import NDArray

from sardonyx.api.options import SessionOptions
from sardonyx.api.session import InferenceSession
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Model
from sardonyx.model.serde.writer import write
from sardonyx.passes.vision.labels import labels_of
from sardonyx.plans.plan_cache import Source
from sardonyx.plans.signature import is_bundle_at
from sardonyx.vision.pixels import PictureLike, pixels_of

ModelLike: TypeAlias = "str | os.PathLike[str] | bytes"

CHANNELS = 3
"""Of pixels, where no page gives them: a fourth is a copy of large pictures."""


class Runner:
    """Runs a model, rewritten to take pictures, or a bundle that already does; gives outputs by name.

    `options` are those that `rewrite` heeds; a bundle takes `labels` alone, since nothing in it names classes. Raises
    InvalidArgument where a bundle gives others than `names`, or is given more options.
    """

    def __init__(
        self,
        model: ModelLike,
        rewrite: Callable[[Model], Model],
        names: Sequence[str],
        providers: Sequence[Any] | None = None,
        options: Mapping[str, Any] | None = None,
        session: SessionOptions | None = None,
    ) -> None:
        given: Any = model
        if not is_bundle_at(model):
            given = write(rewrite(Source(model).read()))
        elif others := {*(options or ())} - {"labels"}:
            raise InvalidArgument(f"a bundle has its options within it, and takes no {min(others)}")
        self.session = InferenceSession(given, session, providers=providers)
        outputs = [each.name for each in self.session.get_outputs()]
        inputs = self.session.get_inputs()
        if outputs != [*names] or inputs[0].type != "tensor(uint8)":
            raise InvalidArgument(
                f"the bundle gives {', '.join(outputs)} of {inputs[0].name}, and not {', '.join(names)} of a picture"
            )
        self._input = inputs[0]
        self._names = names
        self.labels = [*(options or {}).get("labels", ())] or labels_of(
            self.session.get_modelmeta().custom_metadata_map
        )

    def run(self, picture: PictureLike, order: str) -> dict[str, NDArray[Any]]:
        """The outputs of a picture by name."""
        pixels = pixels_of(picture, order, self._channels)
        return dict(zip(self._names, self.session.run(None, {self._input.name: pixels}), strict=True))

    @property
    def _channels(self) -> int:
        shape = self._input.shape or [4]
        return shape[-1] if isinstance(shape[-1], int) else 4

    def label(self, number: int) -> str:
        """The name of a class, or its number as text where nobody has named it."""
        return self.labels[number] if 0 <= number < len(self.labels) else str(number)
