"""The state of a training: checkpoints, properties, one vector of all parameters, learning rates, and where it lies."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

import sardonyx
from sardonyx import OrtValue
from sardonyx.errors import Fail, InvalidArgument, InvalidProtobuf, NoSuchFile, NotImplemented
from sardonyx.training import artifacts, onnxblock
from sardonyx.training.api import CheckpointState, LinearLRScheduler, Module, Optimizer
from sardonyx.training.checkpoint import MAGIC, read_checkpoint
from tests.support import require
from tests.training.networks import CNN, MLP

RNG = np.random.default_rng(4)
X, LABELS = RNG.standard_normal((6, 4)).astype(np.float32), np.array([0, 1, 2, 0, 1, 2])
FIXTURE = Path(__file__).parent / "fixtures" / "checkpoint"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The artifacts of the MLP."""
    artifacts.generate_artifacts(
        MLP.model(),
        requires_grad=["w1", "w2", "b2"],
        frozen_params=["b1"],
        loss=artifacts.LossType.CrossEntropyLoss,
        optimizer=artifacts.OptimType.AdamW,
        artifact_directory=tmp_path,
        additional_output_names=["y"],
        nominal_checkpoint=True,
    )
    return tmp_path


def opened(folder: Path, checkpoint: str = "checkpoint", **options: Any) -> tuple[CheckpointState, Module, Optimizer]:
    state = CheckpointState.load_checkpoint(folder / checkpoint)
    module = Module(folder / "training_model.onnx", state, folder / "eval_model.onnx", **options)
    return state, module, Optimizer(folder / "optimizer_model.onnx", module)


def test_a_training_goes_on_from_its_checkpoint(folder: Path) -> None:
    state, module, optimizer = opened(folder)
    for number in range(6):
        module(X, LABELS)
        optimizer.step()
        module.lazy_reset_grad()
        if number == 2:
            state.properties["epoch"] = 2
            CheckpointState.save_checkpoint(state, folder / "saved", include_optimizer_state=True)
            CheckpointState.save_checkpoint(state, folder / "bare")
    again, module, optimizer = opened(folder, "saved")
    assert (dict(again.properties), optimizer.steps) == ({"epoch": 2}, 3)
    for _ in range(3):
        module(X, LABELS)
        optimizer.step()
        module.lazy_reset_grad()
    for name, parameter in state.parameters:
        np.testing.assert_array_equal(again.parameters[name].data, parameter.data)
    assert CheckpointState.load_checkpoint(folder / "bare").optimizer is None
    assert opened(folder, "bare")[2].steps == 0


def test_what_is_read_is_written_again(tmp_path: Path) -> None:
    state = CheckpointState.load_checkpoint(FIXTURE)
    CheckpointState.save_checkpoint(state, tmp_path / "copy", include_optimizer_state=True)
    one, other = (read_checkpoint(path.read_bytes()) for path in (FIXTURE, tmp_path / "copy"))
    assert one.properties == other.properties
    assert one.groups.keys() == other.groups.keys() == {"group0"}
    group, copied = one.groups["group0"], other.groups["group0"]
    assert (group.step, group.initial_learning_rate) == (copied.step, copied.initial_learning_rate)
    pairs = [*zip(one.trainable, other.trainable, strict=True)]
    for name, moments in group.moments.items():
        assert {each.name for each in moments} == {"momentum0", "momentum1"}
        pairs += zip(moments, copied.moments[name], strict=True)
    for tensor, copy in pairs:
        assert (tensor.name, tensor.dtype) == (copy.name, copy.dtype)
        np.testing.assert_array_equal(tensor.array(), copy.array())


def test_another_reader_of_flatbuffers_reads_it(folder: Path) -> None:
    """Field by field, as the format of FlatBuffers says: the table's offset, its vtable, the offset of a field."""
    data = (folder / "checkpoint").read_bytes()
    assert data[4:8] == MAGIC == b"ODTC"

    def table(place: int) -> dict[int, int]:
        vtable = place - struct.unpack_from("<i", data, place)[0]
        size = struct.unpack_from("<H", data, vtable)[0]
        fields = struct.unpack_from(f"<{size // 2 - 2}H", data, vtable + 4)
        return {number: place + offset for number, offset in enumerate(fields) if offset}

    def follow(place: int) -> int:
        return place + int(struct.unpack_from("<I", data, place)[0])

    root = table(follow(0))
    assert struct.unpack_from("<i", data, root[0]) == (2,)
    trained = follow(table(follow(root[1]))[0])
    (count,) = struct.unpack_from("<I", data, trained)
    found = {}
    for number in range(count):
        fields = table(follow(trained + 4 + 4 * number))
        texts = [follow(fields[k]) for k in (0, 4)]
        name, raw = (data[at + 4 : at + 4 + struct.unpack_from("<I", data, at)[0]] for at in texts)
        assert not any(at % 8 for at in (texts[1] + 4,)), "elements lie at multiples of 8"
        assert data[texts[0] + 4 + len(name)] == 0
        found[name.decode()] = np.frombuffer(raw, np.float32)
    assert found.keys() == {"w1", "w2", "b2"}
    for name, array in found.items():
        np.testing.assert_array_equal(array, MLP.parameters()[name].reshape(-1))


def test_what_is_no_checkpoint_is_refused(folder: Path) -> None:
    with pytest.raises(NoSuchFile, match="nowhere does not exist"):
        CheckpointState.load_checkpoint(folder / "nowhere")
    with pytest.raises(InvalidProtobuf, match="this is no checkpoint of onnxruntime-training"):
        CheckpointState.load_checkpoint(folder / "eval_model.onnx")
    data = FIXTURE.read_bytes()
    for length in range(8, len(data) - 1, 97):
        (folder / "cut").write_bytes(data[:length])
        with pytest.raises(InvalidProtobuf):
            CheckpointState.load_checkpoint(folder / "cut")
    newer = bytearray(data)
    newer[newer.index(struct.pack("<i", 2), 24)] = 9
    with pytest.raises((NotImplemented, InvalidProtobuf)):
        read_checkpoint(bytes(newer))


def test_parameters_are_read_and_written_by_name(folder: Path) -> None:
    state, module, _ = opened(folder)
    assert repr(state.parameters["b1"]) == "Parameter(name=b1, requires_grad=False)"
    assert ("w1" in state.parameters, "w9" in state.parameters, len(state.parameters)) == (True, False, 4)
    state.parameters["b2"] = np.array([1, 2, 3], np.float32)
    state.parameters["w2"].data = np.zeros((3, 5), np.float32)
    np.testing.assert_array_equal(module.eval()(X, LABELS)[1], np.tile([1, 2, 3], (6, 1)))
    copy = state.parameters["b2"].data
    copy[:] = 9
    np.testing.assert_array_equal(state.parameters["b2"].data, [1, 2, 3])
    with pytest.raises(KeyError, match="there is no parameter 'w9'; there are b1, b2, w1, w2"):
        state.parameters["w9"]
    with pytest.raises(InvalidArgument, match=r"float32\[2\]"):
        state.parameters["b2"] = np.zeros(2, np.float32)


def test_properties_are_integers_floats_and_strings(folder: Path) -> None:
    state = CheckpointState.load_checkpoint(folder / "checkpoint")
    assert len(state.properties) == 0
    state.properties["steps"], state.properties["best"], state.properties["name"] = np.int64(5), 0.25, "run"
    CheckpointState.save_checkpoint(state, folder / "noted")
    again = CheckpointState.load_checkpoint(folder / "noted").properties
    assert dict(again) == {"best": 0.25, "name": "run", "steps": 5}
    assert ("best" in again, len(again)) == (True, 3)
    with pytest.raises(KeyError, match="there is no property 'worst'; there are"):
        again["worst"]
    for value in (None, [1]):
        with pytest.raises(InvalidArgument, match="properties are integers, floats and strings"):
            again["bad"] = value  # type: ignore[assignment]


def test_properties_are_read_as_a_checkpoint_keeps_them(folder: Path) -> None:
    """As onnxruntime-training 1.19.2 does: whole numbers of 64 bits, floats of 32; what is larger becomes one."""
    state = CheckpointState.load_checkpoint(folder / "checkpoint")
    given = {"flag": True, "tenth": 0.1, "half": np.float32(0.5), "many": 2**40, "more": 2**70, "steps": np.int64(3)}
    for name, value in given.items():
        state.properties[name] = value
    CheckpointState.save_checkpoint(state, folder / "noted")
    tenth, more = 0.10000000149011612, 1.1805916207174113e21
    expected = {"flag": 1, "half": 0.5, "many": 2**40, "more": more, "steps": 3, "tenth": tenth}
    for properties in (state.properties, CheckpointState.load_checkpoint(folder / "noted").properties):
        assert dict(properties) == expected
        assert [type(value) for _, value in properties] == [int, float, int, float, int, float]


def test_what_is_wrong_is_a_runtime_error(folder: Path) -> None:
    """onnxruntime-training raises nothing else from its native code."""
    state, module, optimizer = opened(folder)
    wrong: list[Callable[[], object]] = [
        lambda: CheckpointState.load_checkpoint(folder / "none"),
        lambda: CheckpointState.load_checkpoint(folder / "training_model.onnx"),
        lambda: Module(folder / "none.onnx", state),
        lambda: module(np.zeros((2, 4), np.float32)),
        lambda: module(np.zeros((2, 3), np.float32), np.zeros(2, np.int64)),
        lambda: module(np.zeros((2, 4)), np.zeros(2, np.int64)),
        lambda: module.copy_buffer_to_parameters(OrtValue.ortvalue_from_numpy(np.zeros(3, np.float32))),
        lambda: module.export_model_for_inferencing(folder / "y.onnx", ["other"]),
        lambda: module.export_model_for_inferencing(folder / "y.onnx", []),
        lambda: module.export_model_for_inferencing(folder / "y.onnx", "loss"),
        lambda: state.parameters.__setitem__("b2", np.zeros(2, np.float32)),
    ]
    for action in wrong:
        with pytest.raises(RuntimeError):
            action()
    assert not (folder / "y.onnx").exists()
    for rate in ("0.1", None):
        with pytest.raises(TypeError, match="a learning rate is a number, not"):
            optimizer.set_learning_rate(rate)  # type: ignore[arg-type]
    optimizer.set_learning_rate(np.float32(0.5))  # type: ignore[arg-type]
    assert repr(optimizer.get_learning_rate()) == "0.5"


def test_all_parameters_are_one_vector(folder: Path) -> None:
    state, module, _ = opened(folder)
    parameters = MLP.parameters()
    whole = np.concatenate([parameters[name].reshape(-1) for name in ("w1", "b1", "w2", "b2")])
    buffer = module.get_contiguous_parameters()
    np.testing.assert_array_equal(buffer.numpy(), whole)
    trained = module.get_contiguous_parameters(trainable_only=True)
    assert trained.shape() == [module.get_parameters_size()] == [38]
    twice = sardonyx.OrtValue.ortvalue_from_numpy(2 * trained.numpy())
    module.copy_buffer_to_parameters(twice)
    np.testing.assert_array_equal(state.parameters["w2"].data, 2 * parameters["w2"])
    np.testing.assert_array_equal(state.parameters["b1"].data, parameters["b1"])
    module.copy_buffer_to_parameters(buffer, trainable_only=False)
    np.testing.assert_array_equal(state.parameters["w2"].data, parameters["w2"])
    with pytest.raises(InvalidArgument, match=r"the buffer is float32\[38\], the parameters are float32\[43\]"):
        module.copy_buffer_to_parameters(twice, trainable_only=False)


def test_a_nominal_checkpoint_is_filled_from_a_vector(folder: Path) -> None:
    _, module, _ = opened(folder)
    expected = module(X, LABELS)[0]
    assert (folder / "nominal_checkpoint").stat().st_size < (folder / "checkpoint").stat().st_size
    state, empty, _ = opened(folder, "nominal_checkpoint")
    assert empty.get_parameters_size(trainable_only=False) == 43
    with pytest.raises(Fail, match="comes from a nominal checkpoint"):
        empty(X, LABELS)
    with pytest.raises(Fail, match="fill it with"):
        _ = state.parameters["w1"].data
    empty.copy_buffer_to_parameters(module.get_contiguous_parameters(), trainable_only=False)
    assert empty(X, LABELS)[0] == expected


@pytest.mark.parametrize("warmup", [0, 4])
def test_learning_rates_rise_and_fall_in_lines(folder: Path, warmup: int) -> None:
    """As the documents of onnxruntime say; its own 1.19 takes the two counts for each other."""
    _, module, optimizer = opened(folder)
    assert optimizer.get_learning_rate() == pytest.approx(0.001)
    scheduler = LinearLRScheduler(optimizer, warmup_step_count=warmup, total_step_count=10, initial_lr=0.5)
    rates = []
    module(X, LABELS)
    for _ in range(12):
        rates.append(optimizer.get_learning_rate())
        optimizer.step()
        scheduler.step()
    expected = [0.5 * (k / warmup if k < warmup else max(0, (10 - k) / (10 - warmup))) for k in range(12)]
    np.testing.assert_allclose(rates, expected, rtol=1e-6)


def test_the_network_is_exported_with_what_was_learnt(folder: Path) -> None:
    _, module, optimizer = opened(folder)
    for _ in range(3):
        module(X, LABELS)
        optimizer.step()
        module.lazy_reset_grad()
    module.export_model_for_inferencing(folder / "network.onnx", ["y"])
    model = onnx.load(folder / "network.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert [each.name for each in model.graph.input] == ["x"]
    session = onnxruntime.InferenceSession(folder / "network.onnx", providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": X})
    np.testing.assert_allclose(y, module.eval()(X, LABELS)[1], rtol=1e-5, atol=1e-6)


def test_running_statistics_go_into_the_exported_network(tmp_path: Path) -> None:
    artifacts.generate_artifacts(
        CNN.model(), CNN.trained(), loss=artifacts.LossType[CNN.loss], artifact_directory=tmp_path
    )
    state = CheckpointState.load_checkpoint(tmp_path / "checkpoint")
    module = Module(tmp_path / "training_model.onnx", state, tmp_path / "eval_model.onnx")
    for batch in CNN.batches():
        module(*batch)
    module.export_model_for_inferencing(tmp_path / "network.onnx", ["y"])
    held = {each.name: numpy_helper.to_array(each) for each in onnx.load(tmp_path / "network.onnx").graph.initializer}
    for name in CNN.statistics:
        np.testing.assert_array_equal(held[name], state.parameters[name].data)
        assert not np.array_equal(held[name], CNN.parameters()[name])
    session = onnxruntime.InferenceSession(tmp_path / "network.onnx", providers=["CPUExecutionProvider"])
    assert session.run(None, {"x": CNN.batches()[0][0]})[0].shape == (5, 3)


def test_a_checkpoint_goes_into_a_model(folder: Path) -> None:
    state, module, optimizer = opened(folder)
    module(X, LABELS)
    optimizer.step()
    CheckpointState.save_checkpoint(state, folder / "saved")
    model = MLP.model()
    onnxblock.load_checkpoint_to_model(folder / "saved", model)
    held = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    for name, parameter in state.parameters:
        np.testing.assert_array_equal(held[name], parameter.data)


def test_ort_values_come_back_where_they_go_in(folder: Path) -> None:
    _, module, _ = opened(folder)
    given = [sardonyx.OrtValue.ortvalue_from_numpy(array) for array in (X, LABELS)]
    loss, y = module(*given)
    assert isinstance(loss, sardonyx.OrtValue)
    assert y.shape() == [6, 3]
    assert isinstance(module(X, given[1])[0], np.ndarray)


def test_the_state_stays_on_the_gpu(folder: Path) -> None:
    require("webgpu")
    state, module, optimizer = opened(folder, device="webgpu")
    reference, other, step = opened(folder)
    for _ in range(3):
        np.testing.assert_allclose(module(X, LABELS)[0], other(X, LABELS)[0], rtol=1e-5)
        for each in (optimizer, step):
            each.step()
    for name, held in state.held.items():
        assert held.value is not None
        assert held.value.device_name() == "gpu"
        assert held.grad is None or held.grad.device_name() == "gpu"
        np.testing.assert_allclose(held.value.numpy(), reference.parameters[name].data, rtol=1e-5, atol=1e-6)
    assert all(value.device_name() == "gpu" for values in optimizer._state.moments.values() for value in values)
    CheckpointState.save_checkpoint(state, folder / "from the gpu", include_optimizer_state=True)
    assert opened(folder, "from the gpu")[2].steps == 3


def test_folders_that_are_missing(folder: Path, tmp_path: Path) -> None:
    state = CheckpointState.load_checkpoint(folder / "checkpoint")
    with pytest.raises(NoSuchFile, match=r"nowhere/a cannot be written: the folder .*nowhere does not exist"):
        CheckpointState.save_checkpoint(state, tmp_path / "nowhere" / "a")
    for path, message in ((tmp_path / "nowhere" / "a", "nowhere/a does not exist"), (tmp_path, "is a folder")):
        with pytest.raises(NoSuchFile, match=message):
            CheckpointState.load_checkpoint(path)


def test_what_is_missing_is_said(folder: Path) -> None:
    state = CheckpointState.load_checkpoint(folder / "checkpoint")
    module = Module(folder / "training_model.onnx", state)
    with pytest.raises(Fail, match="no gradient yet: call the module in training mode"):
        Optimizer(folder / "optimizer_model.onnx", module).step()
    with pytest.raises(InvalidArgument, match="1 inputs are given, the model takes 2: x, labels"):
        module(X)
    module.eval()
    for call in (
        lambda: module(X, LABELS),
        module.output_names,
        lambda: module.export_model_for_inferencing("m", ["y"]),
    ):
        with pytest.raises(Fail, match="no evaluation model"):
            call()
    with pytest.raises(InvalidArgument, match="no output 'w1_grad': generate the artifacts anew"):
        Module(folder / "eval_model.onnx", state)
    with pytest.raises(TypeError, match="a CheckpointState comes from"):
        CheckpointState("checkpoint")  # type: ignore[arg-type]
    with pytest.raises(Fail, match=r"with onnxblock\.base\(model\)"):
        onnxblock.loss.MSELoss()("y")


PROGRAM = """
import sys
import numpy as np
import sardonyx

assert not [name for name in sys.modules if name.startswith("sardonyx.training")]
import sardonyx.compat

sardonyx.compat.install()
import onnxruntime
from onnxruntime.training import artifacts
from onnxruntime.training.api import CheckpointState, LinearLRScheduler, Module, Optimizer
import onnxruntime.training.onnxblock as onnxblock
from onnxruntime.training.onnxblock.loss import MSELoss

artifacts.generate_artifacts(
    sys.argv[1], requires_grad=["w1"], loss=artifacts.LossType.CrossEntropyLoss,
    optimizer=artifacts.OptimType.AdamW, artifact_directory=sys.argv[2],
)
state = CheckpointState.load_checkpoint(sys.argv[2] + "/checkpoint")
module = Module(sys.argv[2] + "/training_model.onnx", state, sys.argv[2] + "/eval_model.onnx")
optimizer = Optimizer(sys.argv[2] + "/optimizer_model.onnx", module)
before = module(np.ones((2, 4), np.float32), np.array([0, 1]))
optimizer.step()
print(artifacts.__name__, module.eval()(np.ones((2, 4), np.float32), np.array([0, 1])) < before, "onnx" in sys.modules)
"""


def test_programs_of_onnxruntime_find_it(tmp_path: Path) -> None:
    onnx.save(MLP.model(), tmp_path / "mlp.onnx")
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "mlp.onnx"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert done.stdout == "sardonyx.training.artifacts True False\n", done.stderr
