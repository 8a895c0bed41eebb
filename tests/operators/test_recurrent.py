"""RNN, GRU and LSTM with all that they can be given, against onnxruntime."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import sardonyx
from sardonyx import numpy_backend
from sardonyx.plans.plan import Loop
from sardonyx.primitives.recurrent_loop import UNROLLED
from tests.engine.providers import PROVIDERS, WEBGPU, require_provider
from tests.support import eager
from tests.support.saturation import exact

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
NAMES = ["X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P", "WS", "WZ", "RS", "RZ"]
ACTIVATIONS = [
    "Relu",
    "Tanh",
    "Sigmoid",
    "Affine",
    "LeakyRelu",
    "ThresholdedRelu",
    "ScaledTanh",
    "HardSigmoid",
    "Elu",
    "Softsign",
    "Softplus",
]
ALPHAS = {"Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu"}
BETAS = {"Affine", "ScaledTanh", "HardSigmoid"}
BOUNDED = ["Tanh", "Sigmoid", "HardSigmoid", "Softsign"]
FUNCTIONS = {"RNN": [ACTIVATIONS], "GRU": [BOUNDED, ACTIVATIONS], "LSTM": [BOUNDED, ACTIVATIONS, ACTIVATIONS]}
"""What f, g and h may be; gates that are not bounded would make states grow."""

Feeds = dict[str, np.ndarray]


def model(op_type: str, feeds: Feeds, attributes: dict[str, Any], opset: int = 14) -> onnx.ModelProto:
    """A model of one layer. X, the lengths and the states are inputs of any size, weights are constants."""
    domain = "com.microsoft" if op_type == "DynamicQuantizeLSTM" else ""
    fed = ("X", "sequence_lens", "initial_h", "initial_c")
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), [None] * array.ndim)
        for name, array in feeds.items()
        if name in fed
    ]
    weights = [onnx.numpy_helper.from_array(array, name) for name, array in feeds.items() if name not in fed]
    outputs = ["Y", "Y_h", "Y_c"][: 3 if "LSTM" in op_type else 2]
    names = [name if name in feeds else "" for name in NAMES]
    while not names[-1]:
        names.pop()
    node = helper.make_node(op_type, names, outputs, domain=domain, **attributes)
    graph = helper.make_graph([node], "layer", inputs, [onnx.ValueInfoProto(name=name) for name in outputs], weights)
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(domain, 1)] * bool(domain)
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def fed(layer: onnx.ModelProto, feeds: Feeds) -> Feeds:
    return {value.name: feeds[value.name] for value in layer.graph.input}


def expected(layer: onnx.ModelProto, feeds: Feeds) -> list[np.ndarray]:
    """What onnxruntime gives, in one thread: with more it rounds parts of a batch by themselves."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(layer.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, fed(layer, feeds)))


def assert_close(found: list[np.ndarray], wanted: list[np.ndarray], tolerance: float = 2e-5, case: Any = "") -> None:
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype, case
        np.testing.assert_allclose(one, other, tolerance, tolerance, err_msg=str(case), strict=True)


def noise(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype(np.float32)


def layer_of(
    op_type: str, seed: int, steps: int, batch: int, direction: str = "forward", optional: float = 1.0
) -> tuple[Feeds, dict[str, Any]]:
    """Inputs and attributes of a layer; optional inputs are there with this probability."""
    rng, pick = np.random.default_rng(seed), random.Random(seed)
    count, gates, size, hidden = 1 + (direction == "bidirectional"), GATES[op_type], 3, 5
    feeds = {
        "X": noise(rng, steps, batch, size),
        "W": noise(rng, count, gates * hidden, size),
        "R": noise(rng, count, gates * hidden, hidden),
        "B": noise(rng, count, 2 * gates * hidden),
        "sequence_lens": rng.integers(0, steps + 1, batch).astype(np.int32),
        "initial_h": noise(rng, count, batch, hidden),
    }
    feeds["sequence_lens"][pick.randrange(batch)] = steps
    if op_type == "LSTM":
        feeds |= {"initial_c": noise(rng, count, batch, hidden), "P": noise(rng, count, 3 * hidden)}
    kept = {name: array for name, array in feeds.items() if name in "XWR" or pick.random() < optional}
    return kept, {"hidden_size": hidden, "direction": direction}


def cases(op_type: str) -> list[tuple[Feeds, dict[str, Any]]]:
    """Layers with a random choice of all that there is."""
    made = []
    for seed in range(40):
        pick = random.Random(seed)
        direction = pick.choice(["forward", "reverse", "bidirectional"])
        steps = pick.choice([1, 2, UNROLLED, UNROLLED + 1, 2 * UNROLLED, 11])
        feeds, attributes = layer_of(op_type, seed, steps, pick.choice([1, 3]), direction, 0.6)
        if pick.random() < 0.5:
            names = [pick.choice(choices) for choices in FUNCTIONS[op_type] * feeds["W"].shape[0]]
            attributes["activations"] = names
            attributes["activation_alpha"] = [pick.uniform(0.1, 0.9) for name in names if name in ALPHAS]
            attributes["activation_beta"] = [pick.uniform(0.1, 0.9) for name in names if name in BETAS]
            feeds["R"] *= 0.2  # States that grow with every step would hide the rest.
        if pick.random() < 0.3:
            attributes["clip"] = 0.5
        if op_type == "GRU":
            attributes["linear_before_reset"] = pick.choice([0, 1])
        if op_type == "LSTM" and pick.random() < 0.3:
            attributes["input_forget"] = 1
        made.append((feeds, {name: value for name, value in attributes.items() if value != []}))
    return made


@pytest.mark.parametrize("op_type", GATES)
def test_everything(op_type: str) -> None:
    for feeds, attributes in cases(op_type):
        layer = model(op_type, feeds, attributes)
        assert_close(eager.evaluate(layer, fed(layer, feeds)), expected(layer, feeds), case=attributes)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("op_type", GATES)
def test_providers(op_type: str, provider: str) -> None:
    """What a provider has no routine for is spelled with loops there, or goes to another one."""
    require_provider(provider)
    chosen = [case for case in cases(op_type) if len(case[0]["X"]) > UNROLLED][:5]
    assert any("activations" in attributes for _, attributes in chosen)
    for feeds, attributes in chosen:
        layer = model(op_type, feeds, attributes)
        session = sardonyx.InferenceSession(layer.SerializeToString(), providers=[provider])
        assert_close(list(session.run(None, fed(layer, feeds))), expected(layer, feeds), 1e-4, attributes)


@pytest.mark.parametrize("op_type", GATES)
def test_without_a_routine(op_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer is a loop where its provider has no routine for it, whatever the sizes."""
    monkeypatch.setattr(numpy_backend.provider, "routines", numpy_backend.provider.routines - {"recurrent"})
    feeds, attributes = layer_of(op_type, 0, 9, 2, "bidirectional")
    layer = model(op_type, feeds, attributes)
    session = sardonyx.InferenceSession(layer.SerializeToString(), providers=["NumpyExecutionProvider"])
    for steps, batch in ((9, 2), (4, 3), (13, 2)):
        feeds |= {name: layer_of(op_type, 1, steps, batch, "bidirectional")[0][name] for name in fed(layer, feeds)}
        assert_close(list(session.run(None, fed(layer, feeds))), expected(layer, feeds))
        assert any(isinstance(step, Loop) for plan in session.plans for step in plan.steps)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_inside_of_a_loop(provider: str) -> None:
    """A layer takes the states of the turn before."""
    require_provider(provider)
    feeds, attributes = layer_of("LSTM", 2, 6, 2, optional=0.0)
    inside = model("LSTM", feeds, attributes).graph
    feeds |= {name: noise(np.random.default_rng(1), 1, 2, 5) for name in ("initial_h", "initial_c")}
    node = helper.make_node("LSTM", ["X", "W", "R", "", "", "h", "c"], ["Y", "new_h", "new_c"], **attributes)
    scalar = onnx.TensorProto.BOOL, []
    state = onnx.TensorProto.FLOAT, [1, 2, 5]
    body = helper.make_graph(
        [node, helper.make_node("Identity", ["on"], ["still"])],
        "turn",
        [
            helper.make_tensor_value_info("t", onnx.TensorProto.INT64, []),
            helper.make_tensor_value_info("on", *scalar),
            *(helper.make_tensor_value_info(name, *state) for name in "hc"),
        ],
        [
            helper.make_tensor_value_info("still", *scalar),
            *(helper.make_tensor_value_info(name, *state) for name in ("new_h", "new_c")),
            helper.make_tensor_value_info("Y", onnx.TensorProto.FLOAT, [None, 1, 2, 5]),
        ],
    )
    outputs = ["last_h", "last_c", "rows"]
    loop = helper.make_node("Loop", ["trips", "", "initial_h", "initial_c"], outputs, body=body)
    inputs = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None] * 3)
        for name in ("X", "initial_h", "initial_c")
    ]
    weights = [*inside.initializer, onnx.numpy_helper.from_array(np.array(3), "trips")]
    made = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph([loop], "loop", inputs, made, weights)
    layer = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    session = sardonyx.InferenceSession(layer.SerializeToString(), providers=[provider])
    for steps in (6, 9):
        feeds["X"] = noise(np.random.default_rng(steps), steps, 2, 3)
        assert_close(list(session.run(None, fed(layer, feeds))), expected(layer, feeds), 1e-4)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("op_type", GATES)
def test_sequences_of_any_length(op_type: str, provider: str) -> None:
    """One plan serves all lengths, short ones as well as long ones."""
    require_provider(provider)
    attributes = {"linear_before_reset": 1} if op_type == "GRU" else {}
    feeds, known = layer_of(op_type, 0, 9, 2, "bidirectional")
    layer = model(op_type, feeds, attributes | known)
    session = sardonyx.InferenceSession(layer.SerializeToString(), providers=[provider])
    for steps, batch in ((9, 2), (2, 2), (4, 3), (13, 2)):
        other, _ = layer_of(op_type, 1, steps, batch, "bidirectional")
        feeds |= {name: other[name] for name in fed(layer, other)}
        assert_close(list(session.run(None, fed(layer, feeds))), expected(layer, feeds), 1e-4)
    assert session.compiled == 1


@pytest.mark.parametrize("op_type", GATES)
def test_a_state_is_not_stretched(op_type: str) -> None:
    """A state for one direction, or for one sequence, is no state for two."""
    feeds, known = layer_of(op_type, 0, 3, 2, "bidirectional")
    for state in (feeds["initial_h"][:1], feeds["initial_h"][:, :1], feeds["initial_h"][0]):
        wrong = feeds | {"initial_h": state}
        layer = model(op_type, wrong, known)
        session = sardonyx.InferenceSession(layer.SerializeToString(), providers=["NumpyExecutionProvider"])
        with pytest.raises(
            sardonyx.errors.SardonyxError, match=r"an initial state has the shape .*\[2,2,5\] is wanted"
        ):
            session.run(None, fed(layer, wrong))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_steps(provider: str) -> None:
    require_provider(provider)
    feeds, attributes = layer_of("LSTM", 0, 7, 2)
    del feeds["sequence_lens"]
    layer = model("LSTM", feeds, attributes)
    session = sardonyx.InferenceSession(layer.SerializeToString(), providers=[provider])
    session.run(None, fed(layer, feeds))
    feeds["X"] = feeds["X"][:0]
    y, h, c = session.run(None, fed(layer, feeds))
    assert y.shape == (0, 1, 2, 5)
    np.testing.assert_array_equal(h, feeds["initial_h"])
    np.testing.assert_array_equal(c, feeds["initial_c"])


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("op_type", [*GATES, "DynamicQuantizeLSTM"])
def test_an_empty_batch(op_type: str, provider: str) -> None:
    require_provider(provider)
    whole = op_type == "DynamicQuantizeLSTM"
    feeds, known = layer_of("LSTM" if whole else op_type, 0, 7, 2, "bidirectional")
    feeds = quantized(0, 7, 2, "bidirectional", False, np.int8) if whole else feeds
    for dropped in (["sequence_lens"], ["sequence_lens", "initial_h", "initial_c"], []):
        some = {name: array for name, array in feeds.items() if name not in dropped}
        layer = model(op_type, some, known)
        session = sardonyx.InferenceSession(layer.SerializeToString(), providers=[provider])
        assert_close(list(session.run(None, fed(layer, some))), expected(layer, some), 1e-4)
        empty = {name: array[:0] if array.ndim == 1 else array[:, :0] for name, array in fed(layer, some).items()}
        y, *states = session.run(None, empty)
        assert y.shape == (7, 2, 0, 5)
        assert {state.shape for state in states} == {(2, 0, 5)}


@pytest.mark.parametrize("op_type", GATES)
def test_batch_first(op_type: str) -> None:
    """onnxruntime has no layout 1: it is layout 0 with transposed inputs and outputs."""
    feeds, attributes = layer_of(op_type, 3, 6, 2, "bidirectional")
    y, *states = expected(model(op_type, feeds, attributes), feeds)
    turned = {
        name: array.swapaxes(0, 1).copy() if name in ("X", "initial_h", "initial_c") else array
        for name, array in feeds.items()
    }
    layer = model(op_type, turned, attributes | {"layout": 1})
    found = eager.evaluate(layer, fed(layer, turned))
    assert_close(found, [y.transpose(2, 0, 1, 3), *(state.swapaxes(0, 1) for state in states)])


@pytest.mark.parametrize("op_type", GATES)
def test_types(op_type: str) -> None:
    feeds, attributes = layer_of(op_type, 4, 6, 2)
    if op_type == "GRU":
        attributes["linear_before_reset"] = 1
    del feeds["sequence_lens"]
    for dtype, tolerance in ((np.float64, 1e-12), (np.float16, 5e-3)):
        typed = {name: array.astype(dtype) for name, array in feeds.items()}
        wide = {name: array.astype(np.float64) for name, array in typed.items()}
        layer, reference = model(op_type, typed, attributes), model(op_type, wide, attributes)
        wanted = ReferenceEvaluator(reference).run(None, fed(reference, wide))
        found = eager.evaluate(layer, fed(layer, typed))
        assert_close(found, [np.asarray(array, dtype) for array in wanted], tolerance)


@pytest.mark.parametrize("op_type", GATES)
def test_first_form(op_type: str) -> None:
    """Operator set 1 has an attribute that says whether Y is wanted; its outputs say so too."""
    feeds, attributes = layer_of(op_type, 5, 6, 2, "reverse")
    layer = model(op_type, feeds, attributes | {"output_sequence": 1}, opset=1)
    assert_close(eager.evaluate(layer, fed(layer, feeds)), expected(model(op_type, feeds, attributes), feeds))


@pytest.mark.parametrize("steps", [2, 9])
def test_last_state_alone(steps: int) -> None:
    feeds, attributes = layer_of("LSTM", 6, steps, 2, "bidirectional")
    layer = model("LSTM", feeds, attributes)
    layer.graph.node[0].output[0] = ""
    del layer.graph.output[0]
    session = sardonyx.InferenceSession(layer.SerializeToString(), providers=["NumpyExecutionProvider"])
    assert_close(list(session.run(None, fed(layer, feeds))), expected(layer, feeds))


def quantized(seed: int, steps: int, batch: int, direction: str, per_column: bool, dtype: type) -> Feeds:
    """Inputs of DynamicQuantizeLSTM."""
    feeds, _ = layer_of("LSTM", seed, steps, batch, direction)
    rng, low = np.random.default_rng(seed), int(np.iinfo(dtype).min)
    for name, scale, zero in (("W", "WS", "WZ"), ("R", "RS", "RZ")):
        count, wide, size = feeds[name].shape
        parameters = (count, wide) if per_column else (count,)
        feeds[name] = exact(rng.integers(low, low + 256, (count, size, wide)).astype(dtype))
        feeds[scale] = rng.uniform(0.005, 0.01, parameters).astype(np.float32)
        feeds[zero] = np.full(parameters, 0 if dtype is np.int8 or per_column else 120, dtype)
    return feeds


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("batch", [1, 2, 3, 4, 5])
def test_weights_of_8_bits_for_a_known_batch(batch: int, per_column: bool, provider: str) -> None:
    require_provider(provider)
    direction = ["bidirectional", "forward", "reverse"][batch % 3]
    feeds = quantized(batch, 9, batch, direction, per_column, np.int8)
    for dropped in ("sequence_lens P", "initial_h initial_c", "sequence_lens initial_h initial_c P"):
        some = {name: array for name, array in feeds.items() if name not in dropped.split()}
        layer = model("DynamicQuantizeLSTM", some, {"hidden_size": 5, "direction": direction})
        layer.graph.input[0].type.tensor_type.shape.dim[1].dim_value = batch
        session = sardonyx.InferenceSession(layer.SerializeToString(), providers=[provider])
        assert_close(list(session.run(None, fed(layer, some))), expected(layer, some), 1e-4)
        loops = any(isinstance(step, Loop) for step in session.plans[0].steps)
        assert loops == (provider == WEBGPU and batch == 5)


@pytest.mark.parametrize("provider", [pytest.param("eager", id="eager"), *PROVIDERS])
@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_weights_of_8_bits(dtype: type, per_column: bool, provider: str) -> None:
    cases = [("forward", 1, 1, [1]), ("bidirectional", 6, 2, [4, 4]), ("reverse", 5, 3, [3, 3, 3])]
    cases += [("forward", 9, 3, [4, 9, 0]), ("bidirectional", 9, 4, [2, 8, 7, 3]), ("reverse", 9, 3, [5, 1, 9])]
    for number, (direction, steps, batch, lengths) in enumerate(cases):
        feeds = quantized(number, steps, batch, direction, per_column, dtype)
        feeds["sequence_lens"][:] = lengths
        layer = model("DynamicQuantizeLSTM", feeds, {"hidden_size": 5, "direction": direction})
        if provider == "eager":
            found = eager.evaluate(layer, fed(layer, feeds))
        else:
            require_provider(provider)
            session = sardonyx.InferenceSession(layer.SerializeToString(), providers=[provider])
            found = list(session.run(None, fed(layer, feeds)))
        assert_close(found, expected(layer, feeds), 1e-4)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"direction": "backward"}, "direction 'backward' is unknown; use forward, reverse, bidirectional"),
        (
            {"direction": "bidirectional"},
            r"W has the shape \[1,20,3\]; 5 units, direction 'bidirectional' and 3 inputs",
        ),
        ({"activations": ["Sigmoid", "Tanh"]}, "there are 2 activations; 3 are needed"),
        ({"activations": ["Sigmoid", "Tanh", "Cosine"]}, "activation 'Cosine' is unknown; use Affine"),
    ],
)
def test_complaints(change: dict[str, Any], complaint: str) -> None:
    feeds, attributes = layer_of("LSTM", 0, 2, 1)
    layer = model("LSTM", feeds, attributes | change)
    with pytest.raises(sardonyx.errors.RuntimeException, match=complaint):
        eager.evaluate(layer, fed(layer, feeds))
