"""Families of detectors as graphs that pass on what they are fed, and what their papers make of it, in float64.

Each makes of a random head boxes [N, 4] (left, top, right, bottom in pixels of the input) and shares of classes [N, C].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.helper as oh
import onnx.numpy_helper

Floats = npt.NDArray[np.float64]
Raw = dict[str, npt.NDArray[np.float32]]
HEIGHT, WIDTH, CLASSES = 64, 96, 5
THREE, FOUR = (8, 16, 32), (8, 16, 32, 64)
LABELS = ("ant", "bee", "cat", "dog", "eel")


@dataclass(frozen=True)
class Family:
    """`make(rng)` gives the outputs of a network; `decode` what they stand for. `word` is what it is called, where
    `isclear` is false: then nothing but that tells it from others."""

    word: str
    make: Callable[[np.random.Generator], Raw]
    decode: Callable[[Mapping[str, npt.NDArray[Any]]], tuple[Floats, Floats]]
    isclear: bool = True
    overlaps: bool = True
    fit: str = "contain"
    options: Mapping[str, Any] = field(default_factory=dict)


def cells(strides: tuple[int, ...] = (8, 16, 32)) -> Floats:
    """x, y and stride of each."""
    listed = [
        (x, y, stride) for stride in strides for y in range(-(-HEIGHT // stride)) for x in range(-(-WIDTH // stride))
    ]
    return np.array(listed, float)


def corners(cx: Floats, cy: Floats, w: Floats, h: Floats) -> Floats:
    return np.stack([cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2], -1)


def sigmoid(x: Floats) -> Floats:
    return 1 / (1 + np.exp(-x))


def softmax(x: Floats) -> Floats:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def centred(rng: np.random.Generator, count: int, whole: tuple[float, float]) -> npt.NDArray[np.float32]:
    """Centres and sizes of boxes that overlap now and then."""
    places = rng.random((count, 2)) * whole
    return np.concatenate([places, (0.05 + 0.25 * rng.random((count, 2))) * whole], 1).astype(np.float32)


def shares(rng: np.random.Generator, count: int, classes: int = CLASSES) -> npt.NDArray[np.float32]:
    return (rng.random((count, classes)) ** 3).astype(np.float32)


def rows(x: npt.NDArray[Any]) -> Floats:
    return x[0].astype(np.float64)


def yolov5_head(rng: np.random.Generator) -> Raw:
    count = 3 * len(cells())
    parts = [centred(rng, count, (WIDTH, HEIGHT)), shares(rng, count, 1), shares(rng, count)]
    return {"output0": np.concatenate(parts, 1)[None]}


def yolov5(raw: Mapping[str, npt.NDArray[Any]]) -> tuple[Floats, Floats]:
    x = rows(raw["output0"])
    return corners(*x[:, :4].T), x[:, 4:5] * x[:, 5:]


def yolov8_head(rng: np.random.Generator) -> Raw:
    count = len(cells())
    parts = [centred(rng, count, (WIDTH, HEIGHT)), shares(rng, count)]
    return {"output0": np.ascontiguousarray(np.concatenate(parts, 1).T[None])}


def yolov8(raw: Mapping[str, npt.NDArray[Any]]) -> tuple[Floats, Floats]:
    x = rows(raw["output0"])
    return corners(*x[:4]), x[4 : 4 + CLASSES].T


def segment_head(rng: np.random.Generator) -> Raw:
    x = yolov8_head(rng)["output0"]
    coefficients = rng.standard_normal((1, 7, x.shape[2])).astype(np.float32)
    masks = rng.standard_normal((1, 7, 16, 24)).astype(np.float32)
    return {"output0": np.concatenate([x, coefficients], 1), "output1": masks}


def yolox_head(rng: np.random.Generator) -> Raw:
    count = len(cells())
    offsets, sizes = rng.random((count, 2)), rng.standard_normal((count, 2)) * 0.5 + 0.5
    parts = [offsets.astype(np.float32), sizes.astype(np.float32), shares(rng, count, 1), shares(rng, count)]
    return {"output": np.concatenate(parts, 1)[None]}


def yolox(raw: Mapping[str, npt.NDArray[Any]]) -> tuple[Floats, Floats]:
    x = rows(raw["output"])
    column, row, stride = cells().T
    boxes = corners(
        (x[:, 0] + column) * stride, (x[:, 1] + row) * stride, np.exp(x[:, 2]) * stride, np.exp(x[:, 3]) * stride
    )
    return boxes, x[:, 4:5] * x[:, 5:]


def nanodet_head(strides: tuple[int, ...]) -> Callable[[np.random.Generator], Raw]:
    def make(rng: np.random.Generator) -> Raw:
        count = len(cells(strides))
        distances = rng.standard_normal((count, 32)).astype(np.float32) * 2
        return {"output": np.concatenate([shares(rng, count), distances], 1)[None]}

    return make


def nanodet(
    strides: tuple[int, ...], shift: float
) -> Callable[[Mapping[str, npt.NDArray[Any]]], tuple[Floats, Floats]]:
    def decode(raw: Mapping[str, npt.NDArray[Any]]) -> tuple[Floats, Floats]:
        x = rows(raw["output"])
        column, row, stride = cells(strides).T
        left, top, right, bottom = (
            softmax(x[:, CLASSES + 8 * k : CLASSES + 8 * (k + 1)]) @ np.arange(8) * stride for k in range(4)
        )
        cx, cy = (column + shift) * stride, (row + shift) * stride
        return np.stack([cx - left, cy - top, cx + right, cy + bottom], -1), x[:, :CLASSES]

    return decode


def picodet_head(rng: np.random.Generator) -> Raw:
    x = nanodet_head(FOUR)(rng)["output"]
    ends = np.cumsum([len(cells((stride,))) for stride in FOUR])[:-1]
    split = [np.split(part, ends, 1) for part in (x[:, :, :CLASSES], x[:, :, CLASSES:])]
    return {f"output{k}": part for k, part in enumerate([*split[0], *split[1]])}


def picodet(raw: Mapping[str, npt.NDArray[Any]]) -> tuple[Floats, Floats]:
    parts = [np.concatenate([raw[f"output{k}"] for k in numbers], 1) for numbers in (range(4), range(4, 8))]
    return nanodet(FOUR, 0.5)({"output": np.concatenate(parts, 2)})


PRIORS = np.random.default_rng(9).random((40, 4)) * [0.8, 0.8, 0.3, 0.3] + 0.1


def ssd_head(rng: np.random.Generator) -> Raw:
    box = centred(rng, 40, (1, 1)).astype(float)
    return {
        "scores": softmax(rng.standard_normal((1, 40, CLASSES + 1)) * 2).astype(np.float32),
        "boxes": corners(*box.T)[None].astype(np.float32),
    }


def scaled(boxes: Floats) -> Floats:
    return boxes * [WIDTH, HEIGHT, WIDTH, HEIGHT]


def ssd(raw: Mapping[str, npt.NDArray[Any]]) -> tuple[Floats, Floats]:
    return scaled(rows(raw["boxes"])), rows(raw["scores"])[:, 1:]


def priors_head(rng: np.random.Generator) -> Raw:
    return {
        "loc": rng.standard_normal((1, 40, 4)).astype(np.float32),
        "conf": softmax(rng.standard_normal((1, 40, CLASSES + 1)) * 2).astype(np.float32),
    }


def with_priors(raw: Mapping[str, npt.NDArray[Any]]) -> tuple[Floats, Floats]:
    x = rows(raw["loc"])
    centre = PRIORS[:, :2] + x[:, :2] * 0.1 * PRIORS[:, 2:]
    size = PRIORS[:, 2:] * np.exp(x[:, 2:] * 0.2)
    return scaled(corners(*centre.T, *size.T)), rows(raw["conf"])[:, 1:]


def listed(x: npt.NDArray[Any], labels: npt.NDArray[Any]) -> Floats:
    """Shares of classes of which the model tells the best one."""
    found = np.full((len(x), CLASSES), -np.inf)
    found[np.arange(len(x)), labels.astype(int)] = x
    return found


def tensorflow_head(rng: np.random.Generator) -> Raw:
    left, top, right, bottom = corners(*centred(rng, 24, (1, 1)).astype(float).T).T
    return {
        "num_detections": np.array([24], np.float32),
        "detection_boxes": np.stack([top, left, bottom, right], -1)[None].astype(np.float32),
        "detection_scores": shares(rng, 1, 24),
        "detection_classes": rng.integers(1, CLASSES + 1, (1, 24)).astype(np.float32),
    }


def tensorflow(raw: Mapping[str, npt.NDArray[Any]]) -> tuple[Floats, Floats]:
    boxes = scaled(rows(raw["detection_boxes"])[:, [1, 0, 3, 2]])
    return boxes, listed(rows(raw["detection_scores"]), rows(raw["detection_classes"]) - 1)


def zoo_head(rng: np.random.Generator) -> Raw:
    boxes = corners(*centred(rng, 24, (1, 1)).astype(float).T)
    classes = rng.integers(1, CLASSES + 1, (1, 24))
    return {"bboxes": boxes[None].astype(np.float32), "labels": classes, "scores": shares(rng, 1, 24)}


def zoo(raw: Mapping[str, npt.NDArray[Any]]) -> tuple[Floats, Floats]:
    return scaled(rows(raw["bboxes"])), listed(rows(raw["scores"]), rows(raw["labels"]) - 1)


def ready_head(rng: np.random.Generator) -> Raw:
    boxes = corners(*centred(rng, 20, (WIDTH, HEIGHT)).astype(float).T)
    parts = [boxes, shares(rng, 20, 1), rng.integers(0, CLASSES, (20, 1))]
    return {"output0": np.concatenate(parts, 1)[None].astype(np.float32)}


def ready(raw: Mapping[str, npt.NDArray[Any]]) -> tuple[Floats, Floats]:
    x = rows(raw["output0"])
    return x[:, :4], listed(x[:, 4], x[:, 5])


def batch_head(rng: np.random.Generator) -> Raw:
    x = ready_head(rng)["output0"][0]
    return {"output": np.concatenate([0 * x[:, :1], x[:, :4], x[:, 5:], x[:, 4:5]], 1)}


def batch(raw: Mapping[str, npt.NDArray[Any]]) -> tuple[Floats, Floats]:
    x = raw["output"].astype(np.float64)
    return x[:, 1:5], listed(x[:, 6], x[:, 5])


def mmdetection_head(rng: np.random.Generator) -> Raw:
    x = ready_head(rng)["output0"]
    return {"dets": x[:, :, :5], "labels": x[:, :, 5].astype(np.int64)}


def mmdetection(raw: Mapping[str, npt.NDArray[Any]]) -> tuple[Floats, Floats]:
    x = rows(raw["dets"])
    return x[:, :4], listed(x[:, 4], raw["labels"][0])


def torchvision_head(rng: np.random.Generator) -> Raw:
    x = ready_head(rng)["output0"][0]
    return {"boxes": x[:, :4], "labels": x[:, 5].astype(np.int64) + 1, "scores": x[:, 4]}


def torchvision(raw: Mapping[str, npt.NDArray[Any]]) -> tuple[Floats, Floats]:
    return raw["boxes"].astype(np.float64), listed(raw["scores"].astype(np.float64), raw["labels"] - 1)


def nas_head(rng: np.random.Generator) -> Raw:
    boxes = corners(*centred(rng, 40, (WIDTH, HEIGHT)).astype(float).T)
    return {"904": boxes[None].astype(np.float32), "913": shares(rng, 40)[None]}


def nas(raw: Mapping[str, npt.NDArray[Any]]) -> tuple[Floats, Floats]:
    return rows(raw["904"]), rows(raw["913"])


def detr_head(more: int) -> Callable[[np.random.Generator], Raw]:
    def make(rng: np.random.Generator) -> Raw:
        logits = rng.standard_normal((1, 30, CLASSES + more)).astype(np.float32) * 2
        return {"logits": logits, "pred_boxes": centred(rng, 30, (1, 1))[None]}

    return make


def detr(raw: Mapping[str, npt.NDArray[Any]]) -> tuple[Floats, Floats]:
    return scaled(corners(*rows(raw["pred_boxes"]).T)), softmax(rows(raw["logits"]))[:, :-1]


def rtdetr(raw: Mapping[str, npt.NDArray[Any]]) -> tuple[Floats, Floats]:
    return scaled(corners(*rows(raw["pred_boxes"]).T)), sigmoid(rows(raw["logits"]))


def row_head(rng: np.random.Generator) -> Raw:
    return {"output0": np.concatenate([centred(rng, 30, (1, 1)), shares(rng, 30)], 1)[None]}


def row(raw: Mapping[str, npt.NDArray[Any]]) -> tuple[Floats, Floats]:
    x = rows(raw["output0"])
    return scaled(corners(*x[:, :4].T)), x[:, 4:]


FAMILIES = {
    "yolov5": Family("yolov5", yolov5_head, yolov5),
    "yolov8": Family("yolov8", yolov8_head, yolov8),
    "yolov8-segment": Family("yolov8", segment_head, yolov8),
    "yolox": Family("yolox", yolox_head, yolox, isclear=False, fit="corner"),
    "nanodet": Family("nanodet", nanodet_head(THREE), nanodet(THREE, 0.5), fit="stretch"),
    "nanodet-plus": Family("nanodet-plus", nanodet_head(FOUR), nanodet(FOUR, 0), fit="stretch"),
    "picodet": Family("picodet", picodet_head, picodet, fit="stretch"),
    "ssd": Family("ssd", ssd_head, ssd, isclear=False),
    "ssd-priors": Family("ssd", priors_head, with_priors, isclear=False, options={"priors": PRIORS}),
    "tensorflow": Family("ssd-ready", tensorflow_head, tensorflow, overlaps=False),
    "zoo": Family("ssd-listed", zoo_head, zoo, overlaps=False),
    "ready": Family("ready", ready_head, ready, overlaps=False),
    "yolov7-ready": Family("yolov7-ready", batch_head, batch, overlaps=False),
    "mmdetection": Family("mmdetection", mmdetection_head, mmdetection, overlaps=False),
    "torchvision": Family("torchvision", torchvision_head, torchvision, overlaps=False, fit="stretch"),
    "yolo-nas": Family("yolo-nas", nas_head, nas, isclear=False),
    "detr": Family("detr", detr_head(1), detr, overlaps=False, fit="stretch"),
    "rtdetr": Family("rtdetr", detr_head(0), rtdetr, overlaps=False, fit="stretch"),
    "rtdetr-rows": Family("rtdetr-rows", row_head, row, overlaps=False, fit="stretch"),
}


def passing(
    outputs: Mapping[str, npt.NDArray[Any]], size: tuple[Any, Any] = (HEIGHT, WIDTH), batch: tuple[int, ...] = (1,)
) -> onnx.ModelProto:
    """A network whose outputs are what it is fed as `fed/NAME`; the picture moves nothing."""
    image = oh.make_tensor_value_info("images", onnx.TensorProto.FLOAT, [*batch, 3, *size])
    kinds = {name: oh.np_dtype_to_tensor_dtype(array.dtype) for name, array in outputs.items()}
    fed = [oh.make_tensor_value_info(f"fed/{name}", kinds[name], x.shape) for name, x in outputs.items()]
    given = [oh.make_tensor_value_info(name, kinds[name], x.shape) for name, x in outputs.items()]
    zero = oh.make_tensor("zero", onnx.TensorProto.FLOAT, [], [0.0])
    nodes = [
        oh.make_node("ReduceMean", ["images"], ["mean"], keepdims=0),
        oh.make_node("Mul", ["mean", "zero"], ["nothing"]),
    ]
    for name in outputs:
        nodes.append(oh.make_node("Cast", ["nothing"], [f"nothing/{name}"], to=kinds[name]))
        nodes.append(oh.make_node("Add", [f"fed/{name}", f"nothing/{name}"], [name]))
    graph = oh.make_graph(nodes, "passing", [image, *fed], given, [zero])
    return oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)], ir_version=8)


def convolutional(labels: tuple[str, ...] = LABELS) -> onnx.ModelProto:
    """A network of random weights in the form of a YOLOv8, which sees the picture and names its classes."""
    rng = np.random.default_rng(3)
    image = oh.make_tensor_value_info("images", onnx.TensorProto.FLOAT, [1, 3, HEIGHT, WIDTH])
    given = oh.make_tensor_value_info("output0", onnx.TensorProto.FLOAT, [1, 4 + CLASSES, len(cells())])
    weights: Raw = {}
    nodes = []
    for stride in (8, 16, 32):
        name = f"w{stride}"
        weights[name] = (rng.standard_normal((4 + CLASSES, 3, stride, stride)) * 4 / stride).astype(np.float32)
        nodes.append(oh.make_node("Conv", ["images", name], [f"c{stride}"], strides=[stride, stride]))
        nodes.append(oh.make_node("Reshape", [f"c{stride}", "flat"], [f"f{stride}"]))
    nodes += [
        oh.make_node("Concat", ["f8", "f16", "f32"], ["all"], axis=2),
        oh.make_node("Sigmoid", ["all"], ["shares"]),
        oh.make_node("Mul", ["shares", "scale"], ["scaled"]),
        oh.make_node("Add", ["scaled", "places"], ["output0"]),
    ]
    weights["scale"] = np.array([8, 8, 24, 24] + [1] * CLASSES, np.float32)[None, :, None]
    x, y, stride = (each.astype(np.float32) for each in cells().T)
    weights["places"] = np.stack([x * stride, y * stride, *[0 * x] * (2 + CLASSES)])[None]
    constants = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    constants.append(onnx.numpy_helper.from_array(np.array([1, 4 + CLASSES, -1]), "flat"))
    graph = oh.make_graph(nodes, "convolutional", [image], [given], constants)
    proto = oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)], ir_version=8)
    for key, value in {"names": str(dict(enumerate(labels))), "task": "detect", "stride": "32"}.items():
        proto.metadata_props.add(key=key, value=value)
    return proto


def kept(
    boxes: Floats, classes: Floats, threshold: float, overlap: float | None, across: bool = False, most: int = 300
) -> tuple[Floats, Floats, npt.NDArray[np.int64]]:
    """The boxes that are left of these, one after another, the surest first."""
    best, labels = classes.max(1), classes.argmax(1)
    places = [k for k in np.lexsort((np.arange(len(best)), labels, -best)) if best[k] > threshold]
    chosen: list[int] = []
    for k in places:
        if all(
            overlap is None or (labels[k] != labels[j] and not across) or share(boxes[k], boxes[j]) <= overlap
            for j in chosen
        ):
            chosen.append(int(k))
    chosen = chosen[:most]
    return boxes[chosen], best[chosen], labels[chosen]


def share(a: Floats, b: Floats) -> float:
    """The intersection of two boxes as a part of their union."""
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    both = width * height
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both
    return both / union if union > 0 else 0.0


def placed(boxes: Floats, size: tuple[int, int], fit: str, target: tuple[int, int] = (HEIGHT, WIDTH)) -> Floats:
    """Boxes in pixels of a picture of this size that was fitted into [height, width]."""
    scales = np.array([target[1] / size[1], target[0] / size[0]])
    if fit != "stretch":
        scales[:] = scales.max() if fit == "cover" else scales.min()
    bars = (np.array(target[::-1]) - np.array(size[::-1]) * scales) / 2 if fit in ("cover", "contain") else np.zeros(2)
    found = (boxes.reshape(-1, 2, 2) - bars) / scales
    return found.clip(0, size[::-1]).reshape(-1, 4)
