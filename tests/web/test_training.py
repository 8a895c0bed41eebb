"""Models that a page trains: what float64 makes of the same batches, and what onnxruntime gives for the files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from sklearn.datasets import load_digits

import sardonyx
from sardonyx.demo import assets
from sardonyx.demo.digits import digit_from_gray
from sardonyx.errors import InvalidArgument
from sardonyx.plans.bundle import Bundle
from sardonyx.plans.plan_cache import Source
from sardonyx.training import wholes
from sardonyx.training.bundling import training_bundle
from tests.support.browser import Chromium

pytestmark = pytest.mark.slow
Arrays = dict[str, np.ndarray]
TARGETS = ["wasm", "webgpu"]
SIZES = {"w1": (6, 48), "b1": (48,), "w2": (48, 3), "b2": (3,)}
BATCHES = [5, 1, 8]


def network(parameters: Mapping[str, np.ndarray], nodes: Sequence[Any], shape: Sequence[Any], output: str) -> bytes:
    """A model of these nodes from `x`, with open batches."""
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("image" if len(shape) == 4 else "x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["N", None])],
        [numpy_helper.from_array(array, name) for name, array in parameters.items()],
    )
    opset = helper.make_opsetid("", 17)
    return bytes(helper.make_model(graph, opset_imports=[opset], ir_version=8).SerializeToString())


def mlp(parameters: Mapping[str, np.ndarray], ends: str = "Softmax") -> bytes:
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["a"]),
        helper.make_node("Relu", ["a"], ["h"]),
        helper.make_node("MatMul", ["h", "w2"], ["p"]),
        helper.make_node("Add", ["p", "b2"], ["s"]),
        helper.make_node(ends, ["s"], ["y"]),
    ]
    return network(parameters, nodes, ["N", 6], "y")


def drawn(rng: np.random.Generator) -> Arrays:
    return {name: (rng.normal(size=shape) / 2).astype("f4") for name, shape in SIZES.items()}


def batches_of(rng: np.random.Generator) -> list[Arrays]:
    return [{"x": rng.normal(size=(n, 6)).astype("f4"), "labels": rng.integers(0, 3, n)} for n in BATCHES]


def step(p: Arrays, batch: Arrays) -> tuple[float, Arrays]:
    """The cross entropy, and its gradients, in float64."""
    x, rows = batch["x"].astype("f8"), np.arange(len(batch["x"]))
    h = np.maximum(x @ p["w1"] + p["b1"], 0)
    s = h @ p["w2"] + p["b2"]
    y = np.exp(s - s.max(1, keepdims=True))
    y /= y.sum(1, keepdims=True)
    loss = -np.log(y[rows, batch["labels"]]).mean()
    y[rows, batch["labels"]] -= 1
    y /= len(x)
    back = (y @ p["w2"].T) * (h > 0)
    return loss, {"w1": x.T @ back, "b1": back.sum(0), "w2": h.T @ y, "b2": y.sum(0)}


class AdamW:
    """As onnxruntime's: epsilon before the bias is corrected, and no decay."""

    def __init__(self, rate: float) -> None:
        self.rate, self.count = rate, 0
        self.m: Arrays = {}
        self.v: Arrays = {}

    def move(self, p: Arrays, sums: Arrays, trained: Sequence[str]) -> None:
        self.count += 1
        for name in trained:
            g = sums[name]
            self.m[name] = 0.9 * self.m.get(name, 0) + 0.1 * g
            self.v[name] = 0.999 * self.v.get(name, 0) + 0.001 * g * g
            root = np.sqrt(1 - 0.999**self.count) / (1 - 0.9**self.count)
            p[name] = p[name] - self.rate * root * self.m[name] / (np.sqrt(self.v[name]) + 1e-6)


def wanted(p: Arrays, batches: Sequence[Arrays], steps: Sequence[Sequence[int]], rate: float, trained: Any) -> Any:
    """Parameters and losses after these steps."""
    p = {name: array.astype("f8") for name, array in p.items()}
    optimizer, losses = AdamW(rate), []
    for numbers in steps:
        sums = {name: np.zeros(array.shape) for name, array in p.items()}
        for number in numbers:
            loss, gradients = step(p, batches[number])
            losses.append(loss)
            sums = {name: sums[name] + gradients[name] for name in sums}
        optimizer.move(p, sums, trained)
    return p, losses


def plain(array: np.ndarray) -> list[Any]:
    return [{"f": "float32", "i": "int64"}[array.dtype.kind], array.ravel().tolist(), list(array.shape)]


def made(model: bytes, *given: Any, compress: bool = True, **options: Any) -> bytes:
    return b"".join(training_bundle(Source(model), *given, compress=compress, **options))


def parameters_of(file: bytes) -> Arrays:
    """What a file of safetensors holds, read as its format says."""
    length = int.from_bytes(file[:8], "little")
    assert length % 8 == 0
    data, entries = file[8 + length :], json.loads(file[8 : 8 + length])
    assert entries.pop("__metadata__") == {"classes": "ä,b"}
    return {
        name: np.frombuffer(data[slice(*each["data_offsets"])], "<f4").reshape(each["shape"])
        for name, each in entries.items()
        if each["dtype"] == "F32"
    }


@pytest.mark.parametrize(
    ("target", "train", "worker"),
    [
        ("wasm", "all", False),
        ("wasm", "all", True),
        ("wasm", "head", True),
        ("webgpu", "all", False),
    ],
)
def test_steps_are_those_of_float64(
    chromium: Chromium, target: str, train: str, worker: bool, rng: np.random.Generator
) -> None:
    p, batches = drawn(rng), batches_of(rng)
    names = list(SIZES) if train == "all" else ["w2", "b2"]
    steps = [[0], [1], [2], *[[0, 1, 2]] * 3, [1], [0]]
    after, losses = wanted(p, batches, steps, 0.02, names)
    chromium.site.data["model.sdx"] = made(mlp(p), [target], train)
    given = [{name: plain(array) for name, array in batch.items()} for batch in batches]
    asked = {"task": "train", "target": target, "worker": worker, "rate": 0.02, "batches": given, "steps": steps}
    told = chromium.call("/web/training.mjs", asked, 120)
    np.testing.assert_allclose(told["losses"], losses, 1e-4)
    found = {name: np.reshape(*each) for name, each in told["parameters"]}
    assert list(found) == names
    for name in names:
        np.testing.assert_allclose(found[name], after[name], 2e-4, 2e-4)
    np.testing.assert_array_equal(told["contiguous"][0], np.concatenate([found[name].ravel() for name in names]))
    assert told["names"] == [["x", "labels"], ["loss", "y"], ["x", "labels"], ["loss", "y"]]
    np.testing.assert_allclose(told["loss"], step(after, batches[0])[0], 1e-4)

    files = {name: chromium.site.posted[f"model.{name}"] for name in ("onnx", "sdx", "safetensors")}
    onnx.checker.check_model(files["onnx"], full_check=True)
    x = batches[0]["x"]
    judge = onnxruntime.InferenceSession(files["onnx"])
    assert judge.get_modelmeta().custom_metadata_map == {"classes": "ä,b"}
    (y,) = judge.run(None, {"x": x})
    for outputs in (told["outputs"], told["run"]):
        (name, (elements, dims)), *_ = outputs
        assert name == "y"
        np.testing.assert_allclose(np.reshape(elements, dims), y, 1e-5, 1e-6)
    provider = {"wasm": "WasmExecutionProvider", "webgpu": "WebGpuExecutionProvider"}[target]
    session = sardonyx.InferenceSession(files["sdx"], providers=[provider])
    assert session.get_modelmeta().custom_metadata_map == {"classes": "ä,b"}
    np.testing.assert_allclose(session.run(None, {"x": x})[0], y, 1e-5, 1e-6)
    stored = parameters_of(files["safetensors"])
    assert stored.keys() == set(names)
    for name in names:
        np.testing.assert_array_equal(stored[name], found[name].astype("f4"))
    initializers = {
        each.name: numpy_helper.to_array(each) for each in onnx.load_from_string(files["onnx"]).graph.initializer
    }
    assert initializers.keys() == SIZES.keys()
    for name, array in initializers.items():
        np.testing.assert_array_equal(array, stored.get(name, p[name]))


@pytest.mark.parametrize("target", TARGETS)
def test_parameters_lie_in_several_wholes(
    chromium: Chromium, target: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """w1 alone; b1 and w2, with zeros between; b2, behind which are zeros alone."""
    monkeypatch.setattr(wholes, "LARGEST", 256)
    p, batches = drawn(rng), batches_of(rng)
    steps = [[0], [1, 2], [2]]
    after, losses = wanted(p, batches, steps, 0.02, list(SIZES))
    chromium.site.data["model.sdx"] = bundle = made(mlp(p), [target])
    told = Bundle(bundle).manifest["training"]
    titles = {title: name for name, title in told["parameters"].items()}
    parts = {name: [titles[part] for part in parts] for name, parts in told["wholes"].items() if "sum" not in name}
    assert parts == {"~whole0": ["w1"], "~whole1": ["b1", "w2"], "~whole2": ["b2"]}
    given = [{name: plain(array) for name, array in batch.items()} for batch in batches]
    asked = {"task": "train", "target": target, "rate": 0.02, "batches": given, "steps": steps}
    told = chromium.call("/web/training.mjs", asked, 120)
    np.testing.assert_allclose(told["losses"], losses, 1e-4)
    for name, found in told["parameters"]:
        np.testing.assert_allclose(np.reshape(*found), after[name], 2e-4, 2e-4)


@pytest.mark.parametrize(("target", "worker"), [("wasm", False), ("wasm", True), ("webgpu", False)])
def test_parameters_are_put_back(chromium: Chromium, target: str, worker: bool, rng: np.random.Generator) -> None:
    p, batches = drawn(rng), batches_of(rng)
    model = mlp(p)
    chromium.site.data["model.sdx"] = made(model, [target], compress=False)
    chromium.site.data["plain.sdx"] = sardonyx.compile(model, target)
    given = [{name: plain(array) for name, array in batches[0].items()}]
    asked = {"task": "restore", "target": target, "worker": worker, "batches": given}
    told = chromium.call("/web/training.mjs", asked, 120)
    after, _ = wanted(p, batches, [[0]], 0.001, list(SIZES))
    losses = [step(each, batches[0])[0] for each in (p, after, after, p)]
    np.testing.assert_allclose(told["losses"], losses, 1e-5)
    assert told["size"] == sum(array.size for array in p.values())
    assert told["errors"] == [
        'input "x" (float32[N,6]) is missing from the feeds',
        f"the parameters have {4 * told['size']} bytes, not 3",
        'there is no format "txt"; use onnx, sdx, safetensors',
        "this session was released",
        "/data/plain.sdx has no plans for training: make it with `sardonyx compile model.onnx --train all`",
    ]


@pytest.mark.parametrize("worker", [False, True], ids=["here", "worker"])
@pytest.mark.parametrize("train", ["all", "head"])
def test_calls_wait_for_each_other(chromium: Chromium, train: str, worker: bool, rng: np.random.Generator) -> None:
    """Nobody has to wait for a call before the next one, `release` included."""
    p, batches = drawn(rng), batches_of(rng)
    names = list(SIZES) if train == "all" else ["w2", "b2"]
    chromium.site.data["model.sdx"] = made(mlp(p), ["wasm"], train)
    given = [{name: plain(array) for name, array in batch.items()} for batch in (batches[0], batches[2])]
    told = chromium.call("/web/training.mjs", {"task": "hasty", "worker": worker, "rate": 0.02, "batches": given}, 60)
    for count, (found, _) in enumerate(told["parameters"], 1):
        after, losses = wanted(p, batches, [[0], [2]][:count], 0.02, names)
        np.testing.assert_allclose(found, np.concatenate([after[name].ravel() for name in names]), 2e-4, 2e-4)
    np.testing.assert_allclose(told["losses"], losses, 1e-4)
    stored = parameters_of(chromium.site.posted["hasty"])
    np.testing.assert_array_equal(np.concatenate([stored[name].ravel() for name in names]), np.float32(found))
    assert told["error"] == "this session was released"


def test_a_head_that_sees_the_input_besides(chromium: Chromium, rng: np.random.Generator) -> None:
    """What training begins with is a feature and an input of the model, of which the latter is fed."""
    shapes = {"w1": (6, 5), "w2": (5, 3)}
    p = {name: (rng.normal(size=shape) / 2).astype("f4") for name, shape in shapes.items()}
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"]),
        helper.make_node("Relu", ["a"], ["h"]),
        helper.make_node("MatMul", ["h", "w2"], ["s"]),
        helper.make_node("Concat", ["s", "x"], ["y"], axis=1),
    ]
    chromium.site.data["model.sdx"] = made(network(p, nodes, ["N", 6], "y"), ["wasm"], "w2", "cross-entropy", "sgd")
    batch = batches_of(rng)[0]
    asked = {
        "task": "train",
        "target": "wasm",
        "rate": 0.5,
        "batches": [{name: plain(array) for name, array in batch.items()}],
        "steps": [[0]],
    }
    told = chromium.call("/web/training.mjs", asked, 60)
    h, rows = np.maximum(batch["x"].astype("f8") @ p["w1"], 0), np.arange(len(batch["x"]))
    y = np.exp(np.concatenate([h @ p["w2"], batch["x"]], 1))
    y /= y.sum(1, keepdims=True)
    np.testing.assert_allclose(told["losses"], [-np.log(y[rows, batch["labels"]]).mean()], 1e-5)
    y[rows, batch["labels"]] -= 1
    ((name, found),) = told["parameters"]
    assert name == "w2"
    np.testing.assert_allclose(np.reshape(*found), p["w2"] - 0.5 * h.T @ y[:, :3] / len(h), 1e-5, 1e-6)


LOSSES = {
    "mse": (lambda s, t: np.mean((s - t) ** 2), "Identity"),
    "l1": (lambda s, t: np.mean(np.abs(s - t)), "Identity"),
    "bce": (lambda s, t: -np.mean(t * np.log(1 / (1 + np.exp(-s))) + (1 - t) * np.log(1 / (1 + np.exp(s)))), "Sigmoid"),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_losses(chromium: Chromium, loss: str, rng: np.random.Generator) -> None:
    """By gradient descent, whose one step follows the slope of the loss as differences find it."""
    p = drawn(rng)
    x, t = rng.normal(size=(7, 6)).astype("f4"), rng.uniform(size=(7, 3)).astype("f4")
    function, end = LOSSES[loss]

    def value(p: Arrays) -> float:
        h = np.maximum(x @ p["w1"].astype("f8") + p["b1"], 0)
        return float(function(h @ p["w2"] + p["b2"], t))

    chromium.site.data["model.sdx"] = made(mlp(p, end), ["wasm"], "b1,w2", loss, "sgd")
    batch = {"x": plain(x), "target": plain(t)}
    asked = {"task": "train", "target": "wasm", "rate": 0.5, "batches": [batch], "steps": [[0]]}
    told = chromium.call("/web/training.mjs", asked, 60)
    np.testing.assert_allclose(told["losses"], [value(p)], 1e-5)
    found = {name: np.reshape(*each) for name, each in told["parameters"]}
    assert list(found) == ["b1", "w2"]
    for name, array in found.items():
        for index in np.ndindex(array.shape):
            up, down = ({**p, name: p[name].astype("f8")} for _ in range(2))
            up[name][index] += 1e-5
            down[name][index] -= 1e-5
            slope = (value(up) - value(down)) / 2e-5
            np.testing.assert_allclose(array[index], p[name][index] - 0.5 * slope, 1e-4, 2e-5)


def test_a_head_for_other_classes(rng: np.random.Generator) -> None:
    p = drawn(rng)
    bundle = made(mlp(p), ["wasm"], "head", classes=5)
    manifest = Bundle(bundle).manifest
    shapes = [manifest["weights"][title][1] for title in manifest["training"]["parameters"].values()]
    assert shapes == [[48, 5], [5]]
    assert manifest["training"]["file"]["initializers"].keys() == {"w1", "w2", "b2"}  # what is large is stored once
    (y,) = sardonyx.InferenceSession(bundle).run(None, {"x": np.ones((2, 6), "f4")})
    assert y.shape == (2, 5)
    np.testing.assert_allclose(y.sum(1), 1, 1e-6)
    assert np.ptp(y) > 0
    assert made(mlp(p), ["wasm"], "head", classes=5) == bundle


def test_a_step_of_the_optimizer_takes_as_few_launches_as_for_one_parameter(rng: np.random.Generator) -> None:
    for optimizer, most in (("adamw", 4), ("sgd", 1)):
        manifest = Bundle(made(cnn(rng), TARGETS, optimizer=optimizer)).manifest
        assert len(manifest["training"]["trainable"]) == 6
        for target in TARGETS:
            (plan,) = manifest["targets"][target]["training"]["optimizer"]
            assert 1 <= len(plan["steps"]) <= most


def test_what_cannot_be_trained(rng: np.random.Generator) -> None:
    with pytest.raises(InvalidArgument, match="--train w9: say head, all, or names of parameters; there are w1, b1"):
        made(mlp(drawn(rng)), ["wasm"], "w9")
    with pytest.raises(InvalidArgument, match="no layer of the model has weights of floats"):
        made(network({}, [helper.make_node("Relu", ["x"], ["y"])], ["N", 6], "y"), ["wasm"])
    with pytest.raises(InvalidArgument, match="has no Gemm, MatMul, Conv or ConvTranspose with weights"):
        made(network({}, [helper.make_node("Relu", ["x"], ["y"])], ["N", 6], "y"), ["wasm"], "head")


def cnn(rng: np.random.Generator) -> bytes:
    """Two convolutions and a layer for digits of 8x8, drawn as PyTorch draws."""
    sizes = {"c1": (16, 1, 3, 3), "d1": (16,), "c2": (32, 16, 3, 3), "d2": (32,), "w": (128, 10), "b": (10,)}
    bounds = {"c": 9, "d": 9, "w": 128, "b": 128}
    parameters = {
        name: rng.uniform(-1, 1, shape).astype("f4") / np.sqrt(bounds[name[0]] * (16 if name == "c2" else 1))
        for name, shape in sizes.items()
    }
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        helper.make_node("Conv", ["image", "c1", "d1"], ["1"], pads=[1] * 4),
        helper.make_node("Relu", ["1"], ["2"]),
        helper.make_node("MaxPool", ["2"], ["3"], **pool),
        helper.make_node("Conv", ["3", "c2", "d2"], ["4"], pads=[1] * 4),
        helper.make_node("Relu", ["4"], ["5"]),
        helper.make_node("MaxPool", ["5"], ["6"], **pool),
        helper.make_node("Flatten", ["6"], ["7"]),
        helper.make_node("Gemm", ["7", "w", "b"], ["scores"]),
    ]
    return network({name: array.astype("f4") for name, array in parameters.items()}, nodes, ["N", 1, 8, 8], "scores")


HELD = 360
"""Images of scikit-learn's 1,797 digits that are never trained on."""


def digits(chromium: Chromium) -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's digits, 8x8, in an order by chance; the page finds them."""
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    images, labels = (data.images[order, None] / 16).astype("f4"), data.target[order].astype("i8")
    chromium.site.data.update({"images": images.tobytes(), "labels": labels.tobytes()})
    return images, labels


def test_digits_from_scratch(chromium: Chromium, rng: np.random.Generator) -> None:
    """97 % of those that were held out, by onnxruntime with the file that the page gives."""
    images, labels = digits(chromium)
    chromium.site.data["model.sdx"] = made(cnn(rng), ["wasm"])
    asked = {"images": "images", "labels": "labels", "held": HELD, "batch": 32, "epochs": 12, "enough": 0.97}
    told = chromium.call("/web/training.mjs", {"task": "learn", "target": "wasm", "rate": 0.004, **asked}, 240)
    (scores,) = onnxruntime.InferenceSession(chromium.site.posted["learnt.onnx"]).run(None, {"image": images[:HELD]})
    right = np.mean(scores.argmax(1) == labels[:HELD])
    assert right == pytest.approx(told["accuracies"][-1])
    assert right >= 0.97


def forgetful(rng: np.random.Generator) -> bytes:
    """The digits model with weights drawn by chance, as He et al. do (2015), and without statistics."""
    model = onnx.load(str(assets() / "digits.onnx"))
    for each in model.graph.initializer:
        old = numpy_helper.to_array(each)
        new = np.ones(old.shape) if each.name.endswith(("weight", "var")) else np.zeros(old.shape)
        if old.ndim > 1:
            new = rng.normal(size=old.shape) * np.sqrt(2 / np.prod(old.shape[1:]))
        each.CopyFrom(numpy_helper.from_array(new.astype(old.dtype), each.name))
    return bytes(model.SerializeToString())


@pytest.mark.nightly
def test_the_digits_model_from_scratch(chromium: Chromium, rng: np.random.Generator) -> None:
    """97 % of the images of 8x8 as the page of digits would see them."""
    fine, labels = digits(chromium)
    wide = [
        Image.fromarray((255 * each[0]).astype(np.uint8)).resize((96, 96), Image.Resampling.BICUBIC) for each in fine
    ]
    images = np.concatenate([digit_from_gray(np.asarray(each.crop((-24, -24, 120, 120)))) for each in wide])
    chromium.site.data.update({"images": images.astype("f4").tobytes(), "model.sdx": made(forgetful(rng), ["wasm"])})
    asked = {"images": "images", "labels": "labels", "held": HELD, "batch": 32, "epochs": 15, "enough": 0.97}
    chromium.call("/web/training.mjs", {"task": "learn", "target": "wasm", "rate": 0.003, **asked}, 280)
    (shares,) = onnxruntime.InferenceSession(chromium.site.posted["learnt.onnx"]).run(None, {"image": images[:HELD]})
    assert np.mean(shares.argmax(1) == labels[:HELD]) >= 0.97


@pytest.mark.nightly
def test_fifty_steps_on_both_devices(chromium: Chromium, rng: np.random.Generator) -> None:
    images, labels = digits(chromium)
    model = cnn(rng)
    batches = [{"image": plain(images[k : k + 16]), "labels": plain(labels[k : k + 16])} for k in range(0, 800, 16)]
    losses = {}
    for target in TARGETS:
        chromium.site.data["model.sdx"] = made(model, [target])
        asked = {"target": target, "rate": 0.01, "batches": batches, "steps": [[k] for k in range(50)]}
        losses[target] = chromium.call("/web/training.mjs", {"task": "train", **asked}, 280)["losses"]
    assert losses["wasm"][-1] < losses["wasm"][0] / 2
    np.testing.assert_allclose(losses["webgpu"], losses["wasm"], 1e-3)
