"""The same steps with onnxruntime-genai and with Sardonyx, which must choose the same tokens."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnxruntime_genai

from sardonyx import genai
from tests.engine.providers import NUMPY

TOLERANCE = 1e-3
"""Of the largest logit: candidates that are nearer to each other are taken for equal."""


def ours(folder: Path, provider: str = NUMPY) -> genai.Model:
    config = genai.Config(folder)
    config.append_provider(provider)
    return genai.Model(config)


def theirs(folder: Path) -> Any:
    return onnxruntime_genai.Model(str(folder))


def generator(model: Any, prompt: Any, **options: Any) -> Any:
    """A generator of either side, after a prompt."""
    side: ModuleType = genai if isinstance(model, genai.Model) else onnxruntime_genai
    params = side.GeneratorParams(model)
    params.set_search_options(**options)
    made = side.Generator(model, params)
    if prompt is not None:
        made.append_tokens(np.array(prompt, np.int32))
    return made


def finish(made: Any) -> Any:
    while not made.is_done():
        made.generate_next_token()
    return made


def written(model: Any, prompt: Any, **options: Any) -> list[list[int]]:
    """All sequences that come of a prompt."""
    made = finish(generator(model, prompt, **options))
    count = options.get("batch_size", 1) * options.get("num_return_sequences", 1)
    return [made.get_sequence(row).tolist() for row in range(count)]


def agree(one: Any, other: Any, tolerance: float = TOLERANCE) -> int:
    """Generate with both to the end; how many tokens there were. Raises AssertionError where they differ.

    Logits are compared before each step. Where the tokens differ, and their logits do not, the comparison ends.
    """
    steps = 0
    while not other.is_done():
        assert not one.is_done()
        a, b = one.get_logits(), other.get_logits()
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * np.abs(b).max())
        one.generate_next_token()
        other.generate_next_token()
        steps += 1
        for row, (mine, yours) in enumerate(zip(one.get_next_tokens(), other.get_next_tokens(), strict=True)):
            if mine != yours:
                gap = abs(b[row, 0, mine] - b[row, 0, yours])
                assert gap < tolerance * np.abs(b).max(), f"{mine} and {yours} in row {row} of step {steps}"
                return steps
    assert one.is_done()
    assert one.token_count() == other.token_count()
    return steps
