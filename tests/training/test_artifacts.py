"""Artifacts: what is trained, what is frozen, which outputs there are, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper, parser

from sardonyx.errors import InvalidArgument, NotImplemented
from sardonyx.training import artifacts, onnxblock
from sardonyx.training.api import CheckpointState, Module, Optimizer
from tests.training.networks import CNN, MLP

RNG = np.random.default_rng(3)
X, LABELS = RNG.standard_normal((6, 4)).astype(np.float32), np.array([0, 1, 2, 0, 1, 2])
TARGET = RNG.standard_normal((6, 3)).astype(np.float32)


def generate(folder: Path, **options: Any) -> Module:
    """The artifacts of the MLP, unless another model is given, as a module."""
    told = {"requires_grad": MLP.trained(), "loss": artifacts.LossType.CrossEntropyLoss, **options}
    artifacts.generate_artifacts(told.pop("model", MLP.model()), artifact_directory=folder, **told)
    prefix = told.get("prefix", "")
    state = CheckpointState.load_checkpoint(folder / f"{prefix}checkpoint")
    return Module(folder / f"{prefix}training_model.onnx", state, folder / f"{prefix}eval_model.onnx")


def names(folder: Path, file: str) -> list[list[str]]:
    """The names of inputs, outputs and initializers."""
    graph = onnx.load(folder / file).graph
    return [[each.name for each in some] for some in (graph.input, graph.output, graph.initializer)]


def test_others_stay_initializers_and_frozen_ones_become_inputs(tmp_path: Path) -> None:
    module = generate(tmp_path, requires_grad=["w2", "b2"], frozen_params=["w1"])
    inputs, outputs, initializers = names(tmp_path, "training_model.onnx")
    assert inputs == ["x", "labels", "w1", "w2", "b2"]
    assert outputs == ["loss", "w2_grad", "b2_grad"]
    assert initializers == ["b1"]
    assert [(name, each.requires_grad) for name, each in module.state.parameters] == [
        ("b2", True),
        ("w1", False),
        ("w2", True),
    ]
    assert module.get_parameters_size() == 18
    assert module.get_parameters_size(trainable_only=False) == 38
    module(X, LABELS)
    assert module.state.parameters["w1"].grad is None


def test_a_model_is_a_path_or_bytes_or_a_message_and_stays_as_it_is(tmp_path: Path) -> None:
    model = MLP.model()
    before = model.SerializeToString()
    onnx.save(model, tmp_path / "mlp.onnx")
    losses = [
        generate(tmp_path, model=given, prefix=prefix)(X, LABELS)
        for given, prefix in ((model, "a_"), (before, "b_"), (str(tmp_path / "mlp.onnx"), "c_"))
    ]
    assert losses[0] == losses[1] == losses[2]
    assert model.SerializeToString() == before


def test_additional_outputs_stand_behind_the_loss(tmp_path: Path) -> None:
    module = generate(tmp_path, additional_output_names=["y", "h"])
    assert module.output_names() == ["loss", "y", "h"]
    loss, y, h = module(X, LABELS)
    session = onnxruntime.InferenceSession(MLP.model().SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(y, session.run(["y"], {"x": X})[0], rtol=1e-5, atol=1e-6)
    assert h.shape == (6, 5)
    assert loss.shape == ()
    assert module.eval().output_names() == ["loss", "y", "h"]
    assert len(module(X, LABELS)) == 3


def test_a_loss_may_be_a_block_of_ones_own(tmp_path: Path) -> None:
    class Weighted(onnxblock.Block):
        """Twice the mean square, and a tenth of the mean of absolutes of the weights."""

        def build(self, *outputs: str) -> str:
            squares = onnxblock.loss.MSELoss()(outputs[0])
            size = onnxblock.blocks.ReduceMean(keepdims=False)(onnxblock.blocks.Abs()("w2"))
            twice = onnxblock.blocks.Mul()(squares, onnxblock.blocks.Constant(2.0)())
            return str(onnxblock.blocks.Add()(twice, onnxblock.blocks.Mul()(size, onnxblock.blocks.Constant(0.1)())))

    module = generate(tmp_path, loss=Weighted())
    w1, b1, w2, b2 = (MLP.parameters()[name].astype(np.float64) for name in MLP.trained())
    a = np.maximum(X @ w1.T + b1, 0)
    difference = a @ w2.T + b2 - TARGET
    np.testing.assert_allclose(module(X, TARGET), 2 * (difference**2).mean() + 0.1 * np.abs(w2).mean(), rtol=1e-5)
    expected = 4 * difference.T @ a / difference.size + 0.1 * np.sign(w2) / w2.size
    np.testing.assert_allclose(module.state.parameters["w2"].grad, expected, rtol=1e-4, atol=1e-6)


def test_without_a_loss_the_first_output_is_made_small(tmp_path: Path) -> None:
    module = generate(tmp_path, loss=None)
    assert module.input_names() == ["x"]
    module(X)
    np.testing.assert_allclose(module.state.parameters["b2"].grad, [6, 6, 6], rtol=1e-6)


def test_a_loss_takes_the_inputs_that_are_named(tmp_path: Path) -> None:
    text = "two (float[N,4] x) => (float[N,4] a, float[N,4] b) { a = Mul (x, s)  b = Relu (a) }"
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17]> {text}')
    model.graph.initializer.append(numpy_helper.from_array(np.full(4, 2, np.float32), "s"))
    options = {"requires_grad": ["s"], "loss": artifacts.LossType.L1Loss}
    module = generate(tmp_path, model=model, loss_input_names=["b"], **options)
    target = np.zeros((6, 4), np.float32)
    np.testing.assert_allclose(module(X, target), np.maximum(2 * X, 0).mean(), rtol=1e-5)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_classes_may_have_weights_and_labels_be_ignored(tmp_path: Path, reduction: str) -> None:
    weight = np.array([1, 2, 0.5], np.float32)
    module = generate(tmp_path, loss=onnxblock.loss.CrossEntropyLoss(weight, reduction, ignore_index=2))
    w1, b1, w2, b2 = (MLP.parameters()[name].astype(np.float64) for name in MLP.trained())
    scores = np.maximum(X @ w1.T + b1, 0) @ w2.T + b2
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    kept = LABELS != 2
    weights = weight[LABELS] * kept
    expected = -(logs[np.arange(6), LABELS] * weights).sum() / (weights.sum() if reduction == "mean" else 1)
    np.testing.assert_allclose(module(X, LABELS), expected, rtol=1e-5)


def test_bce_has_weights_and_does_not_overflow(tmp_path: Path) -> None:
    model = MLP.model()
    next(each for each in model.graph.initializer if each.name == "b2").CopyFrom(
        numpy_helper.from_array(np.array([200, -200, 0], np.float32), "b2")
    )
    weight, positive = np.array([1, 2, 3], np.float32), np.array([2, 1, 0.5], np.float32)
    loss = onnxblock.loss.BCEWithLogitsLoss(weight, "sum", positive)
    module = generate(tmp_path, model=model, loss=loss)
    w1, b1, w2, _ = (MLP.parameters()[name].astype(np.float64) for name in MLP.trained())
    logits = np.maximum(X @ w1.T + b1, 0) @ w2.T + np.array([200, -200, 0])
    target = (TARGET > 0).astype(np.float32)
    softplus = np.logaddexp(0, logits)
    expected = weight * (positive * target * (softplus - logits) + (1 - target) * softplus)
    np.testing.assert_allclose(module(X, target), expected.sum(), rtol=1e-5)


def test_gradients_are_clipped_by_their_common_norm(tmp_path: Path) -> None:
    clipped = onnxblock.optim.SGD(clip_grad=onnxblock.optim.ClipGradNorm(0.25))
    module = generate(tmp_path, optimizer=clipped)
    step = Optimizer(tmp_path / "optimizer_model.onnx", module)
    step.set_learning_rate(1.0)
    before = {name: each.data for name, each in module.state.parameters}
    module(X, LABELS)
    gradients = {name: each.grad for name, each in module.state.parameters}
    norm = np.sqrt(sum(float((each.astype(np.float64) ** 2).sum()) for each in gradients.values()))
    assert norm > 0.25
    step.step()
    for name, each in module.state.parameters:
        np.testing.assert_allclose(before[name] - each.data, gradients[name] * 0.25 / norm, rtol=1e-4, atol=1e-6)


def test_onnxruntime_runs_the_evaluation_model_and_the_optimizer(tmp_path: Path) -> None:
    """Nothing but operators of ONNX stands in them."""
    module = generate(tmp_path, optimizer=artifacts.OptimType.AdamW)
    parameters = MLP.parameters()
    session = onnxruntime.InferenceSession(tmp_path / "eval_model.onnx", providers=["CPUExecutionProvider"])
    (loss,) = session.run(None, {"x": X, "labels": LABELS, **parameters})
    np.testing.assert_allclose(module.eval()(X, LABELS), loss, rtol=1e-5)
    module.train()(X, LABELS)
    feeds = {"learning_rate": np.array([0.01], np.float32), "step": np.array([1]), **parameters}
    feeds |= {f"{name}_grad": each.grad for name, each in module.state.parameters}
    feeds |= {f"{name}_momentum{k}": np.zeros_like(array) for name, array in parameters.items() for k in (0, 1)}
    session = onnxruntime.InferenceSession(tmp_path / "optimizer_model.onnx", providers=["CPUExecutionProvider"])
    found = dict(zip([each.name for each in session.get_outputs()], session.run(None, feeds), strict=True))
    step = Optimizer(tmp_path / "optimizer_model.onnx", module)
    step.set_learning_rate(0.01)
    step.step()
    for name, each in module.state.parameters:
        np.testing.assert_allclose(each.data, found[f"{name}_next"], rtol=1e-6, atol=1e-7)


def test_parameters_may_be_of_other_floats(tmp_path: Path) -> None:
    text = "g (double[N,2] x) => (double[N,2] y) { y = Mul (x, s) }"
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17]> {text}')
    model.graph.initializer.append(numpy_helper.from_array(np.array([1.0, 2.0]), "s"))
    module = generate(tmp_path, model=model, requires_grad=["s"], loss=None, optimizer=artifacts.OptimType.AdamW)
    step = Optimizer(tmp_path / "optimizer_model.onnx", module)
    step.set_learning_rate(0.5)
    module(np.array([[1.0, 2.0]]))
    step.step()
    assert module.state.parameters["s"].data.dtype == np.float64
    np.testing.assert_allclose(module.state.parameters["s"].data, [0.5, 1.5], rtol=1e-4)


def test_statistics_are_kept_whether_named_or_not(tmp_path: Path) -> None:
    options = {"requires_grad": CNN.trained(), "loss": artifacts.LossType[CNN.loss]}
    one = generate(tmp_path, model=CNN.model(), **options)
    inputs, outputs, _ = names(tmp_path, "training_model.onnx")
    other = generate(tmp_path, model=CNN.model(), frozen_params=list(CNN.statistics), **options)
    assert names(tmp_path, "training_model.onnx")[0] == inputs
    assert outputs[1:5] == [f"{name}_next" for name in CNN.statistics]
    batch = CNN.batches()[0]
    assert one.output_names() == ["loss"]
    assert one(*batch) == other(*batch)
    x = batch[0].astype(np.float64)
    w = CNN.parameters()["conv1"].astype(np.float64)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    mean = np.einsum("nchwij,ocij->nohw", windows, w).mean((0, 2, 3))
    np.testing.assert_allclose(one.state.parameters["bn1_mean"].data, 0.1 * mean, rtol=1e-4, atol=1e-6)


def test_a_layer_that_is_used_twice_goes_on_from_its_own_statistics(tmp_path: Path) -> None:
    text = """twice (float[N,2] x) => (float[N,2] z) {
        y, m1, v1 = BatchNormalization <training_mode = 1, momentum = 0.5> (x, s, b, mean, var)
        h = Add (y, y)
        z, m2, v2 = BatchNormalization <training_mode = 1, momentum = 0.5> (h, s, b, mean, var)
    }"""
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17]> {text}')
    for name, value in (("s", 1), ("b", 3), ("mean", 0), ("var", 1)):
        model.graph.initializer.append(numpy_helper.from_array(np.full(2, value, np.float32), name))
    module = generate(tmp_path, model=model, requires_grad=["s", "b"], loss=None)
    x = RNG.standard_normal((8, 2)).astype(np.float32)
    module(x)
    np.testing.assert_allclose(module.state.parameters["mean"].data, 0.25 * x.mean(0) + 0.5 * 6, rtol=1e-5)


def test_dropout_of_the_forward_way_is_that_of_the_gradient(tmp_path: Path) -> None:
    text = """drop (float[N,64] x) => (float[N,64] y) <float half = {0.5}, bool yes = {1}> {
        h = Mul (x, s)
        y, mask = Dropout <seed = 7> (h, half, yes)
    }"""
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17]> {text}')
    model.graph.initializer.append(numpy_helper.from_array(np.ones(64, np.float32), "s"))
    module = generate(tmp_path, model=model, requires_grad=["s"], loss=None, additional_output_names=["mask"])
    x = np.ones((4, 64), np.float32)
    y, mask = module(x)
    assert 0.3 < mask.mean() < 0.7
    np.testing.assert_array_equal(y, 2.0 * mask)
    np.testing.assert_allclose(module.state.parameters["s"].grad, 2 * mask.sum(0), rtol=1e-6)
    again = generate(tmp_path, model=model, requires_grad=["s"], loss=None, additional_output_names=["mask"])
    np.testing.assert_array_equal(again(x)[1], mask)
    y, _ = module.eval()(x)
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"requires_grad": ["w9"]}, "requires_grad names 'w9', which is no initializer; there are b1, b2, w1, w2"),
        ({"requires_grad": None}, "requires_grad names no parameter to train"),
        ({"frozen_params": ["w1"]}, "'w1' is named by requires_grad and by frozen_params"),
        ({"loss": "mse"}, "loss is a str, neither a LossType nor a block of onnxblock"),
        ({"optimizer": "adam"}, "optimizer is a str, neither an OptimType nor a block of optim"),
        ({"additional_output_names": "y"}, "additional_output_names is 'y'; it is a list of names"),
        ({"additional_output_names": ["q"]}, "the model has no tensor 'q'; its outputs are"),
        ({"loss": artifacts.LossType.MSELoss, "loss_input_names": ["q"]}, "the model has no tensor 'q'"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        generate(tmp_path, **options)


@pytest.mark.parametrize("options", [{"ort_format": True}, {"custom_op_library": "lib.so"}])
def test_what_only_native_code_does_says_so(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(NotImplemented, match=next(iter(options))):
        generate(tmp_path, **options)


@pytest.mark.parametrize(
    ("opset", "loss", "text"),
    [
        (11, artifacts.LossType.CrossEntropyLoss, "SoftmaxCrossEntropyLoss is part of 12"),
        (11, artifacts.LossType.MSELoss, ""),
    ],
)
def test_old_operator_sets_have_what_they_have(tmp_path: Path, opset: int, loss: Any, text: str) -> None:
    model = MLP.model()
    model.opset_import[0].CopyFrom(helper.make_opsetid("", opset))
    if text:
        with pytest.raises(InvalidArgument, match=text):
            generate(tmp_path, model=model, loss=loss)
    else:
        module = generate(tmp_path, model=model, loss=loss, optimizer=artifacts.OptimType.AdamW)
        module(X, TARGET)
        Optimizer(tmp_path / "optimizer_model.onnx", module).step()
