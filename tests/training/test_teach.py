"""Teaching: a head on the embeddings of an encoder, from pictures, arrays and texts, and what becomes of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import tokenizers
from onnx import helper, numpy_helper, parser
from PIL import Image, ImageDraw

import sardonyx
from sardonyx import vision
from sardonyx.demo import assets
from sardonyx.errors import InvalidArgument
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.writer import write
from sardonyx.training.encoder import encoder
from sardonyx.training.head import Plan, train_head

LIGHT = vision.Picture("image")
SIDE = 28


def drawings(count: int, seed: int = 0) -> list[tuple[Image.Image, str]]:
    """Circles, squares and crosses of all sizes and places, light on dark."""
    random = np.random.default_rng(seed)
    found = []
    for number in range(count):
        image = Image.new("L", (SIDE, SIDE), 0)
        draw = ImageDraw.Draw(image)
        x, y = (int(each) for each in random.integers(3, 9, 2))
        far = x + (size := int(random.integers(12, 17))), y + size
        label = ("circle", "cross", "square")[number % 3]
        if label == "circle":
            draw.ellipse((x, y, *far), outline=255, width=2)
        elif label == "square":
            draw.rectangle((x, y, *far), outline=255, width=2)
        else:
            draw.line((x, y, *far), fill=255, width=2)
            draw.line((far[0], y, x, far[1]), fill=255, width=2)
        found.append((image, label))
    return found


def model(text: str, opset: int = 17, metadata: dict[str, str] | None = None, **weights: Any) -> onnx.ModelProto:
    made = parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]> {text}')
    made.graph.initializer.extend(numpy_helper.from_array(np.asarray(a), name) for name, a in weights.items())
    helper.set_model_props(made, metadata or {})
    onnx.checker.check_model(made)
    return made


IDENTITY = "g (float[N,2] x) => (float[N,2] features) { features = Identity (x) }"


def clusters(count: int, spread: float = 0.1, seed: int = 0) -> tuple[list[np.ndarray], list[int]]:
    """Points around three places."""
    random = np.random.default_rng(seed)
    labels = [number % 3 for number in range(count)]
    places = np.array([[0, 0], [5, 0], [0, 300]])
    scale = np.array([1, 100])
    points = [(places[k] + random.standard_normal(2) * spread * scale).astype(np.float32) for k in labels]
    return points, labels


def test_sixty_drawings_are_learnt_in_seconds(tmp_path: Path) -> None:
    given = drawings(60)
    begun = time.process_time()
    taught = sardonyx.teach(assets() / "digits.onnx", *zip(*given, strict=True), image=LIGHT)  # type: ignore[arg-type]
    assert time.process_time() - begun < 5
    assert taught.labels == ["circle", "cross", "square"]
    assert (taught.learnt, taught.held_out) == (45, 15)
    assert taught.accuracy >= 0.9
    assert taught.confusion.sum(1).tolist() == [5, 5, 5]
    assert taught.accuracy == taught.confusion.trace() / 15
    taught.save(tmp_path / "mine.onnx")
    classifier = vision.Classifier(tmp_path / "mine.onnx")
    (tmp_path / "mine.sdx").write_bytes(taught.bundle())
    bundled = vision.Classifier(tmp_path / "mine.sdx", labels=taught.labels)
    new = drawings(30, seed=1)
    found = [classifier.classify(image)[0].label for image, _ in new]
    assert np.mean([label == wanted for label, (_, wanted) in zip(found, new, strict=True)]) > 0.9
    assert [bundled.classify(image)[0].label for image, _ in new] == found
    session = onnxruntime.InferenceSession(tmp_path / "mine.onnx", providers=["CPUExecutionProvider"])
    assert json.loads(session.get_modelmeta().custom_metadata_map["sardonyx.labels"]) == taught.labels
    pixels = np.asarray(new[0][0], np.float32)[None, None] / 255
    (probabilities,) = session.run(None, {"image": pixels})
    np.testing.assert_allclose(
        probabilities[0, taught.labels.index(found[0])], classifier.classify(new[0][0])[0].score, rtol=1e-3
    )
    assert "accuracy" not in session.get_modelmeta().custom_metadata_map


def test_the_head_finds_what_is_linear(tmp_path: Path) -> None:
    """Whatever the embeddings' scales are, since they are standardized; labels may be numbers."""
    points, labels = clusters(30)
    taught = sardonyx.teach(model(IDENTITY), points, labels)
    assert (taught.labels, taught.accuracy) == (["0", "1", "2"], 1.0)
    taught.save(tmp_path / "mine.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "mine.onnx", providers=["CPUExecutionProvider"])
    (probabilities,) = session.run(None, {"x": np.stack(clusters(30, seed=5)[0])})
    assert probabilities.argmax(1).tolist() == labels
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)


def test_learning_stops_where_the_held_out_part_gets_no_better() -> None:
    random = np.random.default_rng(0)
    noise, labels = random.standard_normal((40, 30)).astype(np.float32), random.integers(0, 2, 40)
    held = np.arange(40) % 4 == 0
    head = train_head(noise, labels, held, 2, Plan(steps=500, patience=20))
    assert head.steps < 200
    scores = head.scores(noise[held])
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    assert -logs[np.arange(10), labels[held]].mean() <= np.log(2) + 1e-6, "no worse than knowing nothing"
    longer = train_head(noise, labels, held, 2, Plan(steps=500, patience=500))
    assert longer.steps == 500
    np.testing.assert_allclose(longer.weight, head.weight, rtol=1e-3, atol=1e-4)


def test_what_is_held_out_is_not_learnt() -> None:
    """One feature tells classes apart everywhere, another one in the held-out half alone."""
    points = np.array([[-1, 0], [1, 0]] * 10 + [[-1, -1], [1, 1]] * 10, np.float32)
    head = train_head(points, np.array([0, 1] * 20), np.arange(40) >= 20, 2, Plan(steps=50, patience=50))
    assert head.scores(points[:2]).argmax(1).tolist() == [0, 1]
    assert (head.weight[:, 1] == 0).all()


def test_where_nothing_is_learnt_the_head_says_so() -> None:
    """The held-out half says the opposite of the other one."""
    points, labels = np.array([[-1.0], [1.0]] * 20, np.float32), np.array([0, 1] * 10 + [1, 0] * 10)
    head = train_head(points, labels, np.arange(40) >= 20, 2, Plan(steps=100, patience=10))
    assert (head.steps, np.abs(head.scores(points)).max()) == (10, 0)


MASKED = """g (int64[N,T] input_ids, int64[N,T] attention_mask) => (float[N,T,3] last_hidden_state) {
    last_hidden_state = Gather (table, input_ids)
}"""
TABLE = np.random.default_rng(0).standard_normal((9, 3)).astype(np.float32)


@pytest.mark.parametrize(
    ("made", "feeds", "expected"),
    [
        (
            lambda: model(MASKED, table=TABLE),
            {"input_ids": [[1, 2, 8]], "attention_mask": [[1, 1, 0]]},
            TABLE[[1, 2]].mean(0),
        ),
        (
            lambda: model("g (int64[N,T] t) => (float[N,T,3] y) { y = Gather (table, t) }", table=TABLE),
            {"t": [[1, 2, 8]]},
            TABLE[[1, 2, 8]].mean(0),
        ),
        (
            lambda: model("g (int64[N,T] t) => (float[N,T,3] y) { y = Gather (table, t) }", opset=20, table=TABLE),
            {"t": [[1, 2, 8]]},
            TABLE[[1, 2, 8]].mean(0),
        ),
        (lambda: model(IDENTITY), {"x": np.array([[3, 4]], np.float32)}, [3, 4]),
        (
            lambda: model(
                "g (int64[N,2] i) => (int64[N,2] same, float[A,B] y) "
                "{ same = Identity (i)  f = Cast <to = 1> (i)  y = Neg (f) }"
            ),
            {"i": [[3, 4]]},
            [-3, -4],
        ),
    ],
    ids=["masked", "tokens", "tokens-of-18", "vectors", "behind-integers"],
)  # fmt: skip
def test_embeddings_are_means_over_what_is_there(made: Callable[[], Any], feeds: dict[str, Any], expected: Any) -> None:
    network = encoder(read(made().SerializeToString()))
    session = onnxruntime.InferenceSession(write(network), providers=["CPUExecutionProvider"])
    given = {each.name: np.asarray(feeds[each.name]) for each in session.get_inputs()}
    (found,) = session.run(None, given)
    assert found.shape == (1, len(expected))
    np.testing.assert_allclose(found[0], expected, rtol=1e-5)


CLASSIFIER = """g (float[N,3,4,4] x) => (float[N,5] {name}) {{
    p = GlobalAveragePool (x)  f = Flatten (p)  s = Gemm <transB = 1> (f, w)  {name} = {last} (s)
}}"""


@pytest.mark.parametrize(
    ("name", "last", "metadata", "size"),
    [
        ("y", "Softmax", {}, 3),
        ("logits", "Identity", {}, 3),
        ("y", "Identity", {"names": "{0: 'a', 1: 'b', 2: 'c', 3: 'd', 4: 'e'}"}, 3),
        ("y", "Identity", {}, 5),
        ("embeddings", "Softmax", {}, 5),
    ],
)
def test_of_a_classifier_what_its_last_product_takes(name: str, last: str, metadata: dict[str, str], size: int) -> None:
    weight = np.zeros((5, 3), np.float32)
    made = model(CLASSIFIER.format(name=name, last=last), metadata=metadata, w=weight)
    for output, wanted in (("", size), ("p", 3)):
        assert encoder(read(made.SerializeToString()), output).graph.outputs[0].shape == ("N", wanted)


HEADS = {
    "transposed": ("t = Transpose <perm = [1, 0]> (w)  s = MatMul (f, t)  y = Softmax (s)", 3),
    "constant": ("v = Constant <value = float[3,5] {ZEROS}> ()  s = MatMul (f, v)  y = Softmax (s)", 3),
    "bias": ("t = Transpose <perm = [1, 0]> (w)  m = MatMul (f, t)  s = Add (b, m)  y = Softmax (s)", 3),
    "convolution": ("c = Reshape (w, four)  s = Conv (p, c)  z = Flatten (s)  y = Softmax (z)", 3),
    "two products": ("s = Gemm <transB = 1> (f, w)  r = Gemm <transB = 1> (f, w)  q = Add (s, r)  y = Softmax (q)", 5),
    "a layer behind": ("s = Gemm <transB = 1> (f, w)  r = Relu (s)  y = Softmax (r)", 5),
}
"""The last nodes of classifiers, whose features `f` and `p` are three numbers, and how many an embedding has."""


@pytest.mark.parametrize("name", HEADS)
def test_the_head_is_the_last_layer_with_weights(name: str) -> None:
    nodes, size = HEADS[name]
    text = "g (float[N,3,4,4] x) => (float[N,5] y) { p = GlobalAveragePool (x)  f = Flatten (p)  NODES }"
    text = text.replace("NODES", nodes).replace("ZEROS", ", ".join("0" * 15))
    made = model(text, w=np.zeros((5, 3), np.float32), b=np.zeros(5, np.float32), four=[5, 3, 1, 1])
    assert encoder(read(made.SerializeToString())).graph.outputs[0].shape == ("N", size)


def test_texts_go_through_a_tokenizer(tmp_path: Path) -> None:
    words = {
        word: number
        for number, word in enumerate(["[UNK]", "good", "fine", "bad", "poor", "day", "night", "work", "x"])
    }
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))
    texts = [f"{first} {second}" for first in ("good", "fine", "bad", "poor") for second in ("day", "night", "work")]
    labels = ["up"] * 6 + ["down"] * 6
    table = TABLE.copy()
    table[1:3, 0], table[3:5, 0] = 3, -3
    taught = sardonyx.teach(model(MASKED, table=table), texts, labels, tokenizer=tmp_path)
    assert taught.accuracy == 1.0
    other = model("g (int64[N,T] t) => (float[N,T,3] y) { y = Gather (table, t) }", table=TABLE)
    with pytest.raises(InvalidArgument, match="has an input 't'; of a text come input_ids"):
        sardonyx.teach(other, texts, labels, tokenizer=tmp_path / "tokenizer.json")


def test_a_class_with_one_example_is_learnt_and_not_held_out() -> None:
    points, labels = clusters(9)
    taught = sardonyx.teach(model(IDENTITY), [*points, np.array([-500, 0], np.float32)], [*labels, 3])
    assert taught.confusion.sum(1).tolist() == [1, 1, 1, 0]
    whole = sardonyx.teach(model(IDENTITY), points, labels, held_out=0)
    assert (whole.learnt, whole.held_out, whole.confusion.sum()) == (9, 0, 9)


def test_an_image_in_the_metadata_is_followed() -> None:
    text = "g (float[N,3,8,8] x) => (float[N,3] features) { p = GlobalAveragePool (x)  features = Flatten (p) }"
    told = {"mean": [127.5], "std": [63.75], "size": None, "fit": "stretch", "pad": 0, "order": "bgr"}
    red, blue = (np.full((9, 11, 3), color, np.uint8) for color in ((255, 0, 0), (0, 0, 255)))
    made = model(text, metadata={"sardonyx.image": json.dumps(told)})
    taught = sardonyx.teach(made, [red, blue] * 4, ["red", "blue"] * 4)
    assert taught.accuracy == 1.0
    assert json.loads(taught.model.metadata["sardonyx.image"]) == {**told, "size": [8, 8], "antialias": True}
    for wrong in ('{"mean": "x"}', "[]", json.dumps({**told, "std": [0]}), json.dumps({**told, "fit": "squeeze"})):
        with pytest.raises(InvalidArgument, match="says nothing that can be followed"):
            sardonyx.teach(model(text, metadata={"sardonyx.image": wrong}), [red, blue], ["red", "blue"])


@pytest.mark.parametrize(
    ("examples", "labels", "options", "text"),
    [
        ([np.zeros(2, np.float32)] * 2, ["a"], {}, "2 examples are given, and 1 labels"),
        ([np.zeros(2, np.float32)] * 2, ["a", "a"], {}, "the labels are .'a'.: teach two classes at least"),
        ([np.zeros(2, np.float32)] * 2, ["a", None], {}, "the label of example 1 is None: labels are texts or whole"),
        ([np.zeros(2, np.float32)] * 2, [1, "1"], {}, "of the labels .1, '1'. two read the same"),
        ([np.zeros(2, np.float32)] * 2, ["a", "b"], {"steps": 0}, "steps=0: a head learns nothing"),
        ([np.zeros(2, np.float32)] * 2, ["a", "b"], {"held_out": 1.0}, "held_out=1.0: write a part"),
        ([np.full(2, np.nan, np.float32)] * 2, ["a", "b"], {}, "the embedding of example 0 is not finite"),
        (["x.png", "y.png"], ["a", "b"], {}, "example 0 is a str: say how pictures become the input by image="),
        ([np.zeros((3, 2), np.float32)] * 2, ["a", "b"], {}, "example 0 has 3 embeddings"),
        ([np.zeros(2, np.float32)] * 2, ["a", "b"], {"output": "q"}, "the model has no tensor 'q'"),
    ],
)
def test_what_cannot_be_taught_is_said(
    examples: list[Any], labels: list[str], options: dict[str, Any], text: str
) -> None:
    with pytest.raises(InvalidArgument, match=text):
        sardonyx.teach(model(IDENTITY), examples, labels, **options)
