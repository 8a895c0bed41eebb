"""What can go wrong with a model, in its bytes and in its fields; a generator of random numbers says what does."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

Random = random.Random

INTEGERS = [0, 1, -1, 2, -2, 3, 7, 64, 255, 65536, 10**6, 2**31 - 1, -(2**31), 2**31, 2**40, 2**62, 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e30, -1e30, float("inf"), float("-inf"), float("nan")]
TEXTS = ["", "x", "linear", "reflect", "nearest", "SAME_UPPER", "max", "none", "\0", "Ü", "a,b->c", "..."]
DTYPES = sorted(set(TensorProto.DataType.values()) | {99})
OPERATORS = sorted({schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain})

# ---- bytes


def flip(rng: Random, data: bytes, other: bytes) -> bytes:
    """Change a few bits."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def overwrite(rng: Random, data: bytes, other: bytes) -> bytes:
    """Put a byte where another one was."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 3])):
        changed[rng.randrange(len(data))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    return bytes(changed)


def truncate(rng: Random, data: bytes, other: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


def cut(rng: Random, data: bytes, other: bytes) -> bytes:
    """Leave out a piece."""
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.randrange(1, 20) :]


def insert(rng: Random, data: bytes, other: bytes) -> bytes:
    """Put a piece in, or one of another model."""
    start, size = rng.randrange(len(data)), rng.randrange(1, 20)
    piece = rng.randbytes(size) if rng.random() < 0.5 else other[rng.randrange(len(other)) :][:size]
    return data[:start] + piece + data[start:]


def splice(rng: Random, data: bytes, other: bytes) -> bytes:
    """The beginning of one model with the end of another."""
    return data[: rng.randrange(len(data))] + other[rng.randrange(len(other)) :]


BYTES: Sequence[Callable[[Random, bytes, bytes], bytes]] = [flip, overwrite, truncate, cut, insert, splice]

# ---- fields


def graphs(model: ModelProto) -> Iterator[GraphProto]:
    """The graph and all that are inside it."""
    stack = [model.graph]
    while stack:
        graph = stack.pop()
        yield graph
        attributes = (attribute for node in graph.node for attribute in node.attribute)
        stack += [inner for each in attributes for inner in (*([each.g] if each.HasField("g") else []), *each.graphs)]


def pick(rng: Random, items: Any) -> Any:
    """One of the items; IndexError where there is none, and the mutation has nothing to work on."""
    found = list(items)
    return found[rng.randrange(len(found))] if found else [][0]


def any_node(rng: Random, model: ModelProto) -> NodeProto:
    return pick(rng, (node for graph in graphs(model) for node in graph.node))


def any_tensor(rng: Random, model: ModelProto) -> TensorProto:
    held = [tensor for graph in graphs(model) for tensor in graph.initializer]
    nodes = (node for graph in graphs(model) for node in graph.node)
    return pick(rng, held + [each.t for node in nodes for each in node.attribute if each.HasField("t")])


def names(model: ModelProto) -> list[str]:
    found = [name for graph in graphs(model) for node in graph.node for name in (*node.input, *node.output)]
    return [*found, *(value.name for value in model.graph.input), ""]


def change_attribute(rng: Random, model: ModelProto) -> None:
    """Another number or text, or one more, or one less."""
    attribute = pick(rng, any_node(rng, model).attribute)
    for field, choices in (("i", INTEGERS), ("f", FLOATS)):
        if attribute.HasField(field):
            setattr(attribute, field, rng.choice(choices))
    if attribute.HasField("s"):
        attribute.s = rng.choice([*(text.encode() for text in TEXTS), b"\xff\xfe"])
    for field, choices in (("ints", INTEGERS), ("floats", FLOATS)):
        values = getattr(attribute, field)
        if values:
            change_list(rng, values, choices)


def change_list(rng: Random, values: Any, choices: Sequence[Any]) -> None:
    place = rng.randrange(len(values))
    match rng.randrange(3):
        case 0:
            values[place] = rng.choice(choices)
        case 1:
            values.append(rng.choice(choices))
        case 2:
            del values[place]


def retype_attribute(rng: Random, model: ModelProto) -> None:
    """Say that an attribute is of another type, with or without a value of that type."""
    attribute = pick(rng, any_node(rng, model).attribute)
    name = attribute.name
    if rng.random() < 0.5:
        attribute.type = rng.choice([*AttributeProto.AttributeType.values()])
    else:
        value = rng.choice([1, 0.5, "text", [1, 2], [0.5], ["a"], numpy_helper.from_array(np.zeros((2, 0), "f4"))])
        attribute.CopyFrom(onnx.helper.make_attribute(name, value))


def drop_attribute(rng: Random, model: ModelProto) -> None:
    attributes = any_node(rng, model).attribute
    del attributes[rng.randrange(len(attributes))]


def add_attribute(rng: Random, model: ModelProto) -> None:
    """An attribute that some operator has, wherever it is put."""
    node = any_node(rng, model)
    schema = onnx.defs.get_schema(node.op_type if node.op_type in OPERATORS else rng.choice(OPERATORS))
    name = pick(rng, schema.attributes)
    node.attribute.append(onnx.helper.make_attribute(name, rng.choice([rng.choice(INTEGERS), [1, 1], "x", 0.5])))


def change_dim(rng: Random, model: ModelProto) -> None:
    """Another size of an input, an output or a tensor."""
    infos = [*model.graph.input, *model.graph.output, *model.graph.value_info]
    shapes = [info.type.tensor_type.shape for info in infos if info.type.HasField("tensor_type")]
    if rng.random() < 0.5:
        dims = any_tensor(rng, model).dims
        change_list(rng, dims, INTEGERS) if dims else dims.append(rng.choice(INTEGERS))
        return
    shape = pick(rng, shapes)
    match rng.randrange(3):
        case 0:
            pick(rng, shape.dim).dim_value = rng.choice(INTEGERS)
        case 1:
            pick(rng, shape.dim).dim_param = rng.choice(["N", "M", "N+1", "", "s0"])
        case 2:
            shape.dim.add().dim_value = rng.choice(INTEGERS)


def forget_sizes(rng: Random, model: ModelProto) -> None:
    """Leave all sizes to the run."""
    for info in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        for dim in info.type.tensor_type.shape.dim if info.type.HasField("tensor_type") else ():
            dim.Clear()


def change_dtype(rng: Random, model: ModelProto) -> None:
    """Another element type of an input or a tensor."""
    if rng.random() < 0.5:
        any_tensor(rng, model).data_type = rng.choice(DTYPES)
    else:
        infos = (*model.graph.input, *model.graph.output)
        pick(
            rng, (each for each in infos if each.type.HasField("tensor_type"))
        ).type.tensor_type.elem_type = rng.choice(DTYPES)


def change_elements(rng: Random, model: ModelProto) -> None:
    """Other numbers in a constant, which may be sizes or indices."""
    tensor = any_tensor(rng, model)
    array = numpy_helper.to_array(tensor).copy()
    if array.dtype.kind not in "iuf" or not array.size:
        return
    info = np.iinfo(array.dtype) if array.dtype.kind in "iu" else None
    choices = [each for each in INTEGERS if info.min <= each <= info.max] if info else FLOATS
    with np.errstate(all="ignore"):
        array.reshape(-1)[rng.randrange(array.size)] = rng.choice(choices)
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def change_input(rng: Random, model: ModelProto) -> None:
    """Another edge."""
    node = any_node(rng, model)
    node.input[rng.randrange(len(node.input))] = rng.choice(names(model))


def change_arity(rng: Random, model: ModelProto) -> None:
    """One input or output more, or one less."""
    node = any_node(rng, model)
    match rng.randrange(4):
        case 0:
            del node.input[-1]
        case 1:
            node.input.append(rng.choice(names(model)))
        case 2:
            del node.output[-1]
        case 3:
            node.output.append(rng.choice([*names(model), "more"]))


def change_operator(rng: Random, model: ModelProto) -> None:
    any_node(rng, model).op_type = rng.choice(OPERATORS)


def rename(rng: Random, model: ModelProto) -> None:
    """Another name of a node, an output, an input, or a domain."""
    node = any_node(rng, model)
    match rng.randrange(4):
        case 0:
            node.name = rng.choice([*TEXTS, "n" * 10000])
        case 1:
            node.output[rng.randrange(len(node.output))] = rng.choice([*names(model), *TEXTS])
        case 2:
            pick(rng, model.graph.input).name = rng.choice([*names(model), *TEXTS])
        case 3:
            node.domain = rng.choice(["ai.onnx", "ai.onnx.ml", "com.microsoft", "none"])


def drop_node(rng: Random, model: ModelProto) -> None:
    graph = pick(rng, graphs(model))
    del graph.node[rng.randrange(len(graph.node))]


def double_node(rng: Random, model: ModelProto) -> None:
    graph = pick(rng, graphs(model))
    copy = NodeProto()
    copy.CopyFrom(pick(rng, graph.node))
    if rng.random() < 0.5:
        copy.output[:] = [f"{name}_2" for name in copy.output]
    graph.node.insert(rng.randrange(len(graph.node) + 1), copy)


def swap_nodes(rng: Random, model: ModelProto) -> None:
    graph = pick(rng, graphs(model))
    one, other = rng.randrange(len(graph.node)), rng.randrange(len(graph.node))
    kept = NodeProto()
    kept.CopyFrom(graph.node[one])
    graph.node[one].CopyFrom(graph.node[other])
    graph.node[other].CopyFrom(kept)


def change_outputs(rng: Random, model: ModelProto) -> None:
    """Have a graph give something else."""
    graph = pick(rng, graphs(model))
    if rng.random() < 0.5:
        graph.output[rng.randrange(len(graph.output))].name = rng.choice(names(model))
    else:
        del graph.output[-1]


def change_version(rng: Random, model: ModelProto) -> None:
    if rng.random() < 0.7:
        pick(rng, model.opset_import).version = rng.choice([*range(1, 30), -1, 2**40])
    else:
        model.ir_version = rng.choice([0, 1, 3, 4, 99, -1])


FIELDS: Sequence[Callable[[Random, ModelProto], None]] = [
    *[change_attribute] * 4,
    retype_attribute,
    drop_attribute,
    add_attribute,
    *[change_dim] * 2,
    *[forget_sizes] * 3,
    change_dtype,
    *[change_elements] * 3,
    *[change_input] * 2,
    change_arity,
    *[change_operator] * 2,
    rename,
    drop_node,
    double_node,
    swap_nodes,
    change_outputs,
    change_version,
]


def mutate(rng: Random, data: bytes, other: bytes) -> tuple[str, bytes]:
    """A model with something wrong, and what that is."""
    if rng.random() < 0.25:
        mutation = rng.choice(BYTES)
        return mutation.__name__, mutation(rng, data, other)
    model = onnx.load_model_from_string(data)
    done = []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        change = rng.choice(FIELDS)
        try:
            change(rng, model)
        except (IndexError, ValueError, TypeError, KeyError):  # it has nothing to work on
            continue
        done.append(change.__name__)
    return " ".join(done), model.SerializeToString()
