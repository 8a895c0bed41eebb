"""The demonstration: a model of handwritten digits, pictures to try it on, what turns one into its input; no command.

`sardonyx demo` is built on it; in Python:

>>> from sardonyx import InferenceSession
>>> from sardonyx.demo import assets, digits, picture, pictures
>>> session = InferenceSession((assets() / "digits.onnx").read_bytes(), providers=["NumpyExecutionProvider"])
>>> (probabilities,) = session.run(None, {"image": digits.digit(pictures.read(picture("7_drawn.png")))})
>>> int(probabilities.argmax())
7
"""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from sardonyx.errors import NoSuchFile

MODEL = "digits.onnx"


def assets() -> Traversable:
    """The folder with `digits.onnx` and `images/<digit>_*.png`: in the wheel this package, else examples/digits.

    Raises NoSuchFile where neither has the model.
    """
    checkout = Path(__file__).resolve().parents[3] / "examples" / "digits"
    for folder in (files(__name__), checkout):
        if (folder / MODEL).is_file():
            return folder
    raise NoSuchFile(f"{MODEL} lies neither in the package sardonyx.demo nor in {checkout}; reinstall sardonyx")


def samples() -> list[Traversable]:
    """The demonstration's own pictures by name; a name's first character is the digit."""
    folder = assets() / "images"
    return sorted((item for item in folder.iterdir() if item.name.endswith(".png")), key=lambda item: item.name)


def picture(name: str) -> Traversable:
    """The demonstration's picture of this name."""
    return assets() / "images" / name
