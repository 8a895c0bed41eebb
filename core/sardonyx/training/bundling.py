"""A bundle that a page trains: the network, its loss with gradients, and the optimizer, on the same parameters.

main          the network, for whoever runs it
encoder       what is not trained of it, if that is more than nothing: from inputs to features
training      loss, outputs, and sums of gradients, from features or inputs, and labels or targets
evaluation    loss and outputs
optimizer     parameters and moments from sums of gradients
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from sardonyx.api.bundling import bundle_of
from sardonyx.api.trained import Part, Training
from sardonyx.common import dtypes
from sardonyx.common.record import replace
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Graph, Model, Node, Tensor, TensorType, Value
from sardonyx.passes.copy import copy_model
from sardonyx.plans.plan_cache import Source
from sardonyx.quantization.inferred import inferred_types
from sardonyx.training import onnxblock
from sardonyx.training.draft import Draft
from sardonyx.training.gradient_model import GRADIENT, NEXT
from sardonyx.training.onnxblock.model_accessor import base, empty_base
from sardonyx.training.parameters import HEADS, head_of, parameters_of
from sardonyx.training.reach import dependent, makers, read_by
from sardonyx.training.wholes import length, wholes_of

LOSSES = {
    "cross-entropy": onnxblock.loss.CrossEntropyLoss,
    "mse": onnxblock.loss.MSELoss,
    "bce": onnxblock.loss.BCEWithLogitsLoss,
    "l1": onnxblock.loss.L1Loss,
}
OPTIMIZERS = {"adamw": onnxblock.optim.AdamW, "sgd": onnxblock.optim.SGD}
RESET = "lazy_reset_grad"
"""The input of the training plan that says whether sums of gradients begin anew."""
EARLIER = "_sum"
"""What the names of sums of gradients end with."""
LOGITS = {"cross-entropy": ("Softmax",), "bce": ("Sigmoid",)}
"""What a loss has in itself already, if a model ends with it."""


def training_bundle(
    source: Source,
    targets: Sequence[str],
    train: str = "all",
    loss: str = "cross-entropy",
    optimizer: str = "adamw",
    *,
    classes: int | None = None,
    sizes: Mapping[str, int | str] | None = None,
    compress: bool = False,
) -> Iterator[bytes | memoryview]:
    """The parts of a bundle by which a page trains a model.

    `train` is `all`, `head`, the last layer with weights, or names of initializers with commas between. `classes` gives
    the head a new layer for so many classes, whose weights are drawn by chance, always the same. `sizes` as for
    `bundle_of`. Raises InvalidArgument where there is nothing to train, or the loss does not fit.

    >>> from sardonyx.demo import assets
    >>> from sardonyx.plans.bundle import Bundle
    >>> parts = training_bundle(Source(str(assets() / "digits.onnx")), ["wasm"], "head", classes=3)
    >>> list(Bundle(b"".join(parts)).manifest["training"]["parameters"])
    ['gemm_34.weight', 'gemm_34.bias']
    """
    model = copy_model(source.read())
    if not model.graph.outputs:
        raise InvalidArgument("a model without outputs cannot be trained")
    if classes is not None:
        renew_head(model, classes)
    return bundle_of(source, targets, sizes=sizes, compress=compress, training=_training(model, train, loss, optimizer))


def _training(model: Model, train: str, loss: str, optimizer: str) -> Training:
    names = _names(model.graph, train)
    trained = [value for value in model.graph.initializers if value.name in names]
    encoder, head, features = _cut(model, set(trained))
    network = _Network(LOSSES[loss](), [value.name for value in head.graph.outputs], set(names))
    with base(head) as accessor:
        network(_logits(head.graph.outputs[0], loss))
        opset = accessor.draft.opset()
    models = network.models()
    parameters = {tensor.name: tensor.array() for tensor in (*models.trainable, *models.frozen)}
    sums = {f"{tensor.name}{EARLIER}": tensor.shape for tensor in models.trainable}
    wholes = wholes_of(models.trainable, parameters)
    optimizing, moments = _optimizing(wholes, opset, OPTIMIZERS[optimizer]())
    parts = {
        "training": _summing(models.training, sums),
        "evaluation": Part(models.evaluation),
        "optimizer": optimizing,
    }
    if encoder is not None:
        parts["encoder"] = Part(encoder)
    told = {
        "loss": loss,
        "optimizer": optimizer,
        "trainable": [tensor.name for tensor in models.trainable],
        "features": features,
    }
    together = {
        f"{name}{suffix}": [f"{tensor.name}{suffix}" for tensor in group]
        for name, group in wholes.items()
        for suffix in ("", EARLIER)
    }
    fed = _fed(model, list(parameters))
    return Training(fed, parameters, {**sums, **moments}, together, parts, told, model)


class _Network(onnxblock.TrainingBlock):
    """A network whose loss is of some tensor, with the network's own outputs behind it."""

    def __init__(self, loss: onnxblock.Block, outputs: Sequence[str], trained: set[str]) -> None:
        super().__init__()
        self._loss, self._outputs = loss, outputs
        for name in trained:
            self.requires_grad(name)

    def build(self, scores: str) -> list[str]:
        return [self._loss(scores), *self._outputs]


def _names(graph: Graph, train: str) -> list[str]:
    """The names of the initializers to train. Raises InvalidArgument where there are none, or not those."""
    if train in ("all", "head"):
        values = parameters_of(graph, graph.nodes if train == "all" else _head(graph))
        if not values:
            raise InvalidArgument(
                f"--train {train}: no layer of the model has weights of floats among its initializers"
            )
        return [value.name for value in values]
    names = [name.strip() for name in train.split(",")]
    there = [value.name for value in parameters_of(graph, graph.nodes)]
    if unknown := [name for name in names if name not in there]:
        raise InvalidArgument(
            f"--train {unknown[0]}: say head, all, or names of parameters; there are {', '.join(there[:12])}"
        )
    return names


def _head(graph: Graph) -> list[Node]:
    head = head_of(graph.nodes)
    if not head:
        raise InvalidArgument(f"--train head: the model has no {', '.join(HEADS[:-1])} or {HEADS[-1]} with weights")
    return head


def _logits(output: Value, loss: str) -> str:
    """The name of what the loss is taken of: what a Softmax at the end is given, as it is part of the loss."""
    maker = output.producer
    if maker is not None and maker.op_type in LOGITS.get(loss, ()) and maker.inputs[0] is not None:
        return maker.inputs[0].name
    return output.name


def _cut(model: Model, trained: set[Value]) -> tuple[Model | None, Model, list[str]]:
    """What makes features of inputs, if it is more than nothing, and what makes outputs of them; their names."""
    graph = model.graph
    nodes = dependent(graph.nodes, {node for node in graph.nodes if set(node.inputs) & trained})
    later = set(nodes)
    fed = [value for value in graph.inputs if value not in graph.initializers]
    steady = _varying(graph, fed, later)
    read = [value for node in nodes for value in node.inputs] + list(graph.outputs)
    features = list(dict.fromkeys(value for value in read if value in steady))
    if all(value in fed for value in features):
        return None, copy_model(model), []
    types = inferred_types(model)
    for value in features:
        value.type = types.get(value, value.type)
        if not isinstance(value.type, TensorType) or value.type.shape is None:
            raise InvalidArgument(f"nothing is known of the shape of {value.name!r}, which training begins with")
    before = [node for node in graph.nodes if node not in later]
    early = replace(graph, inputs=fed, nodes=before, outputs=features)
    late = replace(graph, inputs=features, nodes=nodes)
    models = [_pruned(replace(model, graph=part)) for part in (early, late)]
    if all(_is_alone(value) for value in (*fed, *features)):
        _open_batch(models[1].graph)
    return models[0], models[1], [value.name for value in features]


def _is_alone(value: Value) -> bool:
    """Whether a tensor is for one example, and no more."""
    return bool(value.shape) and value.shape is not None and value.shape[0] == 1


def _open_batch(graph: Graph) -> None:
    """Have a head take any number of examples, though the model takes one: features are made one by one."""
    for value in graph.inputs:
        if isinstance(value.type, TensorType) and value.type.shape is not None:
            value.type = replace(value.type, shape=("N", *value.type.shape[1:]))
    for node in graph.nodes:
        for value in node.outputs:
            value.type = None


def _varying(graph: Graph, fed: Sequence[Value], later: set[Node]) -> set[Value]:
    """What depends on inputs, and on no node of `later`."""
    found = set(fed)
    for node in graph.nodes:
        if node not in later and found & set(node.inputs):
            found.update(node.outputs)
    return found


def _pruned(model: Model) -> Model:
    """A copy without nodes and initializers that no output needs, and whose features nobody makes."""
    graph = model.graph
    nodes = makers(graph.nodes, graph.outputs)
    needed = {*graph.outputs, *(value for node in nodes for value in read_by(node))}
    kept = [value for value in graph.initializers if value in needed]
    result = copy_model(replace(model, graph=replace(graph, nodes=nodes, initializers=kept)))
    for value in result.graph.inputs:
        value.producer = None
    return result


def _summing(model: Model, sums: Mapping[str, tuple[int, ...]]) -> Part:
    """The model that trains, which adds gradients to earlier ones, unless it is told to begin anew."""
    draft = Draft(model)
    graph = model.graph
    held = [value for value in graph.inputs if f"{value.name}{EARLIER}" in sums]
    fed = [value for value in graph.inputs if value not in held]
    reset = draft.input(RESET, TensorType(dtypes.bool_, ()))
    earlier = [draft.input(name, TensorType(dtypes.float32, shape)) for name, shape in sums.items()]
    updates = {}
    outputs = {value.name: value for value in graph.outputs}
    for name in sums:
        own = f"{name.removesuffix(EARLIER)}{GRADIENT}"
        total = draft.add("Where", [reset, own, draft.add("Add", [own, name])], f"{name}{NEXT}")
        draft.value(total).type = draft.value(own).type
        outputs[own] = draft.value(total)
        updates[total] = name
    graph.outputs = list(outputs.values())
    graph.inputs = [*fed, draft.value(reset), *held, *(draft.value(name) for name in earlier)]
    return Part(model, {**updates, **_next(model)})


def _optimizing(
    wholes: Mapping[str, Sequence[Tensor]], opset: int, step: onnxblock.optim.AdamW | onnxblock.optim.SGD
) -> tuple[Part, dict[str, tuple[int, ...]]]:
    """The optimizer of wholes, so that a step of all parameters takes as few launches as one of each; its moments."""
    shapes: dict[str, tuple[int, ...]] = {name: (length(group),) for name, group in wholes.items()}
    with empty_base(opset):
        zero = np.zeros(1, np.float32)
        held = [Tensor.of(np.broadcast_to(zero, shape), dtypes.float32, name) for name, shape in shapes.items()]
        step((held, []))
    model = step.to_model()
    for value in model.graph.inputs:
        if value.name.removesuffix(GRADIENT) in shapes and value.name not in shapes:
            value.name = f"{value.name.removesuffix(GRADIENT)}{EARLIER}"
    moments = {f"{name}_{moment}": shape for name, shape in shapes.items() for moment in step.moments}
    return Part(model, _next(model)), moments


def _next(model: Model) -> dict[str, str]:
    """The outputs that are what an input is next."""
    names = {value.name for value in model.graph.inputs}
    ends = [value.name for value in model.graph.outputs if value.name.endswith(NEXT)]
    return {name: name.removesuffix(NEXT) for name in ends if name.removesuffix(NEXT) in names}


def _fed(model: Model, parameters: Sequence[str]) -> Model:
    """The network with parameters as its last inputs."""
    result = copy_model(model)
    graph = result.graph
    held = {value.name: value for value in graph.initializers if value.name in parameters}
    for value in held.values():
        if value.constant is not None:
            value.type = TensorType(value.constant.dtype, value.constant.shape)
        value.constant = None
    graph.initializers = [value for value in graph.initializers if value.name not in held]
    inputs = [value for value in graph.inputs if value.name not in held]
    graph.inputs = [*inputs, *(held[name] for name in parameters)]
    return result


def renew_head(model: Model, classes: int) -> None:
    """Give a network a last layer for so many classes, with new weights; the model is changed, and its metadata go.

    Weights are drawn evenly up to 1 / sqrt(number of features), as PyTorch does, by a fixed seed; biases are 0.
    """
    graph = model.graph
    head = _head(graph)
    layer = head[0]
    old = 0
    model.metadata = {}
    random = np.random.default_rng(0)
    for value in parameters_of(graph, head):
        tensor = value.constant
        assert tensor is not None
        is_weight = value in layer.inputs[:2] and len(tensor.shape) > 1
        if is_weight:
            axis = _classes_axis(layer)
            old = tensor.shape[axis]
            shape = tuple(classes if k == axis else size for k, size in enumerate(tensor.shape))
            bound = (old / tensor.size) ** 0.5
            array = random.uniform(-bound, bound, shape).astype(np.float32)
        else:
            array = np.zeros((*tensor.shape[:-1], classes), np.float32)
        value.constant = Tensor.of(array, dtypes.float32, value.name)
        value.type = TensorType(dtypes.float32, array.shape)
    if not old:
        raise InvalidArgument(
            f"--classes: the last layer, {layer.op_type} {layer.name!r}, has no matrix of weights in an initializer"
        )
    for node in head:
        for value in node.outputs:
            kind = value.type
            if isinstance(kind, TensorType) and kind.shape is not None:
                value.type = replace(kind, shape=tuple(classes if size == old else size for size in kind.shape))


def _classes_axis(layer: Node) -> int:
    """The axis of a layer's weights along which its outputs are."""
    if layer.op_type == "Gemm":
        return 0 if layer.attribute("transB", 0) else 1
    return 0 if layer.op_type == "Conv" else 1
