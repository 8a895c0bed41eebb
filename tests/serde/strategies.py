"""Models that nobody would write, for hypothesis: every kind of type, tensor and attribute, with graphs in graphs."""

import numpy as np
from hypothesis import strategies as st

from sardonyx.common import dtypes
from sardonyx.model.ir import (
    Attribute,
    Function,
    Graph,
    MapType,
    Model,
    Node,
    OpaqueType,
    OptionalType,
    SequenceType,
    SparseTensor,
    SparseTensorType,
    Tensor,
    TensorType,
    Value,
)

words = st.text("abcxyzäß/.:_ \n\0", max_size=6)
pairs = st.dictionaries(words, words, max_size=2)
int64 = st.integers(-(2**63), 2**63 - 1)
float32 = st.floats(width=32)
sizes = st.lists(st.integers(0, 3), max_size=3).map(tuple)
unread = st.just(b"") | st.binary(max_size=9).map(lambda data: b"\xca\x3e" + bytes((len(data),)) + data)


@st.composite
def tensors(draw, name=words):
    dtype, shape = draw(st.sampled_from(dtypes.ALL)), draw(sizes)
    count = int(np.prod(shape))
    if dtype is dtypes.string:
        array = np.empty(count, object)
        array[:] = draw(st.lists(words | st.just(b"\xff\x00"), min_size=count, max_size=count))
    else:
        data = np.frombuffer(draw(st.binary(min_size=count * 16, max_size=count * 16)), np.uint8)
        if dtype.bits < 8:
            array = (data[:count] & ((1 << dtype.bits) - 1)).view(dtype.storage)
            array = array - (array >> (dtype.bits - 1)) * (1 << dtype.bits) if dtype.kind == "int" else array
        elif dtype is dtypes.bool_:
            array = data[:count] > 127
        else:
            array = data[: count * dtype.itemsize].view(dtype.storage)
    made = Tensor.of(array.reshape(shape).astype(dtypes_storage(dtype)), dtype, draw(name))
    made.doc, made.metadata, made.unread = draw(words), draw(pairs), draw(unread)
    return made


def dtypes_storage(dtype):
    return object if dtype is dtypes.string else dtype.storage


@st.composite
def sparse_tensors(draw, name=words):
    values, indices = draw(tensors(name)), draw(tensors())
    return SparseTensor(values, indices, draw(sizes))


dims = st.none() | st.integers(0, 2**40) | words.filter(bool)
shapes = st.none() | st.lists(dims, max_size=3).map(tuple)
elements = st.none() | st.sampled_from(dtypes.ALL)


@st.composite
def tensor_types(draw, make=TensorType):
    shape = draw(shapes)
    said = tuple(draw(words) for _ in shape or ())
    return make(draw(elements), shape, said if any(said) else (), denotation=draw(words))


def containers(inner):
    inner = st.none() | inner
    return (
        st.builds(SequenceType, inner, denotation=words)
        | st.builds(OptionalType, inner, denotation=words)
        | st.builds(MapType, st.sampled_from(dtypes.ALL), inner, denotation=words)
    )


leaves = tensor_types() | tensor_types(SparseTensorType) | st.builds(OpaqueType, words, words, denotation=words)
types = st.recursive(leaves, containers, max_leaves=3)

SINGLE = {
    "int": int64,
    "float": float32,
    "string": words | st.just(b"\xfe"),
    "tensor": tensors(),
    "sparse_tensor": sparse_tensors(),
    "type_proto": types,
}


@st.composite
def attributes(draw, name, depth):
    kind = draw(st.sampled_from([*SINGLE, "graph"] if depth else [*SINGLE]))
    content = graphs(depth - 1) if kind == "graph" else SINGLE[kind]
    many = draw(st.booleans())
    value = draw(st.lists(content, max_size=3)) if many else draw(content)
    return Attribute(name, f"{kind}s" if many else kind, value, "", draw(words), draw(unread))


@st.composite
def graphs(draw, depth=1, values=()):
    """A graph that may use the given Values; all names are numbers, so that none clash."""
    seen = list(values)

    def fresh(**content):
        # names keep apart what hypothesis draws alike; an inner graph may not use those of the outer one
        value = Value(f"v{depth}.{len(seen)}", draw(st.none() | types), **content)
        value.doc, value.metadata, value.unread = draw(words), draw(pairs), draw(unread)
        seen.append(value)
        return value

    graph = Graph(name=draw(words), doc=draw(words), metadata=draw(pairs), unread=draw(unread))
    graph.inputs = [fresh() for _ in range(draw(st.integers(0, 2)))]
    for _ in range(draw(st.integers(0, 2))):
        value = fresh(constant=draw(tensors()))
        value.type = TensorType(value.constant.dtype, value.constant.shape)
        value.constant.name = value.name
        value.doc, value.metadata, value.unread = "", {}, b""
        graph.initializers.append(value)
    for _ in range(draw(st.integers(0, 1))):
        sparse = draw(sparse_tensors())
        value = fresh()
        sparse.values.name = value.name
        value.type = SparseTensorType(sparse.values.dtype, sparse.shape)
        value.doc, value.metadata, value.unread = "", {}, b""
        graph.sparse_initializers.append((value, sparse))
    for _node in range(draw(st.integers(0, 3))):
        inputs = draw(st.lists(st.sampled_from([None, *seen]), max_size=3))
        node = Node(draw(words), inputs, [], name=draw(words), domain=draw(words), overload=draw(words))
        node.attributes = {
            name: draw(attributes(name, depth)) for name in draw(st.lists(words, max_size=2, unique=True))
        }
        node.doc, node.metadata, node.unread = draw(words), draw(pairs), draw(unread)
        node.outputs = [fresh() for _ in range(draw(st.integers(0, 2)))]
        for value in node.outputs:
            value.producer = node
            if not (value.type or value.doc or value.metadata):
                value.unread = b""  # of such a Value the file has nothing to say
        graph.nodes.append(node)
    own = seen[len(values) :]
    graph.outputs = draw(st.lists(st.sampled_from(own), max_size=2, unique_by=id)) if own else []
    graph.quantization = [(value.name, draw(pairs)) for value in own[:1]]
    return graph


@st.composite
def functions(draw):
    graph = draw(graphs(0))
    graph.initializers, graph.sparse_initializers, graph.quantization = [], [], []
    kept = [*graph.inputs]
    for node in graph.nodes:
        node.inputs = [value if value in kept else None for value in node.inputs]
        kept += node.outputs
    graph.outputs = [value for value in graph.outputs if value in kept]
    name = draw(words)
    graph.name, graph.doc, graph.metadata, graph.unread = name, "", {}, b""
    for value in graph.inputs:
        if not (value.type or value.doc or value.metadata):
            value.unread = b""
    given = {each: draw(attributes(each, 0)) for each in draw(st.lists(words, max_size=2, unique=True))}
    versions = draw(st.dictionaries(words, int64, max_size=2))
    return Function(
        draw(words), name, graph, draw(st.lists(words)), given, versions, draw(words), draw(words), draw(pairs)
    )


@st.composite
def models(draw):
    found = draw(st.lists(functions(), max_size=2))
    return Model(
        draw(graphs()),
        draw(st.dictionaries(words, int64, max_size=2)),
        {(each.domain, each.name, each.overload): each for each in found},
        draw(st.integers(4, 20)),
        *(draw(words) for _ in range(3)),
        draw(int64),
        draw(words),
        draw(pairs),
        draw(unread),
    )
