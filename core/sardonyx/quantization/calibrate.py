"""Ranges of tensors, learnt by running a model on samples: onnxruntime.quantization.calibrate by its names.

What a layer gives is never kept. Least and greatest values are computed in the model, by nodes behind those that make
the tensors; histograms are counted while it runs (`watch.py`). A histogram needs the samples twice: its edges are known
at the end of the first pass, and the samples wait for the second one in a file.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx.api.options import SessionOptions
from sardonyx.api.session import InferenceSession
from sardonyx.common import dtypes
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Node, TensorType
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.writer import save
from sardonyx.passes.infer import infer_types
from sardonyx.passes.levels import GraphOptimizationLevel
from sardonyx.quantization.base_quantizer import FLOATS
from sardonyx.quantization.data_reader import CalibrationDataReader
from sardonyx.quantization.enums import CalibrationMethod
from sardonyx.quantization.histogram import HistogramCollector
from sardonyx.quantization.network import Network, names
from sardonyx.quantization.opset import newest
from sardonyx.quantization.proto import as_model, as_proto
from sardonyx.quantization.tensors_data import (
    CalibrationCacheEncoder,
    TensorData,
    TensorsData,
    load_tensors_data,
    save_tensors_data,
)
from sardonyx.quantization.watch import add_watches, behind, listening

__all__ = [
    "CalibraterBase",
    "CalibrationCacheEncoder",
    "CalibrationDataReader",
    "CalibrationMethod",
    "DistributionCalibrater",
    "EntropyCalibrater",
    "HistogramCalibrater",
    "HistogramCollector",
    "MinMaxCalibrater",
    "PercentileCalibrater",
    "TensorData",
    "TensorsData",
    "create_calibrator",
    "load_tensors_data",
    "save_tensors_data",
]

FLAT = "sardonyx.calibration.flat"
AXES = "sardonyx.calibration.axes"
AUGMENTED = "augmented_model.onnx"
NOTHING = "No data is collected: the reader gave no samples; one that was read to its end has to be made anew"


class CalibraterBase:
    """A model, the tensors of it that are watched, and a session that runs it.

    `op_types_to_calibrate` names the operators whose inputs and outputs are watched, all if it is empty. The model that
    is run, with what watches, is written to `augmented_model_path`.
    """

    def __init__(
        self,
        model_path: str | Path,
        op_types_to_calibrate: Sequence[str] | None = None,
        augmented_model_path: str | os.PathLike[str] = AUGMENTED,
        symmetric: bool = False,
        use_external_data_format: bool = False,
        per_channel: bool = False,
    ) -> None:
        if not isinstance(model_path, (str, Path)):
            raise InvalidArgument("model_path should be model path.")
        self.network = Network(read(model_path))
        self.op_types_to_calibrate = op_types_to_calibrate
        self.augmented_model_path = augmented_model_path
        self.symmetric = symmetric
        self.use_external_data_format = use_external_data_format
        self.per_channel = per_channel
        self._runs = False
        self._made: InferenceSession | None = None
        self.execution_providers: list[Any] = ["CPUExecutionProvider"]
        self.tensors = self._chosen()
        """The tensors that are watched, in the order of the nodes."""

    @property
    def model(self) -> Any:
        """The model as it is now, as a ModelProto of the package `onnx`."""
        return as_proto(self.network.model)

    def get_augment_model(self) -> Any:
        """The model with what watches, as a ModelProto of the package `onnx`."""
        return self.model

    def set_execution_providers(self, execution_providers: Sequence[Any] = ("CPUExecutionProvider",)) -> None:
        """Run on these providers."""
        self.execution_providers = list(execution_providers)
        self.create_inference_session()

    def create_inference_session(self) -> None:
        """Have a session run the model, which `augment_graph` has written; it is made when it is needed."""
        self._runs, self._made = True, None

    @property
    def infer_session(self) -> InferenceSession | None:
        """The session that runs the model; None before `create_inference_session`."""
        if self._runs and self._made is None:
            options = SessionOptions()
            options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
            self._made = InferenceSession(
                self.augmented_model_path, sess_options=options, providers=self.execution_providers
            )
        return self._made

    def select_tensors_to_calibrate(self, model: Any) -> tuple[set[str], dict[str, Any]]:
        """The tensors of a ModelProto that would be watched, and the ValueInfoProtos of its tensors."""
        self.network = Network(as_model(model))
        graph = model.graph
        return {*self._chosen()}, {each.name: each for each in (*graph.value_info, *graph.output, *graph.input)}

    def _chosen(self) -> list[str]:
        network, kinds = self.network, self.op_types_to_calibrate
        nodes = [node for node in network.graph.nodes if not kinds or node.op_type in kinds]
        used = dict.fromkeys(name for node in nodes for name in (*names(node.inputs), *names(node.outputs)))
        return [name for name in used if network.types.get(name) in FLOATS and name not in network.initializers]

    def augment_graph(self) -> None:
        """Add what watches to the model, and write it."""
        raise NotImplementedError

    def collect_data(self, data_reader: CalibrationDataReader) -> None:
        """Run the model on all samples of a reader; it may be called several times."""
        raise NotImplementedError

    def compute_data(self) -> TensorsData:
        """The ranges, by all that was collected."""
        raise NotImplementedError

    def _write(self) -> None:
        beside = f"{Path(self.augmented_model_path).name}.data" if self.use_external_data_format else None
        written = self.network.model
        save(written, self.augmented_model_path, external_data=beside)
        self.network = Network(read(self.augmented_model_path))
        for node in [*written.graph.all_nodes()]:
            node.outputs.clear()  # which refer back to it, and the collector may be late: all weights would be held

    def _session(self) -> InferenceSession:
        session = self.infer_session
        if session is None:
            raise InvalidArgument("no session is there yet: call augment_graph() and create_inference_session() first")
        return session


class MinMaxCalibrater(CalibraterBase):
    """The least and the greatest value of each tensor, or of each channel.

    With `moving_average`, each collection (or each `max_intermediate_outputs` samples) moves the range by
    `averaging_constant` of the way to its own mean range.
    """

    def __init__(
        self,
        model_path: str | Path,
        op_types_to_calibrate: Sequence[str] | None = None,
        augmented_model_path: str | os.PathLike[str] = AUGMENTED,
        symmetric: bool = False,
        use_external_data_format: bool = False,
        moving_average: bool = False,
        averaging_constant: float = 0.01,
        max_intermediate_outputs: int | None = None,
        per_channel: bool = False,
    ) -> None:
        super().__init__(
            model_path, op_types_to_calibrate, augmented_model_path, symmetric, use_external_data_format, per_channel
        )
        if moving_average and not 0 <= averaging_constant <= 1:
            raise InvalidArgument("Invalid averaging constant, which should not be < 0 or > 1.")
        self.moving_average = moving_average
        self.averaging_constant = averaging_constant
        self.max_intermediate_outputs = max_intermediate_outputs
        self.calibrate_tensors_range: TensorsData | None = None
        self._seen: list[list[np.ndarray]] = []
        """Least and greatest values, in turns: of each sample where means are taken, else of all so far."""

    def augment_graph(self) -> None:
        """Add ReduceMin and ReduceMax, whose results are outputs, behind what makes the tensors."""
        self._add_reductions()
        self._write()

    def _add_reductions(self) -> None:
        network = self.network
        network.keep(FLAT, np.array([-1], np.int64), dtypes.int64)
        ranks = self._ranks() if self.per_channel else {}
        made: dict[str, Sequence[Node]] = {}
        for name in self.tensors:
            made[name] = []
            for op_type in ("ReduceMin", "ReduceMax"):
                nodes = self._reduction(name, op_type, ranks.get(name))
                made[name] = [*made[name], *nodes]
                value = network.value(f"{name}_{op_type}")
                value.type = TensorType(network.types[name], (None,))
                network.graph.outputs.append(value)
        behind(network, made)

    def _reduction(self, name: str, op_type: str, rank: int | None) -> list[Node]:
        network = self.network
        output = f"{name}_{op_type}"
        inputs, axes = [name], None
        if rank is not None:
            axes = [0, *range(2, rank)]
            if network.opset >= 18:
                inputs.append(f"{AXES}{rank}")
                network.keep(inputs[1], np.array(axes, np.int64), dtypes.int64)
                axes = None
        return [
            network.node(op_type, inputs, [f"{output}_Reshape"], output, keepdims=1, axes=axes),
            network.node("Reshape", [f"{output}_Reshape", FLAT], [output], f"{output}_Reshape"),
        ]

    def _ranks(self) -> dict[str, int]:
        """The ranks of tensors, by inference where the model does not say them."""
        from_model = {name: self.network.value(name).shape for name in self.tensors}
        unknown = [name for name, shape in from_model.items() if shape is None]
        if unknown:
            inferred = newest(self.network.model)
            infer_types(inferred.graph)
            values = {value.name: value for node in inferred.graph.nodes for value in node.outputs}
            from_model |= {name: values[name].shape for name in unknown if name in values}
        missing = [name for name, shape in from_model.items() if shape is None]
        if missing:
            raise InvalidArgument(f"the rank of {missing[0]} is not known, so it has no channels; declare its shape")
        return {name: len(shape) for name, shape in from_model.items() if shape is not None}

    def collect_data(self, data_reader: CalibrationDataReader) -> None:
        """Run the model on all samples of a reader."""
        session = self._session()
        watched = [f"{name}_{op_type}" for name in self.tensors for op_type in ("ReduceMin", "ReduceMax")]
        places = {each.name: place for place, each in enumerate(session.get_outputs())}
        count = 0
        for inputs in _samples(data_reader):
            results = session.run(None, inputs)
            self._take_in([np.asarray(results[places[name]]) for name in watched])
            count += 1
            if count == self.max_intermediate_outputs:
                self._merge()
                count = 0
        if not self._seen and self.calibrate_tensors_range is None:
            raise InvalidArgument(NOTHING)
        self._merge()

    def _take_in(self, found: list[np.ndarray]) -> None:
        if self.moving_average or not self._seen:
            self._seen.append(found)
            return
        ways = (np.fmin, np.fmax)
        (seen,) = self._seen
        self._seen = [[ways[place % 2](old, new) for place, (old, new) in enumerate(zip(seen, found, strict=True))]]

    def _merge(self) -> None:
        """Take what was seen since the last time into the ranges."""
        if not self._seen:
            return
        found = [_mean(each) if self.moving_average else each[0] for each in zip(*self._seen, strict=True)]
        self._seen = []
        old = self.calibrate_tensors_range
        ranges: dict[str, TensorData] = {}
        for name, low, high in zip(self.tensors, found[::2], found[1::2], strict=True):
            if self.symmetric:
                high = np.fmax(np.abs(low), np.abs(high))
                low = -high
            if old is not None:
                before = old[name].range_value
                if self.moving_average:
                    low, high = (_moved(*ends, self.averaging_constant) for ends in zip(before, (low, high)))
                else:
                    low, high = np.fmin(before[0], low), np.fmax(before[1], high)
            ranges[name] = TensorData(lowest=low, highest=high)
        self.calibrate_tensors_range = TensorsData(CalibrationMethod.MinMax, ranges)

    def compute_data(self) -> TensorsData:
        """The ranges; ValueError where nothing was collected."""
        if self.calibrate_tensors_range is None:
            raise InvalidArgument(NOTHING)
        return self.calibrate_tensors_range


class HistogramCalibrater(CalibraterBase):
    """A range of each tensor by its histogram; `sardonyx.quantization.histogram` has the ways."""

    kind = CalibrationMethod.Percentile

    def __init__(
        self,
        model_path: str | Path,
        op_types_to_calibrate: Sequence[str] | None = None,
        augmented_model_path: str | os.PathLike[str] = AUGMENTED,
        use_external_data_format: bool = False,
        method: str = "percentile",
        symmetric: bool = False,
        num_bins: int = 128,
        num_quantized_bins: int = 2048,
        percentile: float = 99.999,
        scenario: str = "same",
    ) -> None:
        super().__init__(model_path, op_types_to_calibrate, augmented_model_path, symmetric, use_external_data_format)
        self.collector = HistogramCollector(method, symmetric, num_bins, num_quantized_bins, percentile, scenario)

    def augment_graph(self) -> None:
        """Add what shows the tensors while the model runs."""
        add_watches(self.network, self.tensors)
        self._write()

    def collect_data(self, data_reader: CalibrationDataReader) -> None:
        """Run the model twice on all samples of a reader, which wait in a file in between."""
        session = self._session()
        with tempfile.TemporaryFile(prefix="sardonyx.") as file:
            count = 0
            with listening(self.collector.measure):
                for inputs in _samples(data_reader):
                    session.run(None, inputs)
                    pickle.dump(inputs, file, protocol=5)
                    count += 1
            if not count:
                raise InvalidArgument(NOTHING)
            file.seek(0)
            with listening(self.collector.count):
                for _ in range(count):
                    session.run(None, pickle.load(file))
        self.collector.finish()

    def compute_data(self) -> TensorsData:
        """The ranges; ValueError where nothing was collected."""
        return TensorsData(self.kind, self.collector.compute_collection_result())


class EntropyCalibrater(HistogramCalibrater):
    """The range that loses the least information when it is told in `num_quantized_bins` levels."""

    kind = CalibrationMethod.Entropy

    def __init__(
        self,
        model_path: str | Path,
        op_types_to_calibrate: Sequence[str] | None = None,
        augmented_model_path: str | os.PathLike[str] = AUGMENTED,
        use_external_data_format: bool = False,
        method: str = "entropy",
        symmetric: bool = False,
        num_bins: int = 128,
        num_quantized_bins: int = 128,
    ) -> None:
        super().__init__(
            model_path,
            op_types_to_calibrate,
            augmented_model_path,
            use_external_data_format,
            method=method,
            symmetric=symmetric,
            num_bins=num_bins,
            num_quantized_bins=num_quantized_bins,
        )


class PercentileCalibrater(HistogramCalibrater):
    """The range that holds `percentile` percent of the values."""

    def __init__(
        self,
        model_path: str | Path,
        op_types_to_calibrate: Sequence[str] | None = None,
        augmented_model_path: str | os.PathLike[str] = AUGMENTED,
        use_external_data_format: bool = False,
        method: str = "percentile",
        symmetric: bool = False,
        num_bins: int = 2048,
        percentile: float = 99.999,
    ) -> None:
        super().__init__(
            model_path,
            op_types_to_calibrate,
            augmented_model_path,
            use_external_data_format,
            method=method,
            symmetric=symmetric,
            num_bins=num_bins,
            percentile=percentile,
        )


class DistributionCalibrater(HistogramCalibrater):
    """Mean and spread, of the values or (`scenario` p3) of their cube roots."""

    kind = CalibrationMethod.Distribution

    def __init__(
        self,
        model_path: str | Path,
        op_types_to_calibrate: Sequence[str] | None = None,
        augmented_model_path: str | os.PathLike[str] = AUGMENTED,
        use_external_data_format: bool = False,
        method: str = "distribution",
        num_bins: int = 128,
        scenario: str = "same",
    ) -> None:
        super().__init__(
            model_path,
            op_types_to_calibrate,
            augmented_model_path,
            use_external_data_format,
            method=method,
            num_bins=num_bins,
            scenario=scenario,
        )


OPTIONS: dict[CalibrationMethod, tuple[type[CalibraterBase], dict[str, Any]]] = {
    CalibrationMethod.MinMax: (
        MinMaxCalibrater,
        {
            "symmetric": False,
            "moving_average": False,
            "averaging_constant": 0.01,
            "max_intermediate_outputs": None,
            "per_channel": False,
        },
    ),
    CalibrationMethod.Entropy: (EntropyCalibrater, {"num_bins": 128, "num_quantized_bins": 128, "symmetric": False}),
    CalibrationMethod.Percentile: (
        PercentileCalibrater,
        {"num_bins": 2048, "percentile": 99.999, "symmetric": True},
    ),
    CalibrationMethod.Distribution: (DistributionCalibrater, {"num_bins": 2048, "scenario": "same"}),
}
"""The calibrator of each method, the options that it heeds, and their defaults."""


def create_calibrator(
    model: str | Path,
    op_types_to_calibrate: Sequence[str] | None = None,
    augmented_model_path: str | os.PathLike[str] = AUGMENTED,
    calibrate_method: CalibrationMethod = CalibrationMethod.MinMax,
    use_external_data_format: bool = False,
    providers: Sequence[Any] | None = None,
    extra_options: Mapping[str, Any] | None = None,
) -> CalibraterBase:
    """A calibrator of this method that is ready to collect; options that the method does not heed are left out."""
    if calibrate_method not in OPTIONS:
        known = ", ".join(map(str, OPTIONS))
        raise InvalidArgument(f"Unsupported calibration method {calibrate_method!r}; there are {known}")
    kind, defaults = OPTIONS[calibrate_method]
    options = {name: (extra_options or {}).get(name, default) for name, default in defaults.items()}
    options["use_external_data_format"] = use_external_data_format
    calibrator = kind(model, op_types_to_calibrate, augmented_model_path, **options)
    calibrator.augment_graph()
    if providers:
        calibrator.execution_providers = list(providers)
    calibrator.create_inference_session()
    return calibrator


def _mean(ends: Sequence[np.ndarray]) -> np.ndarray:
    """The mean of ends of ranges, NaN left out; NaN where there is nothing else."""
    stacked = np.stack(ends)
    isnan = np.isnan(stacked)
    if not isnan.any():
        return np.asarray(stacked.mean(axis=0))
    counts = (~isnan).sum(axis=0)
    total = np.where(isnan, 0, stacked).sum(axis=0, dtype=stacked.dtype)
    return np.where(counts, total / np.maximum(counts, 1).astype(stacked.dtype), np.array(np.nan, stacked.dtype))


def _moved(was: np.ndarray, now: np.ndarray, share: float) -> np.ndarray:
    """A part of the way from an end of a range to another one; the other of the two where one is NaN."""
    moved = was + share * (now - was)
    return np.where(np.isnan(was), now, np.where(np.isnan(now), was, moved))


def _samples(reader: CalibrationDataReader) -> Iterator[dict[str, Any]]:
    """What a reader gives until it gives nothing."""
    while inputs := reader.get_next():
        yield inputs
