"""Teaching in one call: a head for classes of one's own, on the embeddings of a model that stays as it is."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sardonyx.api.bundling import bundle_of
from sardonyx.api.session import InferenceSession
from sardonyx.common import dtypes
from sardonyx.common.record import record, replace
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Model, TensorType
from sardonyx.model.serde.writer import save, write
from sardonyx.passes.picture import Picture
from sardonyx.passes.vision.classification import Classification, picture_of, with_classification
from sardonyx.passes.vision.labels import KEY, KEYS
from sardonyx.passes.vision.memory import remember
from sardonyx.passes.vision.sight import Sight
from sardonyx.plans.plan_cache import Source
from sardonyx.quantization.proto import as_model
from sardonyx.training.draft import Draft
from sardonyx.training.encoder import encoder
from sardonyx.training.head import Head, Plan, train_head
from sardonyx.training.texts import Texts
from sardonyx.vision.pixels import pixels_of

Example: TypeAlias = Any
"""A picture, a text, the array of the model's only input, or arrays by the names of inputs."""
CHANNELS = 3
STALE = ("accuracy", "description", "task")
"""What an encoder's metadata says of it that is not true of what was taught."""


@record(frozen=True)
class Taught:
    """What was learnt: `model` gives `probabilities` [N, classes], with `labels` in its metadata.

    `accuracy` is that of the `held_out` examples, whose true classes are the rows of `confusion` and whose predicted
    ones its columns; where none could be held out, of all. `learnt` counts the others.
    """

    model: Model
    labels: list[str]
    accuracy: float
    confusion: NDArray[np.int64]
    learnt: int
    held_out: int
    steps: int
    seconds: float

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model: one plain ONNX file."""
        save(self.model, path)

    def bundle(self, target: str | Sequence[str] = "wasm") -> bytes:
        """The model as a bundle for pages and boards; one that sees takes pictures as they come, and gives `scores` and
        `labels`, the surest first."""
        model = self.model
        if picture_of(model.metadata) is not None:
            model = with_classification(model, Classification())
        targets = [target] if isinstance(target, str) else target
        return b"".join(bundle_of(Source(write(model)), targets, [{}]))


def teach(
    model: Any,
    examples: Sequence[Example],
    labels: Sequence[str | int],
    *,
    output: str = "",
    image: Picture | None = None,
    tokenizer: str | os.PathLike[str] | None = None,
    held_out: float = 0.25,
    steps: int = 1000,
    patience: int = 50,
    learning_rate: float = 0.01,
    weight_decay: float = 0.01,
    seed: int = 0,
    providers: Sequence[Any] | None = None,
    progress: Callable[[], object] = lambda: None,
) -> Taught:
    """Teach classes to an encoder by examples, a label for each: a linear head learns, and nothing else.

    The model is a path, bytes or a ModelProto; its embeddings are `output`, any tensor [N, D], [N, T, D] or
    [N, D, H, W], or what its outputs' names tell. Examples are pictures, which become its input as `image` says where
    its metadata does not; texts, with a `tokenizer.json`; arrays, of the model's only input; or arrays by input name.
    A part `held_out` of each class measures, and stops the learning once `patience` steps made it no better.
    `progress` is called once for each example. InvalidArgument says what does not fit.

    >>> import numpy as np
    >>> from sardonyx.demo import assets, digits, picture, pictures
    >>> drawn = [digits.digit(pictures.read(picture(f"{number}_drawn.png"))) for number in (1, 7)]
    >>> taught = teach(assets() / "digits.onnx", drawn * 3, ["one", "seven"] * 3)
    >>> taught.labels, taught.accuracy, taught.confusion.tolist()
    (['one', 'seven'], 1.0, [[1, 0], [0, 1]])
    """
    start = time.perf_counter()
    if len(examples) != len(labels):
        raise InvalidArgument(f"{len(examples)} examples are given, and {len(labels)} labels")
    for number, label in enumerate(labels):
        if not isinstance(label, (str, int, np.integer)):
            raise InvalidArgument(f"the label of example {number} is {label!r}: labels are texts or whole numbers")
    classes = sorted(set(labels), key=lambda label: (isinstance(label, str), label))
    if len(classes) < 2:
        raise InvalidArgument(f"the labels are {classes}: teach two classes at least")
    if len({str(label) for label in classes}) < len(classes):
        raise InvalidArgument(f"of the labels {classes} two read the same: write all as texts, or all as whole numbers")
    if steps < 1:
        raise InvalidArgument(f"steps={steps}: a head learns nothing without a step")
    if not 0 <= held_out < 1:
        raise InvalidArgument(f"held_out={held_out}: write a part of the examples, from 0 to below 1")
    whole = as_model(model)
    network = encoder(whole, output)
    eye = _Eye(network, image, tokenizer, providers)
    found = []
    for number, example in enumerate(examples):
        found.append(eye(example, number))
        if found[-1].shape != found[0].shape:
            raise InvalidArgument(
                f"the embedding of example {number} has {found[-1].size} elements, and others {found[0].size}: name "
                "another tensor as output"
            )
        progress()
    embeddings = np.stack(found)
    if not np.isfinite(embeddings).all():
        number = int(np.argmin(np.isfinite(embeddings).all(1)))
        raise InvalidArgument(f"the embedding of example {number} is not finite")
    numbers = np.array([classes.index(label) for label in labels], np.int64)
    kept = _held_out(numbers, held_out, seed)
    plan = Plan(steps, patience, learning_rate, weight_decay, seed)
    head = train_head(embeddings, numbers, kept, len(classes), plan, providers)
    judged = kept if kept.any() else ~kept
    confusion = np.zeros((len(classes), len(classes)), np.int64)
    np.add.at(confusion, (numbers[judged], head.scores(embeddings[judged]).argmax(1)), 1)
    names = [str(label) for label in classes]
    return Taught(
        _joined(network, head, names, eye.picture),
        names,
        float(confusion.trace() / confusion.sum()),
        confusion,
        int((~kept).sum()),
        int(kept.sum()),
        head.steps,
        time.perf_counter() - start,
    )


class _Eye:
    """Makes the embedding of an example, whatever that is."""

    def __init__(
        self,
        network: Model,
        image: Picture | None,
        tokenizer: str | os.PathLike[str] | None,
        providers: Sequence[Any] | None,
    ) -> None:
        self._network, self._providers = network, providers
        self._inputs = [value for value in network.graph.inputs if value not in network.graph.initializers]
        self._texts = None if tokenizer is None else Texts(tokenizer, [value.name for value in self._inputs])
        self._told = image or picture_of(network.metadata)
        self.picture: Picture | None = None
        """How pictures became the input, once there was one."""
        self._sessions: dict[bool, InferenceSession] = {}

    def __call__(self, example: Example, number: int) -> NDArray[np.float32]:
        embedding, *_ = self._embedded(example, number)
        if embedding.shape[0] != 1:
            raise InvalidArgument(
                f"example {number} has {embedding.shape[0]} embeddings; give one thing in each example"
            )
        first: NDArray[np.float32] = embedding[0]
        return first

    def _embedded(self, example: Example, number: int) -> list[Any]:
        if isinstance(example, Mapping):
            return self._session(False).run(None, example)
        if isinstance(example, str) and self._texts is not None:
            return self._session(False).run(None, self._texts(example))
        if isinstance(example, np.ndarray) and example.dtype != np.uint8:
            return self._session(False).run(None, {self._only(number).name: self._whole(example, number)})
        if self._told is None:
            raise InvalidArgument(
                f"example {number} is a {type(example).__name__}: say how pictures become the input by image=, or give "
                "arrays of it"
            )
        session = self._session(True)
        return session.run(None, {session.get_inputs()[0].name: pixels_of(example, channels=CHANNELS)})

    def _only(self, number: int) -> Any:
        if len(self._inputs) != 1:
            names = ", ".join(value.name for value in self._inputs)
            raise InvalidArgument(f"example {number} is one array, and the model has the inputs {names}: give a dict")
        return self._inputs[0]

    def _whole(self, array: NDArray[Any], number: int) -> NDArray[Any]:
        """An array with an axis of things in front."""
        shape = self._only(number).shape
        return array[None] if shape is not None and array.ndim == len(shape) - 1 else array

    def _session(self, sees: bool) -> InferenceSession:
        if sees not in self._sessions:
            model = self._network
            if sees:
                assert self._told is not None
                sight = Sight(model, self._told, CHANNELS)
                self.picture = replace(self._told, name=sight.input.name, size=sight.size)
                model = sight.rewritten(self._told, ()).model
            self._sessions[sees] = InferenceSession(write(model), providers=self._providers)
        return self._sessions[sees]


def _held_out(numbers: NDArray[np.int64], part: float, seed: int) -> NDArray[np.bool_]:
    """Which examples are held out: that part of each class; one at least, unless a class has no other."""
    random = np.random.default_rng(seed)
    found = np.zeros(len(numbers), bool)
    for number in np.unique(numbers):
        places = random.permutation(np.flatnonzero(numbers == number))
        count = round(part * len(places))
        count = min(max(count, 1 if part else 0), len(places) - 1)
        found[places[:count]] = True
    return found


def _joined(network: Model, head: Head, labels: Sequence[str], picture: Picture | None) -> Model:
    """The encoder with the head behind it, and what runtimes are to know of it."""
    draft = Draft(network)
    (embedding,) = draft.output_names()
    names = [draft.constant(head.weight, "head.weight"), draft.constant(head.bias, "head.bias")]
    scores = draft.add("Gemm", [embedding, *names], "scores", {"transB": 1})
    result = draft.value(draft.add("Softmax", [scores], "probabilities", {"axis": 1}))
    result.type = TensorType(dtypes.float32, ("N", len(labels)))
    draft.graph.outputs = [result]
    for key in (*KEYS, *STALE):
        network.metadata.pop(key, None)
    network.metadata[KEY] = json.dumps(list(labels))
    if picture is not None:
        remember(network.metadata, picture)
    return network
