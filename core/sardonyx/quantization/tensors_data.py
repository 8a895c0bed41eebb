"""What calibration found, tensor by tensor, and its file: a calibration cache."""

from __future__ import annotations

import json
import os
from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx.common.atomic import replacing
from sardonyx.errors import InvalidArgument
from sardonyx.quantization.enums import CalibrationMethod

FIELDS = ("avg", "std", "lowest", "highest", "hist", "hist_edges", "bins")
REAL = ("avg", "std", "lowest", "highest", "hist_edges")
"""Those that are float32 or float16, as the tensor is."""


class TensorData:
    """What is known of one tensor: its range (`lowest`, `highest`), or `avg` and `std`, and the histogram behind it.

    >>> TensorData(lowest=np.float32(-1), highest=np.float32(2)).range_value
    (np.float32(-1.0), np.float32(2.0))
    """

    def __init__(self, **kwargs: Any) -> None:
        for key, value in kwargs.items():
            if key not in FIELDS:
                raise InvalidArgument(f"TensorData has no {key!r}; it has {', '.join(FIELDS)}")
            if key in REAL and not hasattr(value, "dtype"):
                raise InvalidArgument(f"{key} of TensorData is a NumPy array or number, not {type(value).__name__}")
            if key in REAL and value.dtype not in (np.float16, np.float32):
                raise InvalidArgument(f"{key} of TensorData is float32 or float16, not {value.dtype}")
        self.__dict__.update(kwargs)

    @property
    def range_value(self) -> tuple[Any, Any]:
        """The least and the greatest value."""
        return self._pair("lowest", "highest")

    @property
    def avg_std(self) -> tuple[Any, Any]:
        """The mean and the standard deviation."""
        return self._pair("avg", "std")

    def _pair(self, *keys: str) -> tuple[Any, Any]:
        missing = [key for key in keys if key not in self.__dict__]
        if missing:
            raise AttributeError(
                f"this TensorData has no {' and no '.join(missing)}; it has {', '.join(self.__dict__)}"
            )
        return self.__dict__[keys[0]], self.__dict__[keys[1]]

    def to_dict(self) -> dict[str, Any]:
        """What the file has of it."""
        return {**self.__dict__, "CLS": "TensorData"}

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> TensorData:
        """The inverse of `to_dict`, of what JSON made of it."""
        return cls(**{key: _array(key, value) for key, value in d.items() if key != "CLS"})


def _array(key: str, value: Any) -> Any:
    if isinstance(value, dict) and value.get("CLS") == "numpy.array":
        return np.array(value["data"], np.dtype(value["dtype"]))
    return np.array(value, np.float32) if key in REAL and isinstance(value, (int, float)) else value


class TensorsData:
    """TensorData by tensor; a pair stands for a range, four values for a range and a histogram."""

    def __init__(self, calibration_method: CalibrationMethod, data: Mapping[str, Any]) -> None:
        self.calibration_method = calibration_method
        self.data = {name: self._of(name, each) for name, each in data.items()}

    def _of(self, name: Any, given: Any) -> TensorData:
        if not isinstance(name, str):
            raise TypeError(f"the name of a tensor is a string, not {type(name).__name__}")
        if isinstance(given, TensorData):
            return given
        if isinstance(given, tuple) and len(given) == 2 and self.calibration_method is CalibrationMethod.MinMax:
            return TensorData(lowest=given[0], highest=given[1])
        if isinstance(given, tuple) and len(given) == 4:
            return TensorData(lowest=given[0], highest=given[1], hist=given[2], bins=given[3])
        raise TypeError(f"'{name}' has {given!r}; a tensor has TensorData, a pair or four values")

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    def __contains__(self, key: object) -> bool:
        return key in self.data

    def __getitem__(self, key: str) -> TensorData:
        return self.data[key]

    def __setitem__(self, key: str, value: TensorData) -> None:
        if key not in self.data:
            raise RuntimeError(f"only a tensor that was calibrated can be changed, and {key!r} was not")
        self.data[key] = value

    def keys(self) -> KeysView[str]:
        """The names of the tensors."""
        return self.data.keys()

    def values(self) -> ValuesView[TensorData]:
        """What is known of each."""
        return self.data.values()

    def items(self) -> ItemsView[str, TensorData]:
        """Both."""
        return self.data.items()

    def to_dict(self) -> dict[str, Any]:
        """What the file has of it."""
        return {"CLS": "TensorsData", "data": self.data, "calibration_method": self.calibration_method}

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> TensorsData:
        """The inverse of `to_dict`, of what JSON made of it."""
        method = d["calibration_method"]
        if isinstance(method, dict):
            method = CalibrationMethod[method["value"].split(".")[-1]]
        return cls(method, {name: TensorData.from_dict(each) for name, each in d["data"].items()})


class CalibrationCacheEncoder(json.JSONEncoder):
    """JSON of what calibration found, and of NumPy's arrays and numbers."""

    def default(self, obj: Any) -> Any:
        if isinstance(obj, (TensorData, TensorsData)):
            return obj.to_dict()
        if isinstance(obj, np.ndarray):
            return {"data": obj.tolist(), "dtype": str(obj.dtype), "CLS": "numpy.array"}
        if isinstance(obj, CalibrationMethod):
            return {"CLS": "CalibrationMethod", "value": str(obj)}
        if isinstance(obj, (np.integer, np.floating)):
            return obj.item()
        return super().default(obj)


def save_tensors_data(tensors_data: TensorsData, path: str | os.PathLike[str], *, smooth_quant: bool = False) -> None:
    """Write a calibration cache, which appears complete or not at all; folders that are missing are made."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({**tensors_data.to_dict(), "smooth_quant": smooth_quant}, cls=CalibrationCacheEncoder)
    with replacing(target) as file:
        file.write(text.encode())


def load_tensors_data(path: str | os.PathLike[str]) -> TensorsData:
    """Read a calibration cache; FileNotFoundError where there is none, ValueError where the path is a folder."""
    source = Path(path)
    if not source.exists():
        raise FileNotFoundError(f"no calibration cache is at {source}")
    if not source.is_file():
        raise InvalidArgument(f"the calibration cache {source} is not a file")
    return TensorsData.from_dict(read_cache(source))


def read_cache(source: Path) -> dict[str, Any]:
    """What a calibration cache holds; InvalidArgument where the file is none."""
    try:
        found: dict[str, Any] = json.loads(source.read_text("utf-8"))
        if isinstance(found["data"], dict) and found["calibration_method"]:
            return found
    except (ValueError, RecursionError, KeyError, TypeError):
        pass
    raise InvalidArgument(f"{source} is no calibration cache; delete it, and it is made anew")
