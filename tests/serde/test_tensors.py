"""Every element type in every layout, against onnx.numpy_helper."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from sardonyx import errors
from sardonyx.common import dtypes
from sardonyx.errors import InvalidProtobuf
from sardonyx.model.ir import Tensor
from sardonyx.model.serde.schema import MESSAGES
from sardonyx.model.serde.source import DataFiles
from sardonyx.model.serde.tensors import raw_bytes, read_tensor
from sardonyx.model.serde.wire import decode

NUMERIC = [dtype for dtype in dtypes.ALL if dtype is not dtypes.string]
SHAPES = [(), (0, 3), (1,), (3, 5), (2, 3, 4)]


def read(proto: TensorProto) -> Tensor:
    return read_tensor(decode(proto.SerializeToString(), MESSAGES["TensorProto"]), DataFiles(None))


def sample(dtype, shape):
    """Random elements, as the integers or floats that `storage` holds."""
    rng = np.random.default_rng(len(shape))
    bits = rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8)
    if dtype is dtypes.bool_:
        return (bits[..., 0] & 1).astype(bool)
    if dtype.kind in ("float", "complex") and dtype.is_native:
        return rng.normal(size=shape).astype(dtype.storage)
    if dtype.bits < 8:
        lowest = 1 << dtype.bits - 1 if dtype.kind == "int" else 0
        return np.asarray(bits[..., 0] % (1 << dtype.bits) - np.int64(lowest), dtype.storage)
    return bits.view(dtype.storage)[..., 0]


def as_onnx(dtype, array):
    """The same elements in the type that the onnx package uses."""
    wanted = helper.tensor_dtype_to_np_dtype(dtype.number)
    return array.astype(wanted) if dtype.is_int or dtype.is_native else array.view(wanted)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", NUMERIC, ids=repr)
def test_raw_data(dtype, shape):
    array = sample(dtype, shape)
    proto = numpy_helper.from_array(as_onnx(dtype, array), "w")
    assert proto.data_type == dtype.number
    assert proto.HasField("raw_data")
    tensor = read(proto)
    assert (tensor.dtype, tensor.shape, tensor.name) == (dtype, shape, "w")
    assert tensor.array().dtype == dtype.storage
    assert not tensor.array().flags.writeable
    np.testing.assert_array_equal(tensor.array(), array)
    assert bytes(raw_bytes(tensor)) == proto.raw_data


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", NUMERIC, ids=repr)
def test_typed_data(dtype, shape):
    array = sample(dtype, shape)
    proto = helper.make_tensor("w", dtype.number, shape, as_onnx(dtype, array).reshape(-1).tolist())
    if not proto.HasField("raw_data"):
        theirs = numpy_helper.to_array(proto)
        same = theirs.astype(dtype.storage) if dtype.is_int or dtype.is_native else theirs.view(dtype.storage)
        np.testing.assert_array_equal(read(proto).array(), same)


def test_typed_data_that_is_not_packed():
    singly = b"".join(b"\x25" + np.float32(each).tobytes() for each in (1, 2.5))  # float_data, one by one
    record = decode(b"\x08\x02\x10\x01" + singly, MESSAGES["TensorProto"])
    np.testing.assert_array_equal(read_tensor(record, DataFiles(None)).array(), [1, 2.5])
    record = decode(b"\x08\x02\x10\x06\x28\x80\x01\x28\x03", MESSAGES["TensorProto"])
    np.testing.assert_array_equal(read_tensor(record, DataFiles(None)).array(), [128, 3])


def test_strings_are_text_where_they_are_utf8():
    proto = TensorProto(data_type=8, dims=[3], string_data=["naïve".encode(), b"", b"\xff\x00"])
    assert read(proto).array().tolist() == ["naïve", "", b"\xff\x00"]


def test_raw_data_is_a_view():
    data = numpy_helper.from_array(np.arange(1000.0)).SerializeToString()
    array = read_tensor(decode(data, MESSAGES["TensorProto"]), DataFiles(None)).array()
    held = np.frombuffer(data, np.uint8)
    assert np.shares_memory(array, held)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (
            {"dims": [2, 3], "data_type": 1, "raw_data": b"12345678"},
            r"float32\[2,3\] needs 24 bytes, its raw_data has 8",
        ),
        ({"dims": [2], "data_type": 1, "raw_data": b"123456789"}, "needs 8 bytes, its raw_data has 9"),
        ({"dims": [1 << 40, 1 << 40], "data_type": 1}, "its raw_data has 0"),
        ({"dims": [1 << 40], "data_type": 7, "int64_data": [1]}, "its int64_data has fewer"),
        ({"dims": [1 << 40], "data_type": 11, "double_data": [1]}, "needs 8796093022208 bytes, its double_data has 8"),
        ({"dims": [-1], "data_type": 1, "raw_data": b""}, "dimension -1 is negative"),
        ({"dims": [1] * 65, "data_type": 1, "raw_data": b"1234"}, "rank 65 is above 64"),
        ({"dims": [1], "data_type": 8, "raw_data": b"1234"}, "strings belong into string_data"),
        ({"dims": [1], "data_type": 1, "data_location": 1}, "must lie in the model's folder"),
    ],
)
def test_what_a_tensor_claims_is_checked_when_it_is_read(fields, reason):
    with pytest.raises(InvalidProtobuf, match=f"Tensor 'w': .*{reason}"):
        read(TensorProto(name="w", **fields))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"dims": [2], "data_type": 6, "int32_data": [300]}, "2 numbers are needed"),
        ({"dims": [2], "data_type": 22, "int32_data": [1, 2]}, "1 numbers are needed for 2 elements of int4"),
        ({"dims": [2], "data_type": 8, "string_data": [b"a"]}, "its shape has 2 elements, string_data has 1"),
        ({"dims": [0, 1 << 62, 9], "data_type": 1, "raw_data": b""}, ""),
    ],
)
def test_what_only_decoding_can_tell_is_checked_then(fields, reason):
    tensor = read(TensorProto(name="w", **fields))
    with pytest.raises(InvalidProtobuf, match=f"Tensor 'w': .*{reason}"):
        tensor.array()


def test_an_unknown_element_type():
    with pytest.raises(errors.NotImplemented, match="Tensor 'w': element type 99 is unknown"):
        read(TensorProto(name="w", data_type=99))


def test_the_tensors_of_onnx_are_read(onnx_models):
    seen = set()
    for data in onnx_models.values():
        model = onnx.load_from_string(data)
        constants = [each.t for node in model.graph.node for each in node.attribute if each.HasField("t")]
        for proto in (*model.graph.initializer, *constants):
            seen.add(proto.data_type)
            theirs, ours = numpy_helper.to_array(proto), read(proto)
            assert ours.shape == theirs.shape
            if ours.dtype is dtypes.string:
                assert ours.array().tolist() == [each.decode() if isinstance(each, bytes) else each for each in theirs]
            elif theirs.dtype == ours.dtype.storage:
                assert ours.array().tobytes() == theirs.tobytes()
    assert len(seen) > 6
