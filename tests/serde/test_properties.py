"""What is written is what is read, whatever it is."""

import onnx
from hypothesis import HealthCheck, given, settings

from sardonyx.model.ir.compare import difference
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.writer import save, write
from tests.serde.strategies import models

careful = settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@given(models())
@careful
def test_reading_what_was_written(model):
    data = write(model)
    found = read(data)
    assert difference(model, found) == ""
    assert write(found) == data
    proto = onnx.load_from_string(data)  # protobuf finds the same fields, and none that it does not know
    assert onnx.load_from_string(proto.SerializeToString()) == proto


@given(models())
@settings(careful, max_examples=50)
def test_external_data_changes_nothing(tmp_path_factory, model):
    folder = tmp_path_factory.mktemp("model")
    save(model, folder / "a.onnx", external_data="a.data", threshold=0)
    assert difference(model, read(folder / "a.onnx")) == ""
