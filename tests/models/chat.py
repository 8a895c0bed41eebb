"""A chat with SmolLM2, whose answer is known."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime

from .catalogue import path

PROMPT = [
    *(1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018, 411, 407, 19712, 8182, 2, 198),
    *(1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47, 2, 198, 1, 520, 9531, 198),
]
"""The model's system prompt, and a user who asks: What is the capital of France?"""
ANSWER = [504, 3575, 282, 4649, 314, 7042]
"""The capital of France is Paris"""


@cache
def remembered() -> dict[str, npt.NDArray[Any]]:
    """Return keys and values of the chat up to `The capital of France`, by the names of the inputs that take them."""
    session = onnxruntime.InferenceSession(path("smollm2-int4-std-prefill"), providers=["CPUExecutionProvider"])
    tokens = np.array([PROMPT + ANSWER[:4]])
    feeds: dict[str, Any] = {
        one.name: np.zeros((1, one.shape[1], 0, one.shape[3]), np.float32)
        for one in session.get_inputs()
        if one.name.startswith("past")
    }
    feeds |= {"input_ids": tokens, "attention_mask": np.ones_like(tokens), "position_ids": np.arange(tokens.size)[None]}
    names = [one.name for one in session.get_outputs() if one.name.startswith("present")]
    return dict(zip([name.replace("present", "past_key_values") for name in names], session.run(names, feeds)))
