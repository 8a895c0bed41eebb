"""Models of more than two gigabytes, in files that are mostly holes."""

import resource
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from sardonyx import InferenceSession
from sardonyx.common import dtypes
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Graph, Model, Node, Tensor, TensorType, Value
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.wire import varint
from sardonyx.model.serde.writer import save, write

GIGABYTE = 1 << 30
SIZE = 5 * GIGABYTE // 2

pytestmark = pytest.mark.skipif(sys.platform == "win32" or sys.maxsize < 1 << 32, reason="needs holes in files")


@pytest.fixture
def external(tmp_path):
    """A model whose weight is a file of 2.5 GB, all holes but for the last number."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[SIZE // 4], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="w.bin")
    place = helper.make_tensor("i", TensorProto.INT64, [1], [SIZE // 4 - 1])
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    node = helper.make_node("Gather", ["w", "i"], ["y"])
    model = helper.make_model(
        helper.make_graph([node], "g", [], [output], [tensor, place]), opset_imports=[helper.make_opsetid("", 21)]
    )
    (tmp_path / "a.onnx").write_bytes(model.SerializeToString())
    with open(tmp_path / "w.bin", "wb") as file:
        file.truncate(SIZE)
        file.seek(SIZE - 4)
        file.write(np.float32(7).tobytes())
    return tmp_path / "a.onnx"


def test_weights_are_mapped_and_not_read(external):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    weight = read(external).graph.initializers[0].constant.array()
    assert (weight.shape, weight[-1]) == ((SIZE // 4,), 7)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kB


@pytest.mark.nightly
def test_a_session_runs_on_them(external):
    session = InferenceSession(external, providers=["NumpyExecutionProvider"])
    assert session.run(None, {})[0].tolist() == [7]


def broadcast_model(size):
    """A model of `size` bytes that lie nowhere: its weights are one number, repeated."""
    count = size // 8 // 4
    zeros = np.broadcast_to(np.float32(0), (count,))
    weights = [Value(f"w{k}", TensorType(dtypes.float32, (count,))) for k in range(8)]
    for value in weights:
        value.constant = Tensor.of(zeros, dtypes.float32, value.name)
    node = Node("Sum", list(weights), [Value("y", TensorType(dtypes.float32, (count,)))])
    return Model(Graph([], node.outputs, [node], weights, name="g"), {"": 21})


@pytest.mark.nightly
def test_large_models_are_written_beside_their_file(tmp_path):
    model = broadcast_model(SIZE)
    with pytest.raises(InvalidArgument, match=r"save\(\.\.\., external_data=name\)"):
        write(model)
    save(model, tmp_path / "a.onnx", external_data="a.data")
    assert (tmp_path / "a.data").stat().st_size >= SIZE
    onnx.checker.check_model(tmp_path / "a.onnx")
    assert [value.constant.shape for value in read(tmp_path / "a.onnx").graph.initializers] == [(SIZE // 32,)] * 8


STREAMED = """
import resource, sys
from tests.serde.test_large import broadcast_model
from sardonyx.model.serde.writer import save
model = broadcast_model(512 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
save(model, sys.argv[1], external_data="a.data")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
def test_writing_holds_one_tensor_at_a_time(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", STREAMED, str(tmp_path / "a.onnx")],
        capture_output=True,
        text=True,
        check=True,
        timeout=500,
    )
    assert int(done.stdout) < 100_000  # kB, of the 64 MB that each of the tensors has


@pytest.mark.nightly
def test_a_single_file_above_two_gigabytes(tmp_path):
    size = 2 * GIGABYTE + (100 << 20)
    head = TensorProto(name="w", data_type=TensorProto.UINT8, dims=[size]).SerializeToString()
    head += varint(9 << 3 | 2) + varint(size)  # raw_data
    output = helper.make_tensor_value_info("y", TensorProto.INT64, [1]).SerializeToString()
    node = helper.make_node("Shape", ["w"], ["y"]).SerializeToString()
    rest = b"".join(varint(k << 3 | 2) + varint(len(data)) + data for k, data in ((1, node), (12, output)))
    graph = rest + varint(5 << 3 | 2) + varint(len(head) + size) + head
    imports = helper.make_opsetid("", 21).SerializeToString()
    with open(tmp_path / "a.onnx", "wb") as file:
        file.write(b"\x08\x0a" + varint(8 << 3 | 2) + varint(len(imports)) + imports)
        file.write(varint(7 << 3 | 2) + varint(len(graph) + size) + graph)
        file.truncate(file.tell() + size)
    session = InferenceSession(tmp_path / "a.onnx", providers=["NumpyExecutionProvider"])
    assert session.run(None, {})[0].tolist() == [size]
