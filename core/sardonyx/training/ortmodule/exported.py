"""A module as an ONNX model whose parameters are inputs: torch.export's graph, in ONNX's operators."""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import wraps
from typing import Any

import torch
from torch.utils._pytree import TreeSpec, tree_flatten, tree_map, tree_unflatten

from sardonyx.common.record import record
from sardonyx.errors import Fail, NotImplemented
from sardonyx.model.ir import Model, TensorType
from sardonyx.model.ir.build import attribute
from sardonyx.model.serde.reader import read

_COUNTS = "num_batches_tracked"


@record
class Exported:
    """A model, and how the arguments and results of a module map to its inputs and outputs."""

    model: Model
    data: list[str]
    """Inputs that are arguments, in the order of the tensors among them."""
    held: list[str]
    """Inputs that are parameters and buffers, under the module's names."""
    results: list[Any]
    """For each leaf of the result the name of an output, or in a tuple of one what it always is."""
    structure: TreeSpec
    counted: list[str]
    """Buffers that count the batches, which grow by one with each call."""
    padding: dict[str, int]
    """Results of embeddings, with the row whose weights must not learn from them."""

    def fits(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether arguments have sizes that the model was made for: an open one is not 0 or 1."""
        values = {value.name: value for value in self.model.graph.inputs}
        return all(_fits(values[name].type, tensor) for name, tensor in zip(self.data, tensors, strict=True))

    def rebuilt(self, outputs: dict[str, Any]) -> Any:
        """The module's result of the outputs by name."""
        leaves = [outputs[each] if isinstance(each, str) else each[0] for each in self.results]
        return tree_unflatten(leaves, self.structure)


def _fits(kind: Any, tensor: torch.Tensor) -> bool:
    if not isinstance(kind, TensorType) or kind.shape is None:
        return True
    sizes = zip(kind.shape, tensor.shape, strict=True)
    return all(size == (known if isinstance(known, int) else max(size, 2)) for known, size in sizes)


def export(module: torch.nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Exported:
    """What a module computes of these arguments, in the mode that it is in, for other sizes as well as it allows.

    NotImplemented names a buffer that the module changes, unless it is a running statistic of a normalization; Fail
    says what PyTorch's exporter says.
    """
    arguments, keywords = tree_map(_detached, (arguments, keywords))
    given = inspect.signature(module.forward).bind(*arguments, **keywords).arguments
    open_sizes = {name: tree_map(_open, value) for name, value in given.items()}
    watched = _Watched(module)
    try:
        with _quiet():
            program = torch.export.export(watched.module, arguments, keywords, dynamic_shapes=open_sizes, strict=False)
            made = torch.onnx.export(program, dynamo=True, optimize=False, verbose=False)
    except Exception as error:
        said = str(error).strip().partition("\n")[0]
        raise Fail(
            f"ORTModule: PyTorch cannot export {type(module).__name__} ({type(error).__name__}: {said}); "
            "wrap those submodules that do the work, and whose way does not depend on elements"
        ) from error
    assert made is not None
    if any(str(node.target).startswith("aten.gru") for node in program.graph.nodes):
        raise NotImplemented(
            "ORTModule: PyTorch's exporter decomposes GRU wrongly; wrap what is around it, or use LSTM"
        )
    model = read(made.model_proto.SerializeToString())
    data = [value.name for value in model.graph.inputs]
    signature = program.graph_signature
    states = {*signature.inputs_to_parameters.values(), *signature.inputs_to_buffers.values()}
    held = [value for value in model.graph.initializers if value.name in states]
    for value in held:
        value.constant = None
    model.graph.initializers = [value for value in model.graph.initializers if value.name not in states]
    model.graph.inputs += held
    _restore_training(model, program)
    names = iter([value.name for value in model.graph.outputs])
    results = [next(names) if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in watched.leaves]
    assert watched.structure is not None
    named = [value.name for value in held]
    return Exported(model, data, named, results, watched.structure, _counted(program), _padding(program, model))


class _Watched:
    """A copy of a module, of the same parameters, that gives the tensors among its results, and notes the others."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.leaves: list[Any] = []
        self.structure: TreeSpec | None = None
        self.module = copy(module)

        @wraps(module.forward)
        def forward(*arguments: Any, **keywords: Any) -> tuple[torch.Tensor, ...]:
            self.leaves, self.structure = tree_flatten(module.forward(*arguments, **keywords))
            return tuple(leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor))

        self.module.__dict__["forward"] = forward


def leaves(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[list[Any], TreeSpec]:
    """The arguments in a row, and their structure."""
    return tree_flatten((arguments, keywords))


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what exporting says of its own future, of packages that are not there, and of errors that it raises."""
    before = logging.root.manager.disable
    logging.disable(max(before, logging.ERROR))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _open(leaf: Any) -> Any:
    return [torch.export.Dim.AUTO] * leaf.dim() if isinstance(leaf, torch.Tensor) else None


def _detached(leaf: Any) -> Any:
    """A tensor without its gradient, whose sizes torch.export would take for inputs."""
    return leaf.detach() if isinstance(leaf, torch.Tensor) else leaf


def _restore_training(model: Model, program: Any) -> None:
    """Say of each normalization whose statistics are those of the batch that it is one: the exporter does not."""
    owners = program.graph_signature.inputs_to_buffers
    learning = {
        owners[node.args[3].name]
        for node in program.graph.nodes
        if node.target == torch.ops.aten.batch_norm.default and node.args[5] and node.args[3] is not None
    }
    for node in model.graph.nodes:
        if node.op_type == "BatchNormalization" and node.inputs[3] is not None and node.inputs[3].name in learning:
            node.attributes["training_mode"] = attribute("training_mode", 1)


def _padding(program: Any, model: Model) -> dict[str, int]:
    """By the results of embeddings the rows that are padding: the exporter leaves out that these do not learn."""
    gathered = {node.outputs[0].name for node in model.graph.nodes if node.op_type == "Gather"}
    found = {}
    for node in program.graph.nodes:
        if node.target != torch.ops.aten.embedding.default:
            continue
        given = list(node.args[2:4])
        padding, scaled = given + [-1, False][len(given) :]
        if scaled or (padding >= 0 and node.name not in gathered):
            raise NotImplemented(f"ORTModule: the gradient of {node.name}: leave out scale_grad_by_freq or padding_idx")
        if padding >= 0:
            found[node.name] = padding
    return found


def _counted(program: Any) -> list[str]:
    """The buffers that count batches; NotImplemented names one that is changed in another way."""
    owners, found = program.graph_signature.inputs_to_buffers, []
    for node in program.graph.nodes:
        changed = node.args[0] if node.op == "call_function" and node.args else None
        name = owners.get(changed.name) if isinstance(changed, torch.fx.Node) else None
        if name is None or not node.target._schema.is_mutable:
            continue
        if name.rpartition(".")[2] != _COUNTS:
            raise NotImplemented(
                f"ORTModule: forward() changes the buffer {name!r} ({node.target}); a plan cannot: return it instead"
            )
        found.append(name)
    return found
